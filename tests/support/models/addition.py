"""A small model that adds a constant, its requests, and a device that runs it with hooks."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.devices.fakes import FakePreparedModel, WithoutCacheAndBuffers

from neurald.hal.device import (
    CacheFilesNeeded,
    Capabilities,
    Device,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    Performance,
    PrepareOptions,
    Timing,
    Verdict,
)
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.graph import Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import DeviceType, FeatureLevel, Lifetime, OperandType

FLOAT = OperandType.TENSOR_FLOAT32


def addition(
    constant: "np.ndarray[Any, Any]", *, pool: Memory | None = None, offset: int = 0, dynamic: bool = False
) -> Model:
    """Creates `output = input + constant`, with operands of one shape.

    `dynamic` leaves the first dimension of input and output open. The constant is at `offset` of
    `pool`, or in a new pool.
    """
    array = np.ascontiguousarray(constant, np.float32)
    open_shape = (0, *array.shape[1:]) if dynamic else array.shape
    location = Location(pool=0, offset=offset, length=array.nbytes)
    operands = (
        Operand(type=FLOAT, dimensions=open_shape, lifetime=Lifetime.SUBGRAPH_INPUT),
        Operand(type=FLOAT, dimensions=array.shape, lifetime=Lifetime.CONSTANT_POOL, location=location),
        Operand(type=OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY, value=bytes(4)),
        Operand(type=FLOAT, dimensions=open_shape, lifetime=Lifetime.SUBGRAPH_OUTPUT),
    )
    add = Operation(type=OperationType.ADD, inputs=(0, 1, 2), outputs=(3,))
    return Model(
        main=Subgraph(operands=operands, operations=(add,), inputs=(0,), outputs=(3,)),
        pools=(pool or HostMemory(array),),
    )


def request(values: "np.ndarray[Any, Any]", result: "np.ndarray[Any, Any]") -> Request:
    """Creates a request that reads `values` and writes `result` in place."""
    return Request(
        inputs=(Argument(pool=0, length=values.nbytes, dimensions=values.shape),),
        outputs=(Argument(pool=1, length=result.nbytes),),
        pools=(HostMemory(values), HostMemory(result)),
    )


class AddingPreparedModel(FakePreparedModel):
    """Runs `addition` after the device's hook."""

    def __init__(self, device: "AddingDevice", model: Model) -> None:
        constant = model.constant(model.main.operands[1])
        assert constant is not None
        self.constant = constant
        self._device = device

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        self._device.on_execute(request, options)
        source, target = request.inputs[0], request.outputs[0]
        assert source.pool is not None
        assert target.pool is not None
        view = request.pools[source.pool].view(source.offset, source.length)
        values = np.frombuffer(view, np.float32) if source.length else np.empty(0, np.float32)
        result = values.reshape(source.dimensions or self.constant.shape) + self.constant
        shape = OutputShape(dimensions=result.shape, sufficient=result.nbytes <= target.length)
        if shape.sufficient and result.nbytes:
            out = request.pools[target.pool].view(target.offset, result.nbytes)
            np.frombuffer(out, np.float32)[:] = result.reshape(-1)
        timing = Timing(on_device_ns=1, in_driver_ns=2) if options.measure else Timing()
        return ExecutionResult(output_shapes=(shape,), timing=timing)

    def profile(self) -> Sequence[KernelTime]:
        return self._device.on_profile()


class AddingDevice(WithoutCacheAndBuffers):
    """Runs `addition`.

    `on_prepare` and `on_execute` are called first, and may wait or raise; `on_profile` returns
    profiles.
    """

    name = "adder"
    type = DeviceType.OTHER
    feature_level = FeatureLevel.LEVEL_3
    extensions = ("example.extension",)
    cache_files_needed = CacheFilesNeeded(model=1, data=2)

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.executions_at_once = 4
        self.on_prepare: Callable[[Model, PrepareOptions], None] = lambda model, options: None
        self.on_execute: Callable[[Request, ExecuteOptions], None] = lambda request, options: None
        self.on_profile: Callable[[], Sequence[KernelTime]] = lambda: ()

    def capabilities(self) -> Capabilities:
        half = Performance(exec_time=0.5, power_usage=0.25)
        return Capabilities(
            operand_performance={FLOAT: half, OperandType.INT32: Performance(exec_time=3.0, power_usage=2.0)},
            relaxed_float32_scalar=half,
            relaxed_float32_tensor=half,
            if_performance=half,
            while_performance=half,
        )

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return tuple(
            Verdict(ok=True)
            if operation.type is OperationType.ADD
            else Verdict(ok=False, reason=f"{operation.type.name} is not an addition")
            for operation in model.main.operations
        )

    def prepare_model(self, model: Model, options: PrepareOptions) -> AddingPreparedModel:
        self.on_prepare(model, options)
        return AddingPreparedModel(self, model)


def create() -> AddingDevice:
    """Creates the device; `support.models.addition:create` names it as a driver."""
    return AddingDevice()


def create_other() -> AddingDevice:
    """Creates a device with another version."""
    return AddingDevice(version="2")


def create_slow() -> AddingDevice:
    """Creates a device that waits s seconds if the first value of constant or input is -s."""
    device = AddingDevice()

    def on_prepare(model: Model, options: PrepareOptions) -> None:
        constant = model.constant(model.main.operands[1])
        assert constant is not None
        time.sleep(max(0.0, -float(constant.flat[0])))

    def on_execute(request: Request, options: ExecuteOptions) -> None:
        source = request.inputs[0]
        assert source.pool is not None
        (first,) = np.frombuffer(request.pools[source.pool].view(source.offset, 4), np.float32)
        time.sleep(max(0.0, -float(first)))

    device.on_prepare, device.on_execute = on_prepare, on_execute
    return device


def one_plus(device: Device, number: float) -> float:
    """Returns the sum, computed on a device."""
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    return float(run_addition(prepared, np.full(2, number, np.float32))[0])


def run_addition(
    prepared: Any, values: "np.ndarray[Any, Any]", options: ExecuteOptions | None = None
) -> "np.ndarray[Any, Any]":
    """Returns the result of an addition."""
    result = np.full_like(values, np.nan)
    answer = prepared.execute(request(values, result), options or ExecuteOptions())
    assert answer.is_sufficient
    return result

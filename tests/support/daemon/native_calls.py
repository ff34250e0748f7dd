"""Calls that a daemon runs in native code: models, callers, and a gate that is held."""

import ctypes
import platform
import threading
import time

import numpy as np
import pytest
from support.models.addition import request
from support.waiting import wait_until

from neurald.drivers.cpu.native.programs.step_program import futex_number
from neurald.hal.admission.executions.native_gate import NativeGate
from neurald.hal.device import ExecuteOptions, PreparedModel
from neurald.hal.errors import OpFailed
from neurald.hal.execution.native_serving import GATE
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace
from neurald.hal.rpc.server.server import DeviceServer

RUN = ExecuteOptions()
LENGTH = 8


def gather() -> Model:
    """Creates a model that reads elements of its first input, at the places in the second one."""
    operands = (
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(LENGTH,), lifetime=Lifetime.SUBGRAPH_INPUT),
        Operand(type=OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY, value=bytes(4)),
        Operand(type=OperandType.TENSOR_INT32, dimensions=(LENGTH,), lifetime=Lifetime.SUBGRAPH_INPUT),
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(LENGTH,), lifetime=Lifetime.SUBGRAPH_OUTPUT),
    )
    operation = Operation(type=OperationType.GATHER, inputs=(0, 1, 2), outputs=(3,))
    return Model(main=Subgraph(operands=operands, operations=(operation,), inputs=(0, 2), outputs=(3,)))


def slow(size: int = 512, repeats: int = 40) -> Model:
    """Creates a model that multiplies matrices for a while."""
    kind = OperandType.TENSOR_FLOAT32
    operands = [Operand(type=kind, dimensions=(size, size), lifetime=Lifetime.SUBGRAPH_INPUT)]
    no = Operand(type=OperandType.BOOL, lifetime=Lifetime.CONSTANT_COPY, value=bytes(1))
    operands += [no, no]
    operations, last = [], 0
    for number in range(repeats):
        is_end = number == repeats - 1
        lifetime = Lifetime.SUBGRAPH_OUTPUT if is_end else Lifetime.TEMPORARY_VARIABLE
        operands.append(Operand(type=kind, dimensions=(size, size), lifetime=lifetime))
        product = len(operands) - 1
        operations.append(
            Operation(type=OperationType.BATCH_MATMUL, inputs=(last, 0, 1, 2), outputs=(product,))
        )
        last = product
    return Model(
        main=Subgraph(operands=tuple(operands), operations=tuple(operations), inputs=(0,), outputs=(last,))
    )


def slow_request(size: int = 512) -> Request:
    """Creates a request for `slow`."""
    return request(np.zeros((size, size), np.float32), np.zeros((size, size), np.float32))


def run_often(prepared: PreparedModel, wanted: Request, options: ExecuteOptions) -> None:
    for _ in range(1000):
        prepared.execute(wanted, options)


class Caller:
    """Runs one request again and again."""

    def __init__(self, prepared: PreparedModel, length: int = 3) -> None:
        self.values, self.result = np.zeros(length, np.float32), np.zeros(length, np.float32)
        self.request = request(self.values, self.result)
        self.prepared = prepared

    def run(self, value: float, options: ExecuteOptions = RUN) -> None:
        self.values[:] = value
        assert self.prepared.execute(self.request, options).is_sufficient
        assert self.result.tolist() == [value + 1] * len(self.result)


def native(server: DeviceServer) -> int:
    """Returns how many executions native code has run. It replies before it counts."""
    wait_until(lambda: server.handler.admission.calls == 0)
    return server.handler.admission.gate.executions


class Gatherer:
    """Gathers elements, which are at valid places or not."""

    def __init__(self, prepared: PreparedModel) -> None:
        self.prepared = prepared
        self.values, self.places = np.zeros(LENGTH, np.float32), np.zeros(LENGTH, np.int32)
        self._result = np.zeros(LENGTH, np.float32)
        of_values, of_places = request(self.values, self._result), request(self.places, self._result)
        self.request = Request(
            inputs=(of_values.inputs[0], replace(of_places.inputs[0], pool=2)),
            outputs=of_values.outputs,
            pools=(*of_values.pools, of_places.pools[0]),
        )

    def run(self, first: int, options: ExecuteOptions = RUN) -> None:
        self.values[:] = np.random.default_rng(first).random(LENGTH)
        self.places[:] = (np.arange(LENGTH) * 3 + first) % LENGTH
        self.prepared.execute(self.request, options)
        assert self._result.tolist() == self.values[self.places].tolist()

    def fail(self) -> None:
        self.places[:] = LENGTH
        with pytest.raises(OpFailed, match="GATHER"):
            self.prepared.execute(self.request, RUN)


class HeldGate:
    """Lets native code run one execution at a time, which seems to be under way until `release`."""

    def __init__(self, gate: NativeGate) -> None:
        self._gate = gate
        gate._number("LIMIT").value = 1

    @property
    def waiting(self) -> int:
        return self._gate.waiting

    def hold(self) -> None:
        # Native code replies before it counts.
        wait_until(lambda: self._gate.running == 0)
        self._gate._number("RUNNING").value = 1

    def release(self) -> None:
        """Lets the next execution run, and wakes a runner for it."""
        self._gate._number("RUNNING").value = 0
        self._gate._number("READY").value += 1
        number = futex_number(platform.machine())
        ctypes.CDLL(None).syscall(
            ctypes.c_long(number), ctypes.c_void_p(self._gate.address + GATE["READY"]), 129, 1
        )


class Run(threading.Thread):
    """Runs a request once, in a thread of its own."""

    def __init__(self, prepared: PreparedModel, wanted: Request, options: ExecuteOptions = RUN) -> None:
        super().__init__()
        self._prepared, self._wanted, self._options = prepared, wanted, options
        self.error: BaseException | None = None
        self.ended_s = 0.0
        self.start()

    def run(self) -> None:
        try:
            self._prepared.execute(self._wanted, self._options)
        except BaseException as error:
            self.error = error
        self.ended_s = time.monotonic()

"""A device of which one kernel flips one bit of its first output."""

import random
import time

from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice

from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, PreparedModel, PrepareOptions
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Argument, Request
from neurald.runtime.model.boundary import boundaries
from neurald.runtime.model.branches import MAIN
from neurald.runtime.model.step_model import step_model


class LyingDevice(SampleDevice):
    """Computes operation after operation; that of one type flips a bit of one element.

    Attributes:
        kind: of the operation whose kernel is wrong; None for none.
        bit: that is flipped in an element.
        every: only in every such execution.
        chances: if set, decides for each execution with a probability of 1 / `every`.
        pause_s: how much longer an execution takes.
        executions: how many there were.
    """

    def __init__(
        self, name: str = "lying", kind: OperationType | None = OperationType.MUL, *, bit: int = 22
    ) -> None:
        super().__init__(name, performance=0.5)
        self.kind = kind
        self.bit = bit
        self.every = 1
        self.chances: random.Random | None = None
        self.pause_s = 0.0
        self.executions = 0

    def is_wrong_now(self) -> bool:
        """Counts an execution; returns True if its result is to be wrong."""
        self.executions += 1
        if self.chances is not None:
            return self.chances.random() * self.every < 1
        return self.executions % self.every == 0

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        self.prepared.append(model)
        return _LyingModel(self, model, options)

    def prepare_right(self, model: Model, options: PrepareOptions) -> PreparedModel:
        return super().prepare_model(model, options)


class _LyingModel(FakePreparedModel):
    def __init__(self, device: LyingDevice, model: Model, options: PrepareOptions) -> None:
        self._device = device
        self._model = model
        graph = model.main
        self._parts = []
        for position, operation in enumerate(graph.operations):
            (boundary,) = boundaries(graph, [[position]])
            if boundary.outputs:
                part = step_model(model, MAIN, [position], boundary)
                self._parts.append((part, device.prepare_right(part.model, options), operation.type))

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        graph = self._model.main
        values: dict[int, Array] = {}
        for index, argument in zip(graph.inputs, request.inputs, strict=True):
            view = request.pools[argument.pool or 0].view(argument.offset, argument.length)
            values[index] = np.frombuffer(view, graph.operands[index].type.dtype).copy()
        is_wrong = self._device.is_wrong_now()
        time.sleep(self._device.pause_s)
        for part, prepared, kind in self._parts:
            outputs = [_empty(graph.operands[index]) for index in part.outputs]
            arrays = [*(values[index] for index in part.inputs), *outputs]
            arguments = [Argument(pool=number, length=array.nbytes) for number, array in enumerate(arrays)]
            prepared.execute(
                Request(
                    inputs=tuple(arguments[: len(part.inputs)]),
                    outputs=tuple(arguments[len(part.inputs) :]),
                    pools=tuple(HostMemory(array) for array in arrays),
                ),
                options,
            )
            if is_wrong and kind is self._device.kind and outputs[0].size:
                outputs[0].view(f"u{outputs[0].itemsize}")[0] ^= 1 << self._device.bit
            values |= dict(zip(part.outputs, outputs, strict=True))
        for index, argument in zip(graph.outputs, request.outputs, strict=True):
            content = values[index].tobytes()
            request.pools[argument.pool or 0].view(argument.offset, len(content))[:] = content
        shapes = tuple(OutputShape(dimensions=graph.operands[index].dimensions) for index in graph.outputs)
        return ExecutionResult(output_shapes=shapes)


def _empty(operand: Operand) -> Array:
    return np.empty(int(np.prod(operand.dimensions or ())), operand.type.dtype)


def create() -> LyingDevice:
    """Creates a device with a wrong int8 kernel; `support.devices.lying:create` as a driver."""
    return LyingDevice(kind=OperationType.TFLITE_FULLY_CONNECTED, bit=6)


def create_sometimes() -> LyingDevice:
    """Creates a device that is wrong in its fifth execution, and then in one of ten at random."""
    device = LyingDevice("sometimes", bit=30)
    device.every, device.chances, device.pause_s = 10, random.Random(9), 5e-3
    return device

"""A device with device memory."""

from collections.abc import Callable

from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice

from neurald.hal.device import (
    BufferDescription,
    ExecuteOptions,
    ExecutionResult,
    PreparedModel,
    PrepareOptions,
)
from neurald.hal.errors import Error, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.model.types import Dimensions
from neurald.hal.records import replace

#: Capacity of a buffer in bytes.
ROOM_BYTES = 4096


class KeptBuffer(DeviceBuffer):
    """Memory of a `KeepingDevice`, for values of any size."""

    def __init__(self) -> None:
        super().__init__(ROOM_BYTES)
        self.content = b""
        self.fails: Error | None = None
        self.lost = False

    @property
    def is_lost(self) -> bool:
        return self.lost

    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        if self.fails is not None:
            raise self.fails
        self.content = bytes(source.view())

    def read(self, target: Memory) -> None:
        if self.fails is not None:
            raise self.fails
        target.view()[:] = self.content


class KeepingPreparedModel(FakePreparedModel):
    """Runs on the CPU, with the contents of its device's buffers."""

    def __init__(self, device: "KeepingDevice", model: Model, prepared: PreparedModel) -> None:
        self._device = device
        self._model = model
        self._prepared = prepared

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        if self._device.fails is not None:
            raise self._device.fails
        pools = list(request.pools)
        inputs, outputs = list(request.inputs), list(request.outputs)
        for position, argument in enumerate(inputs):
            buffer = None if argument.pool is None else request.pools[argument.pool]
            if isinstance(buffer, KeptBuffer):
                inputs[position] = replace(argument, pool=len(pools), length=len(buffer.content))
                pools.append(HostMemory(buffer.content))
        kept: list[tuple[int, KeptBuffer, bytearray]] = []
        for position, argument in enumerate(outputs):
            buffer = None if argument.pool is None else request.pools[argument.pool]
            if isinstance(buffer, KeptBuffer):
                room = bytearray(ROOM_BYTES)
                kept.append((position, buffer, room))
                outputs[position] = replace(argument, pool=len(pools), length=len(room))
                pools.append(HostMemory(room))
        moved = Request(inputs=tuple(inputs), outputs=tuple(outputs), pools=tuple(pools))
        result = self._prepared.execute(moved, options)
        for position, buffer, room in kept:
            operand = self._model.main.operands[self._model.main.outputs[position]]
            buffer.content = bytes(room[: result.output_shapes[position].size_bytes(operand.type)])
        return result


class KeepingDevice(SampleDevice):
    """The CPU device with device memory. Executions and allocations raise `fails`."""

    def __init__(
        self, name: str = "keeping", supports: Callable[[OperationType], bool] = lambda _: True
    ) -> None:
        super().__init__(name, performance=0.5, supports=supports)
        self.fails: Error | None = None
        self.descriptions: list[BufferDescription] = []
        self.buffers: list[KeptBuffer] = []

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        return KeepingPreparedModel(self, model, super().prepare_model(model, options))

    def allocate(self, description: BufferDescription) -> Memory:
        if self.fails is not None:
            raise self.fails
        if not all(
            isinstance(role.prepared_model, KeepingPreparedModel)
            for role in (*description.input_roles, *description.output_roles)
        ):
            raise OpFailed("a prepared model is of another device")
        self.descriptions.append(description)
        self.buffers.append(KeptBuffer())
        return self.buffers[-1]


def create() -> KeepingDevice:
    """Creates the device; `support.devices.buffers:create` names it as a driver."""
    return KeepingDevice()

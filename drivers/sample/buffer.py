"""Allocates host memory that inputs and outputs of the device's models can lie in.

A device with memory of its own returns a `neurald.hal.model.device_buffer.DeviceBuffer` instead.
"""

from neurald.drivers.sample.prepared_model import SamplePreparedModel
from neurald.hal.buffers.tracked_buffer import described_uses, host_memory_for
from neurald.hal.device import BufferDescription, BufferRole
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory
from neurald.hal.types import Operand


def allocate(device: str, description: BufferDescription) -> Memory:
    """Allocates memory for the roles of a description.

    Args:
        device: the name of the device.
        description: the inputs and outputs that the memory is for.

    Raises:
        BadData: there is no role, or roles contradict each other, or another device prepared their
            models.
        OpFailed: a dimension is unspecified.
    """

    def operand_of(role: BufferRole, is_output: bool) -> Operand:
        prepared = role.prepared_model
        if not isinstance(prepared, SamplePreparedModel) or prepared.device != device:
            raise BadData(f"{device}: a role refers to a model that this device did not prepare")
        graph = prepared.model.main
        kind, indexes = ("output", graph.outputs) if is_output else ("input", graph.inputs)
        if not 0 <= role.index < len(indexes):
            raise BadData(f"there is no {kind} {role.index}; the model has {len(indexes)}")
        return graph.operands[indexes[role.index]]

    return host_memory_for(device, described_uses(description, operand_of), description.dimensions)

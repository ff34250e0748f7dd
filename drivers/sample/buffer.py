"""Memory of the sample device: host memory, large enough for all described roles.

A device with its own memory returns a `neurald.hal.model.device_buffer.DeviceBuffer` instead.
"""

from collections.abc import Iterator

import numpy as np

from neurald.drivers.sample.prepared_model import SamplePreparedModel
from neurald.hal.buffers.tracked_buffer import described_operand
from neurald.hal.device import BufferDescription
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.types import Operand, value_size


def allocate(device: str, description: BufferDescription) -> Memory:
    """Allocates memory for the roles of a description.

    Args:
        device: the device that prepared the models of the roles.
        description: the uses of the memory.

    Raises:
        BadData: there is no role, or roles contradict each other or belong to another device.
        OpFailed: a dimension is unspecified, for which this device offers no memory.
    """
    uses = list(_uses(device, description))
    operand = described_operand(uses, description.dimensions)
    size = value_size(operand.type, operand.dimensions)
    if size is None:
        raise OpFailed(f"{device} offers memory for fully specified operands only")
    return HostMemory(np.zeros(size, np.uint8))


def _uses(device: str, description: BufferDescription) -> Iterator[tuple[str, Operand]]:
    for what, roles in (("input", description.input_roles), ("output", description.output_roles)):
        for role in roles:
            prepared = role.prepared_model
            if not isinstance(prepared, SamplePreparedModel) or prepared.device != device:
                raise BadData(f"a role refers to a model that {device} did not prepare")
            graph = prepared.model.main
            indexes = graph.outputs if what == "output" else graph.inputs
            if not 0 <= role.index < len(indexes):
                raise BadData(f"{what} {role.index}; the model has {len(indexes)}")
            yield f"{what} {role.index}", graph.operands[indexes[role.index]]

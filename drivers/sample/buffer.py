"""Memory of the sample device: host memory, large enough for all roles that are described.

A device with memory of its own returns a `neurald.hal.model.device_buffer.DeviceBuffer` instead.
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
    """Memory for the roles of a description.

    Args:
        device: whose prepared models the roles are of.
        description: what the memory is for.

    Raises:
        BadData: there is no role, roles contradict each other, or are of another device.
        OpFailed: a dimension stays open, and this device offers no memory then.
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
                raise BadData(f"a role in a model that {device} has not prepared")
            graph = prepared.model.main
            indexes = graph.outputs if what == "output" else graph.inputs
            if not 0 <= role.index < len(indexes):
                raise BadData(f"{what} {role.index}; the model has {len(indexes)}")
            yield f"{what} {role.index}", graph.operands[indexes[role.index]]

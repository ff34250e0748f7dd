"""Allocates host memory that inputs and outputs of the device's models can lie in.

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
    """Allocates memory for the roles of a description.

    Args:
        device: the name of the device.
        description: the inputs and outputs that the memory is for.

    Raises:
        BadData: there is no role, or roles contradict each other, or another device prepared their
            models.
        OpFailed: a dimension is unspecified.
    """
    uses = list(_uses(device, description))
    operand = described_operand(uses, description.dimensions)
    size = value_size(operand.type, operand.dimensions)
    if size is None:
        raise OpFailed(f"{device} allocates memory for fully specified operands only")
    return HostMemory(np.zeros(size, np.uint8))


def _uses(device: str, description: BufferDescription) -> Iterator[tuple[str, Operand]]:
    """Yields the operand of each role, with its name for error messages."""
    for kind, roles in (("input", description.input_roles), ("output", description.output_roles)):
        for role in roles:
            prepared = role.prepared_model
            if not isinstance(prepared, SamplePreparedModel) or prepared.device != device:
                raise BadData(f"a role refers to a model that {device} did not prepare")
            graph = prepared.model.main
            indexes = graph.outputs if kind == "output" else graph.inputs
            if not 0 <= role.index < len(indexes):
                raise BadData(f"there is no {kind} {role.index}; the model has {len(indexes)}")
            yield f"{kind} {role.index}", graph.operands[indexes[role.index]]

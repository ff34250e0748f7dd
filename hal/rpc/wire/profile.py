"""Times of kernels as protobuf messages and back; see `neurald.hal.rpc.wire.model`."""

from collections.abc import Sequence

from neurald._proto import device_pb2
from neurald.hal.device import MAX_DURATION_NS, KernelTime
from neurald.hal.errors import BadData
from neurald.hal.rpc.wire.model import text
from neurald.hal.validation.model_rules import MAX_OPERATIONS

#: Kernels of one profile, and operations that all of them name together. More than any model has.
_MAX_KERNELS = 4 * MAX_OPERATIONS
_MAX_MENTIONS = 16 * MAX_OPERATIONS
#: Characters of a kernel's name and of its label.
_MAX_TEXT = 256


def profile_to_wire(kernels: Sequence[KernelTime]) -> device_pb2.ProfileReply:
    """A message for the times of kernels; long names and labels are cut."""
    return device_pb2.ProfileReply(
        kernels=(
            device_pb2.KernelTime(
                name=text(kernel.name[:_MAX_TEXT]),
                duration_ns=kernel.duration_ns,
                operations=kernel.operations,
                label=text(kernel.label[:_MAX_TEXT]),
            )
            for kernel in kernels
        )
    )


def profile_from_wire(message: device_pb2.ProfileReply, operations: int | None) -> tuple[KernelTime, ...]:
    """The times that a message holds.

    Args:
        message: what a daemon answered.
        operations: how many the main graph has; None where that is not known.

    Raises:
        BadData: a number is outside its limits, or an operation outside the model.
    """
    limit = MAX_OPERATIONS if operations is None else operations
    mentions = sum(len(kernel.operations) for kernel in message.kernels)
    if len(message.kernels) > _MAX_KERNELS or mentions > _MAX_MENTIONS:
        raise BadData(
            f"{len(message.kernels)} kernels of {mentions} operations; "
            f"at most {_MAX_KERNELS} and {_MAX_MENTIONS} are expected"
        )
    for kernel in message.kernels:
        if max(len(kernel.name), len(kernel.label)) > _MAX_TEXT:
            raise BadData(
                f"a kernel's name or label has more than the {_MAX_TEXT} characters that it may have"
            )
        if kernel.duration_ns > MAX_DURATION_NS:
            raise BadData(f"kernel {kernel.name!r} ran {kernel.duration_ns} ns, which is no time")
        outside = [position for position in kernel.operations if position >= limit]
        if outside:
            raise BadData(f"kernel {kernel.name!r} computes operation {outside[0]}; the model has {limit}")
    return tuple(
        KernelTime(
            name=kernel.name,
            duration_ns=kernel.duration_ns,
            operations=tuple(kernel.operations),
            label=kernel.label,
        )
        for kernel in message.kernels
    )

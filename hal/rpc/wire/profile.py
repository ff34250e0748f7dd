"""Converts times of kernels to protobuf messages and back; see `neurald.hal.rpc.wire.model`."""

from collections.abc import Sequence

from neurald._proto import device_pb2
from neurald.hal.device import MAX_DURATION_NS, KernelTime
from neurald.hal.errors import BadData
from neurald.hal.rpc.wire.model import text
from neurald.hal.validation.model_rules import MAX_OPERATIONS
from neurald.hal.wording import printable

#: How many kernels a profile may have, and how many operations all of them together. No model has
#: as many.
_MAX_KERNELS = 4 * MAX_OPERATIONS
_MAX_MENTIONS = 16 * MAX_OPERATIONS
#: How many characters a kernel's name and its label may have.
_MAX_TEXT_LENGTH = 256


def profile_to_wire(kernels: Sequence[KernelTime]) -> device_pb2.ProfileReply:
    """Encodes the times of kernels; long names and labels are truncated."""
    return device_pb2.ProfileReply(
        kernels=(
            device_pb2.KernelTime(
                name=text(kernel.name[:_MAX_TEXT_LENGTH]),
                duration_ns=kernel.duration_ns,
                operations=kernel.operations,
                label=text(kernel.label[:_MAX_TEXT_LENGTH]),
            )
            for kernel in kernels
        )
    )


def profile_from_wire(message: device_pb2.ProfileReply, operations: int | None) -> tuple[KernelTime, ...]:
    """Decodes the times of kernels.

    Args:
        message: the message from a daemon.
        operations: how many operations the main graph has; None if that is not known.

    Raises:
        BadData: a number is out of range, or an operation is not in the model.
    """
    limit = MAX_OPERATIONS if operations is None else operations
    mentions = sum(len(kernel.operations) for kernel in message.kernels)
    if len(message.kernels) > _MAX_KERNELS or mentions > _MAX_MENTIONS:
        raise BadData(
            f"a profile has {len(message.kernels)} kernels of {mentions} operations; "
            f"at most {_MAX_KERNELS} and {_MAX_MENTIONS} are expected"
        )
    for kernel in message.kernels:
        if max(len(kernel.name), len(kernel.label)) > _MAX_TEXT_LENGTH:
            raise BadData(
                f"a kernel's name or label has more than {_MAX_TEXT_LENGTH} characters, which is the limit"
            )
        if kernel.duration_ns > MAX_DURATION_NS:
            raise BadData(
                f"kernel {kernel.name!r} ran {kernel.duration_ns} ns; at most {MAX_DURATION_NS} are expected"
            )
        outside = [position for position in kernel.operations if position >= limit]
        if outside:
            raise BadData(f"kernel {kernel.name!r} computes operation {outside[0]}; the model has {limit}")
    return tuple(
        KernelTime(
            name=printable(kernel.name),
            duration_ns=kernel.duration_ns,
            operations=tuple(kernel.operations),
            label=printable(kernel.label),
        )
        for kernel in message.kernels
    )

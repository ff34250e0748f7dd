"""Flattens contraction kernels to two axes: positions and channels."""

from neurald.drivers.compiler.ir.expression import Expression, axis, index
from neurald.drivers.compiler.ir.extents.extent import is_one
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.kernel import Kernel, element_count
from neurald.drivers.compiler.ir.offsets import stride_along
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.hal.records import replace


def pitch_of(kernel: Kernel) -> int:
    """Returns the stride of a flattened kernel's positions in the output, in elements.

    It is 0 if the channels of a position are not contiguous.
    """
    row, channel = kernel.axes
    if kernel.output_offset is None:
        return channel.extent
    is_regular = channel.extent == 1 or stride_along(kernel.output_offset, channel) == 1
    return (stride_along(kernel.output_offset, row) or 0) if is_regular else 0


def flattened(kernel: Kernel) -> Kernel:
    """Flattens a kernel to two axes: all dimensions but the last, and the last.

    The output keeps its shape. Offsets only depend on both axes unless another dimension is used
    separately.
    """
    *outer, _ = kernel.shape
    row, channel = axis(element_count(tuple(outer)), "m"), kernel.axes[-1]
    indexes = delinearize(row, tuple(outer))
    mapping: dict[Expression, Expression] = {
        each: index(0) if is_one(each.extent) else position
        for each, position in zip(kernel.axes[:-1], indexes, strict=True)
    }
    memory: dict[Expression, Expression] = {}
    return replace(
        kernel,
        axes=(row, channel),
        body=rewrite(kernel.body, mapping.get, memory),
        requirements=tuple((rewrite(each, mapping.get, memory), text) for each, text in kernel.requirements),
        output_offset=None
        if kernel.output_offset is None
        else rewrite(kernel.output_offset, mapping.get, memory),
    )

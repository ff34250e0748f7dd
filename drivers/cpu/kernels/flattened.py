"""Kernels with a contraction, seen as tables: a row for each position, a column for each channel."""

from dataclasses import replace

from neurald.drivers.compiler.ir.expression import Expression, axis, index
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.kernel import Kernel, positions
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.drivers.cpu.places import stride_along


def pitch_of(kernel: Kernel) -> int:
    """How far apart in the output the positions of a flattened kernel are, whose channels are side by side; 0: they are not."""
    row, channel = kernel.axes
    if kernel.output_offset is None:
        return channel.extent
    is_regular = channel.extent == 1 or stride_along(kernel.output_offset, channel) == 1
    return (stride_along(kernel.output_offset, row) or 0) if is_regular else 0


def flattened(kernel: Kernel) -> Kernel:
    """The same kernel with two axes: one for all dimensions but the last, and the last.

    The output is as it was; places in memory only depend on the two positions where nothing asks for another dimension.
    """
    *outer, _ = kernel.shape
    row, channel = axis(positions(tuple(outer)), "m"), kernel.axes[-1]
    places = delinearize(row, tuple(outer))
    mapping: dict[Expression, Expression] = {
        each: place if each.extent > 1 else index(0)
        for each, place in zip(kernel.axes[:-1], places, strict=True)
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

"""Kernels with a contraction, seen as tables: a row for each position, a column for each channel."""

from dataclasses import replace

from neurald.drivers.compiler.expression import Expression, axis, index
from neurald.drivers.compiler.graph import unflat
from neurald.drivers.compiler.kernel import Kernel, positions
from neurald.drivers.compiler.rewriting import rewrite


def flattened(kernel: Kernel) -> Kernel:
    """The same kernel with two axes: one for all dimensions but the last, and the last.

    The output is as it was; places in memory only depend on the two positions where nothing asks for another dimension.
    """
    *outer, _ = kernel.shape
    row, channel = axis(positions(tuple(outer)), "m"), kernel.axes[-1]
    places = unflat(row, tuple(outer))
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
    )

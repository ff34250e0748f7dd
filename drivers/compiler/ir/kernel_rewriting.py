"""Rewrites the expressions and axes of kernels."""

from collections.abc import Iterable

from neurald.drivers.compiler.ir.expression import Axis, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import Replace, rewrite
from neurald.hal.records import replace


def rewrite_kernel(kernel: Kernel, replacement: Replace, axes: Iterable[Axis]) -> Kernel:
    """Returns the kernel with replaced subexpressions and with other axes.

    Args:
        kernel: the kernel, which is not changed.
        replacement: returns the replacement of a subexpression; see `rewrite`.
        axes: the new axes.
    """
    memory: dict[Expression, Expression] = {}
    return replace(
        kernel,
        axes=tuple(axes),
        body=rewrite(kernel.body, replacement, memory),
        requirements=tuple((rewrite(each, replacement, memory), text) for each, text in kernel.requirements),
        output_offset=None
        if kernel.output_offset is None
        else rewrite(kernel.output_offset, replacement, memory),
    )

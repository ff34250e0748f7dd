"""Rewrites the expressions and axes of kernels."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from neurald.drivers.compiler.ir.expression import Axis, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import rewrite

#: Returns the replacement of an expression; None keeps it.
Replace = Callable[[Expression], Expression | None]


def rewrite_kernel(kernel: Kernel, found: Replace, axes: Iterable[Axis]) -> Kernel:
    """Replaces parts of a kernel's expressions, and its axes."""
    memory: dict[Expression, Expression] = {}
    return replace(
        kernel,
        axes=tuple(axes),
        body=rewrite(kernel.body, found, memory),
        requirements=tuple((rewrite(each, found, memory), text) for each, text in kernel.requirements),
        output_offset=None if kernel.output_offset is None else rewrite(kernel.output_offset, found, memory),
    )

"""Kernels with parts of their expressions replaced."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from neurald.drivers.compiler.ir.expression import Axis, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import rewrite

#: What an expression is replaced by; None keeps it.
Replace = Callable[[Expression], Expression | None]


def rewritten(kernel: Kernel, found: Replace, axes: Iterable[Axis]) -> Kernel:
    """The kernel with parts of its expressions replaced, and other axes."""
    memory: dict[Expression, Expression] = {}
    return replace(
        kernel,
        axes=tuple(axes),
        body=rewrite(kernel.body, found, memory),
        requirements=tuple((rewrite(each, found, memory), text) for each, text in kernel.requirements),
        place=None if kernel.place is None else rewrite(kernel.place, found, memory),
    )

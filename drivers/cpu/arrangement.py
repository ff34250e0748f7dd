"""Kernels with other axes, that give the same elements in the same order.

Two axes become one wherever every place is what it would be if they were one, as those of the height and width of an image
that is added to another one. The longer axes are, the less of a vector is idle. And an axis becomes two where places are made of
its quotient and its remainder, as those of blocks that become pixels: then rows can be read as they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from neurald.drivers.compiler.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    Reduce,
    axis,
    index,
    reduce,
)
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.op import Op
from neurald.drivers.compiler.rewriting import rewrite
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.places import place_of

#: What an expression is replaced by; None keeps it.
Replace = Callable[[Expression], Expression | None]


def arranged(kernel: Kernel) -> Kernel:
    """The same kernel with axes split and joined, those of its folds joined too; there is at least one axis."""
    kernel = _without_single(kernel)
    kernel = _with_joined_folds(kernel)
    kernel = _with_splits(kernel)
    axes = list(kernel.axes)
    position = len(axes) - 2
    while position >= 0:
        outer, inner = axes[position : position + 2]
        if can_join(kernel.roots, outer, inner):
            kernel = joined(kernel, position)
            axes = list(kernel.axes)
        position -= 1
    return kernel


def rewritten(kernel: Kernel, found: Replace, axes: Iterable[Axis]) -> Kernel:
    """The kernel with parts of its expressions replaced, and other axes."""
    memory: dict[Expression, Expression] = {}
    return replace(
        kernel,
        axes=tuple(axes),
        body=rewrite(kernel.body, found, memory),
        requirements=tuple((rewrite(each, found, memory), text) for each, text in kernel.requirements),
        output_offset=None if kernel.output_offset is None else rewrite(kernel.output_offset, found, memory),
    )


def _without_single(kernel: Kernel) -> Kernel:
    """Without axes of one position, but for one if there are no others."""
    kept = [each for each in kernel.axes if each.extent != 1]
    where: dict[Expression, Expression] = {each: index(0) for each in kernel.axes if each.extent == 1}
    return rewritten(kernel, where.get, kept or [axis(1, "i")])


def joined(kernel: Kernel, position: int) -> Kernel:
    """The kernel with the axes at `position` and after it as one, whatever that makes of places."""
    outer, inner = kernel.axes[position : position + 2]
    both = axis(outer.extent * inner.extent, outer.name)
    axes = (*kernel.axes[:position], both, *kernel.axes[position + 2 :])
    return rewritten(kernel, _split(outer, inner, both).get, axes)


def _split(outer: Axis, inner: Axis, both: Axis) -> Mapping[Expression, Expression]:
    return {outer: both // inner.extent, inner: both % inner.extent}


def _with_splits(kernel: Kernel) -> Kernel:
    """With axes split as long as that leaves less to be divided."""
    divisions = list(_divisions(kernel))
    while divisions:
        tried = (_with_split(kernel, *where) for where in _splits(kernel, divisions))
        better = next((each for each in tried if len(list(_divisions(each))) < len(divisions)), None)
        if better is None:
            break
        kernel, divisions = better, list(_divisions(better))
    return kernel


def _divisions(kernel: Kernel) -> Iterator[Expression]:
    """The quotients and remainders of places by numbers."""
    for each in _computed(kernel.roots):
        is_division = isinstance(each, Apply) and each.op in (Op.FLOOR_DIVIDE, Op.MODULO)
        if is_division and each.type is Scalar.INDEX and isinstance(each.operands[1], Constant):
            yield each


def _splits(kernel: Kernel, divisions: Sequence[Expression]) -> list[tuple[int, int]]:
    """Positions of axes, and lengths of their inner parts, that may make a division unnecessary."""
    found = set()
    for division in divisions:
        whole, divisor = division.operands
        terms = whole.terms if isinstance(whole, Linear) else ((whole, 1),)
        factors = dict(terms)
        for position, each in enumerate(kernel.axes):
            factor = factors.get(each, 0)
            if factor > 0 and divisor.low % factor == 0:
                length = divisor.low // factor
                if 1 < length < each.extent and each.extent % length == 0:
                    found.add((position, length))
    return sorted(found)


def _with_split(kernel: Kernel, position: int, length: int) -> Kernel:
    """The kernel with the axis at `position` as two, the inner one of some length."""
    whole = kernel.axes[position]
    outer, inner = axis(whole.extent // length, f"{whole.name}o"), axis(length, f"{whole.name}i")
    axes = (*kernel.axes[:position], outer, inner, *kernel.axes[position + 1 :])
    where: dict[Expression, Expression] = {whole: outer * length + inner}
    return rewritten(kernel, where.get, axes)


def _with_joined_folds(kernel: Kernel) -> Kernel:
    def found(expression: Expression) -> Expression | None:
        return _joined_fold(expression) if isinstance(expression, Reduce) else None

    return rewritten(kernel, found, kernel.axes)


def _joined_fold(expression: Reduce) -> Expression:
    axes = [each for each in expression.axes if each.extent != 1]
    where: dict[Expression, Expression] = {each: index(0) for each in expression.axes if each.extent == 1}
    body = rewrite(expression.body, where.get, {})
    for position in reversed(range(len(axes) - 1)):
        outer, inner = axes[position : position + 2]
        if inner.extent and can_join((body,), outer, inner):
            both = axis(outer.extent * inner.extent, outer.name)
            body = rewrite(body, _split(outer, inner, both).get, {})
            axes[position : position + 2] = [both]
    return reduce(expression.reduction, tuple(axes), body)


def can_join(roots: Iterable[Expression], outer: Axis, inner: Axis) -> bool:
    """Whether two axes only come up as outer × (length of inner) + inner, times whatever."""
    for each in _computed(roots):
        if isinstance(each, Linear):
            factors = dict(each.terms)
            if factors.get(outer, 0) != factors.get(inner, 0) * inner.extent:
                return False
        elif any(operand is outer or operand is inner for operand in operands_of(each)):
            return False
    return not any(root is outer or root is inner for root in roots)


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """What is computed for an expression: for a load, the place in memory instead of the position."""
    if not isinstance(expression, Load):
        return expression.operands
    place = place_of(expression)
    if expression.guard is None or expression.otherwise is None:
        return (place,)
    return (place, expression.guard, expression.otherwise)


def _computed(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Every expression that is computed for the roots, once."""
    seen: set[Expression] = set()
    stack = list(roots)
    while stack:
        expression = stack.pop()
        if expression not in seen:
            seen.add(expression)
            yield expression
            stack.extend(operands_of(expression))

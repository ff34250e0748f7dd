"""Rewrites the axes of kernels without changing the elements or their order.

Two axes are joined if every offset only depends on the joined index, as for height and width of
images that are added. Longer axes leave fewer vector lanes idle. An axis is split if offsets use
its quotient and remainder, as for blocks that become pixels, so that rows can be read contiguously.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from neurald.drivers.compiler.ir.expression import (
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
from neurald.drivers.compiler.ir.extents.extent import is_multiple, is_one, same_length
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.offsets import offset_of
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite


def simplify_axes(kernel: Kernel) -> Kernel:
    """Joins and splits axes of a kernel and joins those of its reductions.

    At least one axis remains.
    """
    kernel = _remove_unit_axes(kernel)
    kernel = _join_reduced_axes(kernel)
    kernel = _split_axes(kernel)
    axes = list(kernel.axes)
    position = len(axes) - 2
    while position >= 0:
        outer, inner = axes[position : position + 2]
        if can_join(kernel.roots, outer, inner):
            kernel = join_axes(kernel, position)
            axes = list(kernel.axes)
        position -= 1
    return kernel


def _remove_unit_axes(kernel: Kernel) -> Kernel:
    """Removes axes of length 1, but keeps at least one axis."""
    kept = [each for each in kernel.axes if not is_one(each.extent)]
    where: dict[Expression, Expression] = {each: index(0) for each in kernel.axes if is_one(each.extent)}
    return rewrite_kernel(kernel, where.get, kept or [axis(1, "i")])


def join_axes(kernel: Kernel, position: int) -> Kernel:
    """Joins the axes at `position` and after it."""
    outer, inner = kernel.axes[position : position + 2]
    both = axis(outer.extent * inner.extent, outer.name)
    axes = (*kernel.axes[:position], both, *kernel.axes[position + 2 :])
    return rewrite_kernel(kernel, _split_index(outer, inner, both).get, axes)


def _split_index(outer: Axis, inner: Axis, both: Axis) -> Mapping[Expression, Expression]:
    return {outer: both // inner.extent, inner: both % inner.extent}


def _split_axes(kernel: Kernel) -> Kernel:
    """Splits axes as long as that reduces the number of divisions."""
    divisions = list(_divisions(kernel.roots))
    while divisions:
        tried = (split_axis(kernel, *where) for where in _splits(kernel.axes, divisions))
        better = next((each for each in tried if len(list(_divisions(each.roots))) < len(divisions)), None)
        if better is None:
            break
        kernel, divisions = better, list(_divisions(better.roots))
    return kernel


def split_reduced_axes(kernel: Kernel) -> Kernel:
    """Splits axes of reductions as long as that reduces the number of divisions."""
    if not kernel.has_reduction:
        return kernel

    def found(expression: Expression) -> Expression | None:
        return _split_axes_of_reduction(expression) if isinstance(expression, Reduce) else None

    return rewrite_kernel(kernel, found, kernel.axes)


def _split_axes_of_reduction(expression: Reduce) -> Expression:
    axes, body = expression.axes, expression.body
    divisions = list(_divisions((body,)))
    while divisions:
        for position, length in _splits(axes, divisions):
            outer, inner = _parts(axes[position], length)
            where: dict[Expression, Expression] = {axes[position]: outer * length + inner}
            split = rewrite(body, where.get, {})
            left = list(_divisions((split,)))
            if len(left) < len(divisions):
                axes, body, divisions = (*axes[:position], outer, inner, *axes[position + 1 :]), split, left
                break
        else:
            break
    return expression if body is expression.body else reduce(expression.reduction, axes, body)


def _divisions(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Yields quotients and remainders of indices by constants."""
    for each in _computed(roots):
        is_division = isinstance(each, Apply) and each.op in (Op.FLOOR_DIVIDE, Op.MODULO)
        if is_division and each.type is Scalar.INDEX and isinstance(each.operands[1], Constant):
            yield each


def _splits(axes: Sequence[Axis], divisions: Sequence[Expression]) -> list[tuple[int, int]]:
    """Returns axis positions and inner lengths of splits that may avoid a division."""
    found = set()
    for division in divisions:
        whole, divisor = division.operands
        terms = whole.terms if isinstance(whole, Linear) else ((whole, 1),)
        factors = dict(terms)
        for position, each in enumerate(axes):
            factor = factors.get(each, 0)
            if factor > 0 and is_multiple(divisor.low, factor):
                length = divisor.low // factor
                is_part = not (is_one(length) or same_length(length, each.extent))
                if is_part and is_multiple(each.extent, length):
                    found.add((position, length))
    return sorted(found)


def split_axis(kernel: Kernel, position: int, length: int) -> Kernel:
    """Splits the axis at `position`, with an inner axis of this length."""
    whole = kernel.axes[position]
    outer, inner = _parts(whole, length)
    axes = (*kernel.axes[:position], outer, inner, *kernel.axes[position + 1 :])
    where: dict[Expression, Expression] = {whole: outer * length + inner}
    return rewrite_kernel(kernel, where.get, axes)


def _parts(whole: Axis, length: int) -> tuple[Axis, Axis]:
    """Returns the axes in the place of one, the inner one of this length."""
    return axis(whole.extent // length, f"{whole.name}o"), axis(length, f"{whole.name}i")


def _join_reduced_axes(kernel: Kernel) -> Kernel:
    def found(expression: Expression) -> Expression | None:
        return _join_axes_of_reduction(expression) if isinstance(expression, Reduce) else None

    return rewrite_kernel(kernel, found, kernel.axes)


def _join_axes_of_reduction(expression: Reduce) -> Expression:
    axes = [each for each in expression.axes if each.extent != 1]
    where: dict[Expression, Expression] = {each: index(0) for each in expression.axes if each.extent == 1}
    body = rewrite(expression.body, where.get, {})
    for position in reversed(range(len(axes) - 1)):
        outer, inner = axes[position : position + 2]
        if inner.extent and can_join((body,), outer, inner):
            both = axis(outer.extent * inner.extent, outer.name)
            body = rewrite(body, _split_index(outer, inner, both).get, {})
            axes[position : position + 2] = [both]
    return reduce(expression.reduction, tuple(axes), body)


def can_join(roots: Iterable[Expression], outer: Axis, inner: Axis) -> bool:
    """Returns True if two axes only occur as a multiple of outer × (length of inner) + inner."""
    for each in _computed(roots):
        if isinstance(each, Linear):
            factors = dict(each.terms)
            if factors.get(outer, 0) != factors.get(inner, 0) * inner.extent:
                return False
        elif any(operand is outer or operand is inner for operand in operands_of(each)):
            return False
    return not any(root is outer or root is inner for root in roots)


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """Returns the operands that are computed; for loads the offset instead of the index."""
    if not isinstance(expression, Load):
        return expression.operands
    offset = offset_of(expression)
    if expression.guard is None or expression.otherwise is None:
        return (offset,)
    return (offset, expression.guard, expression.otherwise)


def _computed(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Yields every expression that is computed for the roots once."""
    seen: set[Expression] = set()
    stack = list(roots)
    while stack:
        expression = stack.pop()
        if expression not in seen:
            seen.add(expression)
            yield expression
            stack.extend(operands_of(expression))

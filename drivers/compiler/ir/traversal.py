"""Traverses and rewrites expressions; rewritten expressions are simplified again."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    Reduce,
    apply,
    load,
    maximum,
    minimum,
    reduce,
    select,
    sum_of,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, has_extents
from neurald.drivers.compiler.ir.op import Op

#: Returns the replacement of an expression, or None to keep it.
Replace = Callable[[Expression], Expression | None]


def walk(*roots: Expression) -> Iterator[Expression]:
    """Yields every subexpression of the roots once, operands before their users."""
    seen: set[Expression] = set()
    # A None marks that the entry below it is ready to yield. This loop is written for speed, since
    # compilation spends most of its time in it.
    stack: list[Expression | None] = [*reversed(roots)]
    while stack:
        expression = stack.pop()
        if expression is None:
            ready = stack.pop()
            if ready is not None:
                yield ready
        elif expression not in seen:
            seen.add(expression)
            operands = expression.operands
            if operands:
                stack += (expression, None)
                stack += reversed(operands)
            else:
                yield expression


def has_own_extents(expression: Expression) -> bool:
    """Returns True if an expression itself, not an operand of it, has a number not known yet."""
    if isinstance(expression, Constant):
        return isinstance(expression.value, Extent)
    if isinstance(expression, Linear):
        return has_extents((expression.constant, *(factor for _, factor in expression.terms)))
    return False


def depth(expressions: Iterable[Expression]) -> int:
    """Returns the nesting depth of expressions in `walk` order."""
    depths: dict[Expression, int] = {}
    for each in expressions:
        depths[each] = 1 + max((depths[operand] for operand in each.operands), default=0)
    return max(depths.values(), default=0)


def walk_through(
    root: Expression, operands: Callable[[Expression], Iterable[Expression]]
) -> Iterator[Expression]:
    """Yields every expression reachable from the root once, operands before their users.

    Args:
        root: the expression to begin with; it is yielded last.
        operands: returns the operands of an expression to visit, in order.
    """
    seen = {root}
    stack = [(root, iter(operands(root)))]
    while stack:
        expression, remaining = stack[-1]
        following = next((each for each in remaining if each not in seen), None)
        if following is None:
            stack.pop()
            yield expression
        else:
            seen.add(following)
            stack.append((following, iter(operands(following))))


def loads(root: Expression) -> Iterator[Load]:
    """Iterates over the loads in an expression."""
    return (each for each in walk(root) if isinstance(each, Load))


def free_axes(root: Expression) -> frozenset[Axis]:
    """Returns the axes that an expression depends on, except those of its own reductions."""
    free: dict[Expression, frozenset[Axis]] = {}
    for each in walk(root):
        add_free_axes(each, free)
    return free[root]


def add_free_axes(expression: Expression, free: dict[Expression, frozenset[Axis]]) -> None:
    """Adds the free axes of an expression to those of its operands; see `free_axes`."""
    if isinstance(expression, Axis):
        free[expression] = frozenset((expression,))
        return
    axes: frozenset[Axis] = frozenset()
    for operand in expression.operands:
        others = free[operand]
        # Operands mostly depend on the same axes.
        if others is not axes and not others <= axes:
            axes = axes | others if axes else others
    if isinstance(expression, Reduce):
        axes = axes.difference(expression.axes)
    free[expression] = axes


def rewrite(root: Expression, replace: Replace, memory: dict[Expression, Expression]) -> Expression:
    """Replaces parts of an expression and simplifies the result.

    Args:
        root: the expression.
        replace: called with each subexpression after its operands were rewritten; None keeps it.
        memory: the results so far. Roots with the same `replace` may share it.
    """
    # Like `walk`, but what has a result is not entered again.
    stack = [root]
    while stack:
        expression = stack[-1]
        if expression in memory:
            stack.pop()
            continue
        operands = expression.operands
        pending = [each for each in operands if each not in memory]
        if pending:
            pending.reverse()
            stack += pending
            continue
        stack.pop()
        rebuilt = _rebuilt(expression, operands, memory)
        other = replace(rebuilt)
        memory[expression] = rebuilt if other is None else other
    return memory[root]


def substitute(root: Expression, mapping: Mapping[Expression, Expression]) -> Expression:
    """Replaces the given subexpressions, such as axes, all at once.

    What replaces them is not replaced again, even where that simplifies to a given subexpression:
    with `i + 2` for `i`, `i - 2` becomes `i`.
    """
    return rewrite(root, lambda _: None, dict(mapping))


def _rebuilt(
    expression: Expression, operands: Iterable[Expression], parts: Mapping[Expression, Expression]
) -> Expression:
    """Rebuilds an expression from its rewritten operands."""
    for operand in operands:
        if parts[operand] is not operand:
            break
    else:
        return expression
    if isinstance(expression, Linear):
        changed: dict[Expression, int] = {}
        for term, factor in expression.terms:
            changed[parts[term]] = changed.get(parts[term], 0) + factor
        return sum_of(changed, expression.constant)
    if isinstance(expression, Load):
        indices = tuple(parts[each] for each in expression.index)
        if expression.guard is None or expression.otherwise is None:
            return load(expression.value, indices)
        return load(expression.value, indices, parts[expression.guard], parts[expression.otherwise])
    if isinstance(expression, Reduce):
        return reduce(expression.reduction, expression.axes, parts[expression.body])
    assert isinstance(expression, Apply)  # noqa: S101 - nothing else has operands
    return _applied(expression, tuple(parts[each] for each in expression.arguments))


def _applied(expression: Apply, arguments: tuple[Expression, ...]) -> Expression:
    """Applies the same operation to other arguments, with the simplifications of construction."""
    simplify = _SIMPLIFIED.get(expression.op)
    if simplify is not None:
        return simplify(*arguments)
    if expression.op is Op.CONVERT:
        return arguments[0].to(expression.type)
    return apply(expression.op, *arguments, type=expression.type, low=expression.low, high=expression.high)


_SIMPLIFIED: dict[Op, Callable[..., Expression]] = {
    Op.SELECT: select,
    Op.MINIMUM: minimum,
    Op.MAXIMUM: maximum,
    Op.MULTIPLY: lambda first, second: first * second,
    Op.FLOOR_DIVIDE: lambda first, second: first // second,
    Op.MODULO: lambda first, second: first % second,
    Op.AND: lambda first, second: first & second,
    Op.OR: lambda first, second: first | second,
    Op.NOT: lambda value: ~value,
    Op.LESS: lambda first, second: first < second,
    Op.LESS_EQUAL: lambda first, second: first <= second,
    Op.EQUAL: lambda first, second: first.equals(second),
    Op.NOT_EQUAL: lambda first, second: first.differs(second),
}

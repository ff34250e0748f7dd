"""What lowerings share that fold elements: positions along folded dimensions, and types in which sums are exact."""

import math
from collections.abc import Callable, Mapping, Sequence

from neurald.drivers.compiler.ir.builder import Builder, reduction_axes
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, load, reduce, select
from neurald.drivers.compiler.ir.op import Fold, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value


def exact_sum(count: int, largest: int) -> Scalar:
    """The integers in which `count` numbers of magnitudes up to `largest` can be summed."""
    return Scalar.INT32 if count * largest < 1 << 31 else Scalar.INT64


def whole_position(
    at: Sequence[Expression], folded: Mapping[int, Expression], rank: int
) -> tuple[Expression, ...]:
    """The position in a source of that rank, from one in the result.

    Args:
        at: in the result, in which folded dimensions are left out, or kept with length 1.
        folded: the place along each folded dimension.
        rank: of the source.
    """
    if len(at) == rank:
        return tuple(folded.get(dimension, place) for dimension, place in enumerate(at))
    rest = iter(at)
    return tuple(folded[dimension] if dimension in folded else next(rest) for dimension in range(rank))


def fold(
    builder: Builder,
    source: Value,
    dimensions: Sequence[int],
    how: Fold,
    *,
    element: Callable[[Expression], Expression] = lambda value: value,
    finish: Callable[[Expression], Expression] = lambda value: value,
    shape: Shape | None = None,
) -> Value:
    """A value's elements folded along dimensions.

    Args:
        builder: of the operation.
        source: what is folded.
        dimensions: of the source.
        how: elements are combined.
        element: made of each element before.
        finish: makes the result of what the fold gives.
        shape: of the result, without the dimensions or with length 1 there; as a default the latter.
    """
    rank = len(source.shape)
    kept = tuple(1 if place in dimensions else length for place, length in enumerate(source.shape))

    def body(*at: Expression) -> Expression:
        axes = reduction_axes(source.shape, dimensions)
        value = element(load(source, whole_position(at, axes, rank)))
        return finish(reduce(how, tuple(axes.values()), value))

    return builder.compute(kept if shape is None else shape, body)


def filled(builder: Builder, shape: Shape, value: float, type: Scalar) -> Value:  # noqa: A002 - as `Value.type`
    """A value with the same number everywhere."""
    return builder.compute(shape, lambda *_: constant(value, type))


def along(at: Sequence[Expression], dimension: int, place: Expression) -> tuple[Expression, ...]:
    """The position with another place along a dimension."""
    return (*at[:dimension], place, *at[dimension + 1 :])


def first_along(at: Sequence[Expression], dimension: int) -> tuple[Expression, ...]:
    """The position of what belongs to it in a value of length 1 along the dimension."""
    return along(at, dimension, at[dimension] * 0)


def count_along(shape: Shape, dimensions: Sequence[int]) -> int:
    """How many elements are folded into one."""
    return math.prod(shape[dimension] for dimension in dimensions)


def divide_rounded(total: Expression, count: Expression) -> Expression:
    """Integers over a positive count of their type, rounded to the nearest, ties away from zero."""
    half = apply(Op.TRUNCATE_DIVIDE, count, constant(2, count.type))
    nudge = select(total < 0, -half, half)
    return apply(Op.TRUNCATE_DIVIDE, total + nudge, count)

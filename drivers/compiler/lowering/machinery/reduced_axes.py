"""Helpers of lowerings with reductions: reduced dimensions, and types in which sums are exact."""

import math
from collections.abc import Callable, Mapping, Sequence

from neurald.drivers.compiler.ir.builder import Builder, reduction_axes
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, load, reduce, select
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value

#: The reduction of BOOLs that corresponds to a reduction of numbers.
BOOL_REDUCTIONS = {
    ReductionOp.SUM: ReductionOp.ANY,
    ReductionOp.MAXIMUM: ReductionOp.ANY,
    ReductionOp.PRODUCT: ReductionOp.ALL,
    ReductionOp.MINIMUM: ReductionOp.ALL,
}


def exact_sum(count: int, largest: int) -> Scalar:
    """Returns the integer type that can sum `count` numbers of magnitude up to `largest`."""
    return Scalar.INT32 if count * largest < 1 << 31 else Scalar.INT64


def whole_position(
    at: Sequence[Expression], reduced: Mapping[int, Expression], rank: int
) -> tuple[Expression, ...]:
    """Returns the index in a source of that rank for an index in the result.

    Args:
        at: index in the result, where reduced dimensions are omitted or have length 1.
        reduced: the index along each reduced dimension.
        rank: the rank of the source.
    """
    if len(at) == rank:
        return tuple(reduced.get(dimension, index) for dimension, index in enumerate(at))
    rest = iter(at)
    return tuple(reduced[dimension] if dimension in reduced else next(rest) for dimension in range(rank))


def reduce_dimensions(
    builder: Builder,
    source: Value,
    dimensions: Sequence[int],
    how: ReductionOp,
    *,
    element: Callable[[Expression], Expression] = lambda value: value,
    finish: Callable[[Expression], Expression] = lambda value: value,
    shape: Shape | None = None,
) -> Value:
    """Reduces a value along dimensions.

    Args:
        builder: the builder of the operation.
        source: the value to reduce.
        dimensions: the dimensions of the source.
        how: combines elements.
        element: applied to each element first.
        finish: applied to each result.
        shape: the shape of the result, with the dimensions removed or of length 1; by default of
            length 1.
    """
    rank = len(source.shape)
    kept = tuple(1 if index in dimensions else length for index, length in enumerate(source.shape))

    def body(*at: Expression) -> Expression:
        axes = reduction_axes(source.shape, dimensions)
        value = element(load(source, whole_position(at, axes, rank)))
        return finish(reduce(how, tuple(axes.values()), value))

    return builder.compute(kept if shape is None else shape, body)


def filled(builder: Builder, shape: Shape, value: float, type: Scalar) -> Value:  # noqa: A002 - as `Value.type`
    """Returns a value with the same number in every element."""
    return builder.compute(shape, lambda *_: constant(value, type))


def along(at: Sequence[Expression], dimension: int, index: Expression) -> tuple[Expression, ...]:
    """Returns the index with another entry along a dimension."""
    return (*at[:dimension], index, *at[dimension + 1 :])


def first_along(at: Sequence[Expression], dimension: int) -> tuple[Expression, ...]:
    """Returns the index into a value of length 1 along the dimension."""
    return along(at, dimension, at[dimension] * 0)


def count_along(shape: Shape, dimensions: Sequence[int]) -> int:
    """Returns the number of elements reduced into one."""
    return math.prod(shape[dimension] for dimension in dimensions)


def divide_rounded(total: Expression, count: Expression) -> Expression:
    """Divides integers by a positive count, rounded to nearest with ties away from zero."""
    half = apply(Op.TRUNCATE_DIVIDE, count, constant(2, count.type))
    nudge = select(total < 0, -half, half)
    return apply(Op.TRUNCATE_DIVIDE, total + nudge, count)

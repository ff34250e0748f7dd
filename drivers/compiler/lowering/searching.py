"""Where the largest and smallest elements are: ARGMAX, ARGMIN and TOPK_V2."""

from neurald.drivers.compiler.builder import Builder, Unsupported
from neurald.drivers.compiler.expression import (
    Expression,
    apply,
    axis,
    clamp,
    constant,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.graph import Shape, Value
from neurald.drivers.compiler.lowering.folding import along, whole_position
from neurald.drivers.compiler.lowering.moving import output_shapes
from neurald.drivers.compiler.lowering.table import Lowering
from neurald.drivers.compiler.op import Fold, Op
from neurald.drivers.compiler.scalar import Scalar
from neurald.hal.operation_type import OperationType
from neurald.hal.operations.call import Call
from neurald.hal.operations.rules import resolve_axis

#: Comparisons of all elements of all rows with each other: more are left to who sorts.
_MOST_COMPARISONS = 1 << 20


def _ordered(value: Expression) -> Expression:
    """An element as a number that can be compared."""
    return value.to(Scalar.UINT8) if value.type is Scalar.BOOL else value


def _is_nan(value: Expression) -> Expression:
    return apply(Op.IS_NAN, value) if value.type.is_float else constant(False, Scalar.BOOL)


def extreme_places(builder: Builder, source: Value, dimension: int, how: Fold, shape: Shape) -> Value:
    """Where along a dimension the first of the largest or smallest elements is, or the first that is not a number.

    Args:
        builder: of the operation.
        source: what is searched.
        dimension: along which there are elements.
        how: MAXIMUM or MINIMUM.
        shape: of the result, without that dimension.

    Returns:
        INT32.
    """
    rank, length = len(source.shape), source.shape[dimension]

    def element(at: tuple[Expression, ...], place: Expression) -> Expression:
        return _ordered(load(source, whole_position(at, {dimension: place}, rank)))

    def extreme(*at: Expression) -> Expression:
        place = axis(length, "r")
        return reduce(how, (place,), element(at, place))

    extremes = builder.compute(shape, extreme)

    def first(*at: Expression) -> Expression:
        place = axis(length, "r")
        value = element(at, place)
        is_it = value.equals(load(extremes, at)) | _is_nan(value)
        return reduce(Fold.MINIMUM, (place,), select(is_it, place.to(Scalar.INT32), length - 1))

    return builder.compute(shape, first)


def lower_extreme(how: Fold) -> Lowering:
    """ARGMAX or ARGMIN."""

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, kind = builder.value(call, "input"), Scalar.of(call.operand("output").type.dtype)
        dimension = resolve_axis(int(call.scalar("axis")), len(source.shape), call.name("axis"))
        places = extreme_places(builder, source, dimension, how, output_shapes(call)[0])
        if kind is places.type:
            return (places,)
        return (builder.compute(places.shape, lambda *at: load(places, at).to(kind)),)

    return lower


def lower_top(*, is_first_first: bool) -> Lowering:
    """The largest elements of rows by how many come before each.

    Args:
        is_first_first: of equal elements, whether the one with the smaller index comes first.
    """

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, (shape, _) = builder.value(call, "input"), output_shapes(call)
        length, last = source.shape[-1], len(source.shape) - 1
        if source.count * length > _MOST_COMPARISONS:
            raise Unsupported(f"the largest of {length} elements in {source.count} have no kernel")
        indices_type = Scalar.of(call.operand("indices").type.dtype)

        def rank(*at: Expression) -> Expression:
            other = axis(length, "r")
            own, theirs = _ordered(load(source, at)), _ordered(load(source, along(at, last, other)))
            is_before = other < at[-1] if is_first_first else other > at[-1]
            comes = _is_less(own, theirs) | (_is_equal(own, theirs) & is_before)
            return reduce(Fold.SUM, (other,), select(comes, constant(1, Scalar.INT32), 0))

        ranks = builder.compute(source.shape, rank)
        places = builder.compute(shape, lambda *at: _with_rank(ranks, at))

        def value(*at: Expression) -> Expression:
            place = clamp(load(places, at).to(Scalar.INDEX), 0, max(0, length - 1))
            return load(source, along(at, last, place))

        return (
            builder.compute(shape, value),
            builder.compute(shape, lambda *at: load(places, at).to(indices_type)),
        )

    return lower


def _with_rank(ranks: Value, at: tuple[Expression, ...]) -> Expression:
    """The place along the last axis whose rank is the last position."""
    place = axis(ranks.shape[-1], "r")
    is_it = load(ranks, along(at, len(at) - 1, place)).equals(at[-1].to(Scalar.INT32))
    return reduce(Fold.SUM, (place,), select(is_it, place.to(Scalar.INT32), 0))


def _is_less(first: Expression, second: Expression) -> Expression:
    """What is not a number is larger than all numbers."""
    return (first < second) | (_is_nan(second) & ~_is_nan(first))


def _is_equal(first: Expression, second: Expression) -> Expression:
    return first.equals(second) | (_is_nan(first) & _is_nan(second))


LOWERINGS = {
    OperationType.ARGMAX: lower_extreme(Fold.MAXIMUM),
    OperationType.ARGMIN: lower_extreme(Fold.MINIMUM),
    OperationType.TOPK_V2: lower_top(is_first_first=False),
}

"""Where the largest and smallest elements are: ARGMAX, ARGMIN and TOPK_V2."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, clamp, constant, load, reduce, select
from neurald.drivers.compiler.ir.op import Fold
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, whole_position
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.passes.top_k_expansion import is_extreme, ordered
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis


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
    if dimension == rank - 1 and length:
        compared = source if how is Fold.MAXIMUM else _turned_round(builder, source)
        return builder.reshape(builder.ranking(compared, 1, is_first_first=True), shape)

    def element(at: tuple[Expression, ...], place: Expression) -> Expression:
        return ordered(load(source, whole_position(at, {dimension: place}, rank)))

    def extreme(*at: Expression) -> Expression:
        place = axis(length, "r")
        return reduce(how, (place,), element(at, place))

    extremes = builder.compute(shape, extreme)

    def first(*at: Expression) -> Expression:
        place = axis(length, "r")
        value = element(at, place)
        is_it = is_extreme(value, load(extremes, at))
        return reduce(Fold.MINIMUM, (place,), select(is_it, place.to(Scalar.INT32), length - 1))

    return builder.compute(shape, first)


def _turned_round(builder: Builder, source: Value) -> Value:
    """What is the larger the smaller the elements are; what is not a number stays it."""
    kind = source.type
    if kind is Scalar.BOOL:
        return builder.compute(source.shape, lambda *at: ~load(source, at))
    if kind.is_float:
        return builder.compute(source.shape, lambda *at: -load(source, at))
    # The smallest and the largest number change places.
    ends = np.iinfo(kind.dtype.name)
    both = constant(int(ends.min) + int(ends.max), kind)
    return builder.compute(source.shape, lambda *at: both - load(source, at))


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
    """The largest elements of rows.

    Args:
        is_first_first: of equal elements, whether the one with the smaller index comes first.
    """

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, (shape, _) = builder.value(call, "input"), output_shapes(call)
        length, last = source.shape[-1], len(source.shape) - 1
        places = builder.ranking(source, shape[-1], is_first_first=is_first_first)
        indices_type = Scalar.of(call.operand("indices").type.dtype)

        def value(*at: Expression) -> Expression:
            place = clamp(load(places, at).to(Scalar.INDEX), 0, max(0, length - 1))
            return load(source, along(at, last, place))

        values = builder.compute(shape, value)
        if indices_type is places.type:
            return values, places
        return values, builder.compute(shape, lambda *at: load(places, at).to(indices_type))

    return lower


LOWERINGS = {
    OperationType.ARGMAX: lower_extreme(Fold.MAXIMUM),
    OperationType.ARGMIN: lower_extreme(Fold.MINIMUM),
    OperationType.TOPK_V2: lower_top(is_first_first=False),
}

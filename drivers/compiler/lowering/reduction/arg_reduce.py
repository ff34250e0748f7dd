"""Lowers ARGMAX, ARGMIN and TOPK_V2."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, clamp, constant, load, reduce, select
from neurald.drivers.compiler.ir.extents.extent import Extent, larger
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, whole_position
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.passes.expansion.top_k_expansion import is_extreme, ordered
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis


def extreme_indices(builder: Builder, source: Value, dimension: int, how: ReductionOp, shape: Shape) -> Value:
    """Returns the index of the first maximum or minimum along a dimension, or of the first NaN.

    Args:
        builder: the builder of the operation.
        source: the value to search.
        dimension: along which to search; it has elements.
        how: MAXIMUM or MINIMUM.
        shape: the shape of the result, without that dimension.

    Returns:
        INT32.
    """
    rank, length = len(source.shape), source.shape[dimension]
    if not isinstance(length, Extent) and length == 1:
        return builder.compute(shape, lambda *_: constant(0, Scalar.INT32))
    if dimension == rank - 1 and length:
        compared = source if how is ReductionOp.MAXIMUM else _reversed_order(builder, source)
        return builder.reshape(builder.top_k(compared, 1, prefers_lower_index=True), shape)

    def element(at: tuple[Expression, ...], index: Expression) -> Expression:
        return ordered(load(source, whole_position(at, {dimension: index}, rank)))

    def extreme(*at: Expression) -> Expression:
        index = axis(length, "r")
        return reduce(how, (index,), element(at, index))

    extremes = builder.compute(shape, extreme)

    def first(*at: Expression) -> Expression:
        index = axis(length, "r")
        value = element(at, index)
        is_it = is_extreme(value, load(extremes, at))
        return reduce(ReductionOp.MINIMUM, (index,), select(is_it, index.to(Scalar.INT32), length - 1))

    return builder.compute(shape, first)


def _reversed_order(builder: Builder, source: Value) -> Value:
    """Returns elements in reversed order of magnitude; NaN stays NaN."""
    kind = source.type
    if kind is Scalar.BOOL:
        return builder.compute(source.shape, lambda *at: ~load(source, at))
    if kind.is_float:
        return builder.compute(source.shape, lambda *at: -load(source, at))
    # Maps the smallest number to the largest and vice versa, without overflow.
    ends = np.iinfo(kind.dtype.name)
    both = constant(int(ends.min) + int(ends.max), kind)
    return builder.compute(source.shape, lambda *at: both - load(source, at))


def lower_extreme(how: ReductionOp) -> Lowering:
    """Returns the lowering of ARGMAX or ARGMIN."""

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, kind = builder.value(call, "input"), Scalar.of(call.operand("output").type.dtype)
        dimension = resolve_axis(int(call.scalar("axis")), len(source.shape), call.name("axis"))
        indexes = extreme_indices(builder, source, dimension, how, output_shapes(call)[0])
        if kind is indexes.type:
            return (indexes,)
        return (builder.compute(indexes.shape, lambda *at: load(indexes, at).to(kind)),)

    return lower


def lower_top(*, prefers_lower_index: bool) -> Lowering:
    """Returns the lowering of a top-k.

    Args:
        prefers_lower_index: True if the lower index of two equal elements comes first.
    """

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, (shape, _) = builder.value(call, "input"), output_shapes(call)
        length, last = source.shape[-1], len(source.shape) - 1
        if not isinstance(length, Extent) and length == shape[-1] == 1:
            indexes = builder.compute(shape, lambda *_: constant(0, Scalar.INT32))
        else:
            indexes = builder.top_k(source, shape[-1], prefers_lower_index=prefers_lower_index)
        indices_type = Scalar.of(call.operand("indices").type.dtype)

        def value(*at: Expression) -> Expression:
            index = clamp(load(indexes, at).to(Scalar.INDEX), 0, larger(length - 1, 0))
            return load(source, along(at, last, index))

        values = builder.compute(shape, value)
        if indices_type is indexes.type:
            return values, indexes
        return values, builder.compute(shape, lambda *at: load(indexes, at).to(indices_type))

    return lower


LOWERINGS = {
    OperationType.ARGMAX: lower_extreme(ReductionOp.MAXIMUM),
    OperationType.ARGMIN: lower_extreme(ReductionOp.MINIMUM),
    OperationType.TOPK_V2: lower_top(prefers_lower_index=False),
}

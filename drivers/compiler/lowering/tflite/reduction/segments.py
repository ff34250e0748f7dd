"""Lowers SEGMENT_SUM, UNSORTED_SEGMENT_MAX, _MIN, _PROD and _SUM, and BUCKETIZE."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Limit, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    axis,
    constant,
    index,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, larger
from neurald.drivers.compiler.ir.op import ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import BoundedLowerings, BoundedValue, Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.lowering.tflite.reduction.reduction import finite
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call

#: Limit on a table's entries for each segment and element.
_MAX_TABLE_GROWTH = 4
#: Limit on the segments for each element, in tables with more than these.
_MAX_SPARSENESS, _MAX_SMALL_TABLE = 16, 1 << 16


def _rows(segments: Array, count: int) -> Array | None:
    """Returns the int32 numbers of each segment's elements, one row each, padded with -1.

    Returns None if most of the table would be padding, or there are far more segments than
    elements.
    """
    if count > _MAX_SPARSENESS * segments.size + _MAX_SMALL_TABLE:
        return None
    order = np.argsort(segments, kind="stable")
    order = order[segments[order] >= 0]
    sizes = np.bincount(segments[order], minlength=count)
    most = int(sizes.max(initial=0))
    if count * most > _MAX_TABLE_GROWTH * (count + segments.size):
        return None
    starts = np.cumsum(sizes) - sizes
    table = np.full((count, most), -1, np.int32)
    owners = segments[order]
    table[owners, np.arange(len(order)) - starts[owners]] = order
    return table


def _reduction(how: ReductionOp) -> Lowering:
    """Returns the lowering of a segment reduction."""

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, segments, (shape,) = (
            builder.value(call, "input"),
            builder.value(call, "segments"),
            output_shapes(call),
        )
        elements = builder.reshape(source, (segments.count, *shape[1:]))
        numbers = None if segments.constant is None else segments.constant.reshape(-1).astype(np.int64)
        rows = None if numbers is None or isinstance(shape[0], Extent) else _rows(numbers, shape[0])
        if rows is None:
            return (_scattered(call, builder, how, elements),)
        table = builder.constant(rows)
        start = reduction_identity(how, source.type)

        def body(*at: Expression) -> Expression:
            if not table.count:
                return finite(how, constant(start, source.type))
            number = axis(table.shape[1], "r")
            which = load(table, (at[0], number)).to(Scalar.INDEX)
            value = load(elements, (which, *at[1:]), which >= 0, start)
            return finite(how, reduce(how, (number,), value))

        return (builder.compute(shape, body),)

    return lower


def _scattered(call: Call, builder: Builder, how: ReductionOp, elements: Value) -> Value:
    """Scatters elements to their segments; negative numbers are ignored."""
    (shape,) = output_shapes(call)
    segments = builder.value(call, "segments")
    numbers = builder.reshape(segments, (segments.count,))
    if segments.constant is None:
        message = f"{call.name('segments')}: less than {shape[0]} is expected"
        numbers = builder.compute(
            numbers.shape,
            lambda at: load(numbers, (at,)),
            lambda at: ((load(numbers, (at,)) < shape[0], message),),
        )
    start = reduction_identity(how, elements.type)
    if elements.type.is_float:
        info = np.finfo(elements.type.dtype.name)
        start = min(max(float(start), float(info.min)), float(info.max))
    return builder.scatter(numbers, elements, output=shape, reduction=how, initial=start)


def _sum_of_segments(call: Call, builder: Builder) -> Sequence[BoundedValue]:
    """Lowers SEGMENT_SUM for segments that are not known: there are at most as many as elements."""
    source, segments = builder.value(call, "input"), builder.value(call, "segments")
    if segments.shape != source.shape[:1]:
        raise Unsupported("the shape of the segments is not that of the elements")
    (count,) = segments.shape

    def requirements(at: Expression) -> list[tuple[Expression, str]]:
        own = load(segments, (at,))
        # Before the first element there is one of the same segment.
        previous = load(segments, (at - 1,), at > 0, 0)
        message = f"{call.name('segments')} must begin with 0 and never grow by more than 1"
        is_next = own.equals(previous) | (own.equals(previous + 1) & (at > 0))
        return [(is_next & (own >= 0), message)]

    numbers = builder.compute((count,), lambda at: load(segments, (at,)), requirements)
    last = index(larger(count - 1, 0))
    rows = (
        builder.compute((), lambda: load(numbers, (last,)) + 1)
        if count
        else builder.constant(np.zeros((), np.int32))
    )
    # After the number of rows, by which its computation is limited.
    total = builder.scatter(numbers, source, output=source.shape, reduction=ReductionOp.SUM)
    return (BoundedValue(value=total, limit=Limit(dimension=0, bound=count, count=rows)),)


def _bucketize(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers BUCKETIZE: counts the boundaries that are not above each number; NaN is above all."""
    source = builder.value(call, "input")
    kind = Scalar.FLOAT64 if source.type is Scalar.FLOAT64 else Scalar.FLOAT32
    boundaries = _sorted(builder, builder.value(call, "boundaries"))

    def body(*at: Expression) -> Expression:
        number = axis(boundaries.count, "r")
        is_below = load(source, at).to(kind) < load(boundaries, (number,)).to(kind)
        return reduce(ReductionOp.SUM, (number,), select(is_below, constant(0, Scalar.INT32), 1))

    return (builder.compute(source.shape, body),)


def _sorted(builder: Builder, boundaries: Value) -> Value:
    """Returns the boundaries, with the requirement that they are sorted and not NaN."""
    if boundaries.constant is not None:
        return boundaries

    def requirements(at: Expression) -> list[tuple[Expression, str]]:
        own = load(boundaries, (at,))
        previous = load(boundaries, (at - 1,), at > 0, float("-inf"))
        return [(previous <= own, "the boundaries are not sorted")]

    return builder.compute(boundaries.shape, lambda at: load(boundaries, (at,)), requirements)


BOUNDED_LOWERINGS: BoundedLowerings = {OperationType.TFLITE_SEGMENT_SUM: _sum_of_segments}
LOWERINGS = {
    OperationType.TFLITE_SEGMENT_SUM: _reduction(ReductionOp.SUM),
    OperationType.TFLITE_UNSORTED_SEGMENT_MAX: _reduction(ReductionOp.MAXIMUM),
    OperationType.TFLITE_UNSORTED_SEGMENT_MIN: _reduction(ReductionOp.MINIMUM),
    OperationType.TFLITE_UNSORTED_SEGMENT_PROD: _reduction(ReductionOp.PRODUCT),
    OperationType.TFLITE_UNSORTED_SEGMENT_SUM: _reduction(ReductionOp.SUM),
    OperationType.TFLITE_BUCKETIZE: _bucketize,
}

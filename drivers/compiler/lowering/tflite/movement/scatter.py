"""Lowers SCATTER_ND, SPARSE_TO_DENSE and ONE_HOT."""

import math
from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Constant, Expression, constant, index, load, select
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.machinery.scatter_sources import (
    combine_sources,
    known_sources,
    last_source,
)
from neurald.drivers.compiler.lowering.movement.indexing import (
    as_index,
    bounded_index,
    element,
    only_element,
    output_shapes,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.gather import positions
from neurald.hal.operations.tflite.movement.scatter import dense_positions, one_hot_axis


def _linear_offsets(call: Call, builder: Builder, indices: Value, lengths: Shape) -> Value:
    """Returns linear offsets for rows of indices, with the requirement that they are in range.

    Args:
        call, builder: the operation.
        indices: (rows, dimensions).
        lengths: the lengths of the indexed dimensions.
    """

    def indexes(row: Expression) -> list[tuple[Expression, Expression]]:
        return [
            bounded_index(element(indices, (row, index(axis))), length) for axis, length in enumerate(lengths)
        ]

    def body(row: Expression) -> Expression:
        coordinate = linearize((coordinate for coordinate, _ in indexes(row)), lengths)
        return coordinate.to(Scalar.INT32 if math.prod(lengths) < 1 << 31 else Scalar.INT64)

    def requirements(row: Expression) -> Sequence[tuple[Expression, str]]:
        message = f"{call.name('indices')}: indexes into {list(lengths)} are expected"
        return tuple((holds, message) for _, holds in indexes(row))

    return builder.compute(indices.shape[:1], body, requirements)


def _scatter_nd(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SCATTER_ND: sums updates with equal indices; other elements are 0."""
    indices, updates = builder.value(call, "indices"), builder.value(call, "updates")
    (shape,) = output_shapes(call)
    *outer, depth = indices.shape
    lengths, count = shape[:depth], math.prod(outer)
    if not count:
        zero = constant(0, updates.type)
        return (builder.compute(shape, lambda *_: zero),)
    rows = builder.reshape(updates, (count, *shape[depth:]))
    if indices.constant is None:
        offsets = _linear_offsets(call, builder, builder.reshape(indices, (count, depth)), lengths)
        return (builder.scatter(offsets, rows, output=shape, reduction=ReductionOp.SUM),)
    where = positions(call, "indices", shape).reshape(-1)
    sources_at = known_sources(builder, where, math.prod(lengths))
    if sources_at is None:
        offsets = builder.constant(where.astype(np.int64))
        return (builder.scatter(offsets, rows, output=shape, reduction=ReductionOp.SUM),)

    def body(*at: Expression) -> Expression:
        sources = sources_at(linearize(at[:depth], lengths))
        update = load(rows, (sources.number, *at[depth:]), sources.holds)
        return combine_sources(ReductionOp.SUM, sources, update)

    return (builder.compute(shape, body),)


def _sparse_to_dense(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SPARSE_TO_DENSE: the last of several values with equal indices wins."""
    indices, values = builder.value(call, "indices"), builder.value(call, "values")
    default, (shape,) = only_element(builder.value(call, "default")), output_shapes(call)
    count = indices.shape[0] if indices.shape else 1
    if not count:
        return (builder.compute(shape, lambda *_: default),)
    where, sources_at = None, None
    if indices.constant is not None:
        where = dense_positions(call)
        sources_at = known_sources(builder, where, math.prod(shape))
    if sources_at is None:
        offsets = (
            _linear_offsets(call, builder, builder.reshape(indices, (count, len(shape))), shape)
            if where is None
            else builder.constant(where)
        )
        updates = values if values.shape else builder.compute((count,), lambda _: load(values, ()))
        if isinstance(default, Constant):
            return (builder.scatter(offsets, updates, output=shape, initial=default.value),)
        base = builder.compute(shape, lambda *_: default)
        return (builder.scatter(offsets, updates, output=shape, base=base),)

    def body(*at: Expression) -> Expression:
        last = last_source(sources_at(linearize(at, shape))).to(Scalar.INDEX)
        return load(values, (last,) if values.shape else (), last >= 0, default)

    return (builder.compute(shape, body),)


def _one_hot(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers ONE_HOT: `on` where the index equals the position along the new axis, else `off`."""
    indices, axis = builder.value(call, "indices"), one_hot_axis(call)
    on, off = (only_element(builder.value(call, name)) for name in ("on", "off"))
    (shape,) = output_shapes(call)

    def body(*at: Expression) -> Expression:
        number = element(indices, (*at[:axis], *at[axis + 1 :]))
        return select(as_index(number, -1, shape[axis]).equals(at[axis]), on, off)

    return (builder.compute(shape, body),)


LOWERINGS = {
    OperationType.TFLITE_SCATTER_ND: _scatter_nd,
    OperationType.TFLITE_SPARSE_TO_DENSE: _sparse_to_dense,
    OperationType.TFLITE_ONE_HOT: _one_hot,
}

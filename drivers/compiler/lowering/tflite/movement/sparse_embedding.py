"""Lowers EMBEDDING_LOOKUP_SPARSE, which combines rows of a table."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from neurald.drivers.compiler.ir.algorithm import CombinedRows
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, index, load, select
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.machinery.scatter_sources import (
    ScatterSources,
    combine_sources,
    known_sources,
    last_source,
)
from neurald.drivers.compiler.lowering.movement.gather import are_in_range
from neurald.drivers.compiler.lowering.movement.indexing import bounded_index, element, output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.tflite.movement.sparse_embedding import Combiner, known_combiner, lookup_rows


def _checked_rows(call: Call, builder: Builder) -> Value:
    """Returns the lookups as INT32, with the requirement that they are rows of the table."""
    lookups, length = builder.value(call, "lookups"), call.shape("values")[0]
    if are_in_range(lookups, length):
        return lookups

    def row(at: Expression) -> tuple[Expression, Expression]:
        return bounded_index(element(lookups, (at,)), length)

    message = f"{call.name('lookups')}: indexes from 0 to {length - 1} are expected"
    return builder.compute(
        lookups.shape, lambda at: row(at)[0].to(Scalar.INT32), lambda at: ((row(at)[1], message),)
    )


def _is_split(indexes: Array) -> bool:
    """Returns True if equal numbers are not all adjacent."""
    runs = indexes[np.flatnonzero(np.diff(indexes, prepend=-1))]
    return len(set(runs.tolist())) < len(runs)


def _combined(call: Call, builder: Builder, rows: Value, shape: Shape, depth: int) -> Value:
    """Combines rows one after another, whose destinations are not known or not grouped.

    Args:
        call: the operation.
        builder: the builder of the operation.
        rows: the rows of the table.
        shape: the shape of the result.
        depth: number of its dimensions that are those of the destinations.
    """
    indices, values = builder.value(call, "indices"), builder.value(call, "values")
    lengths, width = shape[:depth], math.prod(shape[depth:])

    def coordinates(at: Expression) -> list[Expression]:
        return [load(indices, (at, index(axis))) for axis in range(depth)]

    def destination(at: Expression) -> Expression:
        inside = [
            bounded_index(each, length)[0] for each, length in zip(coordinates(at), lengths, strict=True)
        ]
        return linearize(inside, lengths).to(Scalar.INT32)

    def requirements(at: Expression) -> list[tuple[Expression, str]]:
        message = f"{call.name('indices')}: indexes below {list(lengths)} are expected"
        return [
            (bounded_index(each, length)[1], message)
            for each, length in zip(coordinates(at), lengths, strict=True)
        ]

    result = builder.procedure(
        CombinedRows(combiner=known_combiner(call)),
        builder.compute(rows.shape, destination, requirements),
        builder.compute(rows.shape, lambda at: load(rows, (at,)).to(Scalar.INT32)),
        builder.value(call, "weights"),
        builder.reshape(values, (values.shape[0], width)),
        output=(math.prod(lengths), width),
        type=Scalar.FLOAT32,
    )
    return builder.reshape(result, shape)


def _lookup_sparse(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers EMBEDDING_LOOKUP_SPARSE, which combines the weighted rows of each destination."""
    combiner, (shape,) = known_combiner(call), output_shapes(call)
    values, weights = builder.value(call, "values"), builder.value(call, "weights")
    depth = len(shape) - len(values.shape) + 1
    lengths = shape[:depth]
    rows, sources_at = _checked_rows(call, builder), None
    if builder.value(call, "indices").constant is not None:
        indexes = lookup_rows(call, lengths)
        if combiner is Combiner.SUM or not _is_split(indexes):
            sources_at = known_sources(builder, indexes, math.prod(lengths))
    if sources_at is None:
        return (_combined(call, builder, rows, shape, depth),)

    def total(of: Callable[[ScatterSources], Expression], at: Sequence[Expression]) -> Expression:
        sources = sources_at(linearize(at[:depth], lengths))
        return combine_sources(ReductionOp.SUM, sources, of(sources))

    def weight(sources: ScatterSources) -> Expression:
        return load(weights, (sources.number,), sources.holds)

    def body(*at: Expression) -> Expression:
        def weighted(sources: ScatterSources) -> Expression:
            row = load(rows, (sources.number,), sources.holds).to(Scalar.INDEX)
            return weight(sources) * load(values, (row, *at[depth:]), sources.holds)

        result = total(weighted, at)
        if combiner is Combiner.SUM:
            return result
        if combiner is Combiner.MEAN:
            divisor = total(weight, at)
        else:
            divisor = apply(Op.SQRT, total(lambda sources: weight(sources) * weight(sources), at))
        # Destinations without lookups are 0.
        last = last_source(sources_at(linearize(at[:depth], lengths)))
        return select(last >= 0, result / divisor, 0)

    return (builder.compute(shape, body),)


LOWERINGS = {OperationType.TFLITE_EMBEDDING_LOOKUP_SPARSE: _lookup_sparse}

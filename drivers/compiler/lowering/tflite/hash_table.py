"""Lowers HASHTABLE_LOOKUP for all types, HASHTABLE_FIND in constant tables, and HASHTABLE_SIZE."""

import numpy as np

from neurald.drivers.compiler.ir.algorithm import StringSearch
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, index, load, minimum, select
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.string_table import string_table
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.movement.gather import first_indexes, hashtable_lookup
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def _find(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers HASHTABLE_FIND; unknown keys give the first element of the default."""
    queries, default = (builder.value(call, name) for name in ("keys", "default"))
    row = builder.reshape(queries, (queries.count,))
    if is_string(call.operand("keys").type):
        indexes = _search_strings(call, builder, row)
    else:
        indexes = first_indexes(builder, row, builder.value(call, "table_keys"))
    values = builder.value(call, "table_values")
    (count,) = values.shape
    first = (index(0),) * len(default.shape)

    def body(*at: Expression) -> Expression:
        missing = load(default, first)
        if not count:
            return missing
        found = load(indexes, delinearize(linearize(at, queries.shape), row.shape)).to(Scalar.INDEX)
        return select(found < count, load(values, (minimum(found, count - 1),)), missing)

    return (builder.compute(queries.shape, body),)


def _search_strings(call: Call, builder: Builder, row: Value) -> Value:
    keys = call.array("table_keys").tolist()
    table = string_table(keys)
    if not row.count or not keys:
        return builder.constant(np.full(row.shape, len(keys), np.int32))
    return builder.procedure(
        StringSearch(),
        row,
        builder.constant(table.places),
        builder.constant(table.keys),
        # Values have at least one element.
        builder.constant(table.characters if table.characters.size else np.zeros(8, np.uint8)),
        output=row.shape,
    )


def _count(call: Call, builder: Builder) -> tuple[Value, ...]:
    (count,) = call.shape("table_keys")
    return (builder.compute((1,), lambda _: constant(count, Scalar.INT64)),)


LOWERINGS: Lowerings = {
    OperationType.TFLITE_HASHTABLE_LOOKUP: hashtable_lookup,
    OperationType.TFLITE_HASHTABLE_FIND: _find,
    OperationType.TFLITE_HASHTABLE_SIZE: _count,
}

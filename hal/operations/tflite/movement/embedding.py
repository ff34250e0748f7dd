"""EMBEDDING_LOOKUP of all types, and from 8-bit tables."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, tensor
from neurald.hal.operations.movement.gather import embedding_shape
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

#: The ranks of tables.
TABLE_RANKS = (2, MAX_RANK)

FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
QUANTIZED_TABLES = (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL)


def existing_rows(call: Call, name: str) -> Array:
    """Returns the row numbers of a lookup.

    Raises:
        BadData: the table has no such row.
    """
    numbers, length = call.array(name), call.shape("values")[0]
    wrong = np.flatnonzero((numbers < 0) | (numbers >= length))
    if wrong.size:
        raise BadData(
            f"{call.name(name)} has {numbers[wrong[0]]} at {wrong[0]}; indexes from 0 to {length - 1} are "
            "expected"
        )
    return numbers


def rows_exist(call: Call) -> None:
    """Checks that the table has all rows that are looked up."""
    existing_rows(call, "lookups")


def _dequantized_table(call: Call) -> None:
    """Checks that an 8-bit table with float output has zero point 0, and one scale (per row)."""
    table = call.operand("values")
    if call.operand("output").type not in FLOATS or table.type not in QUANTIZED_TABLES:
        return
    if table.zero_point:
        raise BadData(f"{call.name('values')} has zero point {table.zero_point}; 0 is expected")
    quant = table.channel_quant
    if quant is not None and (quant.dimension != 0 or len(quant.scales) != call.shape("values")[0]):
        raise BadData(f"{call.name('values')} has scales along dimension {quant.dimension}; 0 is expected")


def _lookup(call: Call) -> tuple[Array, ...]:
    numbers, table, output = existing_rows(call, "lookups"), call.operand("values"), call.operand("output")
    found = call.array("values")[numbers]
    if output.type not in FLOATS or table.type not in QUANTIZED_TABLES:
        return (found,)
    quant = table.channel_quant
    scales = np.array((table.scale,) if quant is None else quant.scales, np.float32)
    each = scales if quant is None else scales[numbers]
    with np.errstate(over="ignore"):
        real = found.astype(np.float32) * each.reshape(-1, *(1,) * (found.ndim - 1))
        return (real.astype(output.type.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_EMBEDDING_LOOKUP,
        forms=(
            Form(
                inputs=(
                    tensor("lookups", OperandType.TENSOR_INT32, rank=1),
                    tensor("values", "F", rank=TABLE_RANKS),
                ),
                outputs=(tensor("output", rank=TABLE_RANKS),),
            ),
        ),
        rows=(
            *(row(FeatureLevel.LEVEL_1, F=kind, T=kind, zero_points16=True) for kind in ELEMENTS),
            *(row(FeatureLevel.LEVEL_1, F=table, T=kind) for table in QUANTIZED_TABLES for kind in FLOATS),
        ),
        checks=(_dequantized_table, rows_exist),
        shape=embedding_shape,
        reference=_lookup,
        widens=OperationType.EMBEDDING_LOOKUP,
    ),
)

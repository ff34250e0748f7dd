"""Lowers EMBEDDING_LOOKUP, also from 8-bit tables."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.gather import gathered
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.embedding import FLOATS, QUANTIZED_TABLES


def _embedding_lookup(call: Call, builder: Builder) -> tuple[Value, ...]:
    values, table, output = builder.value(call, "values"), call.operand("values"), call.operand("output")
    if table.type not in QUANTIZED_TABLES or output.type not in FLOATS:
        return (gathered(call, builder, "lookups", 0),)
    quant, kind = table.channel_quant, Scalar.of(output.type.dtype)
    scales = None if quant is None else builder.constant(np.array(quant.scales, np.float32))

    def read(at: Sequence[Expression]) -> Expression:
        scale = constant(table.scale, Scalar.FLOAT32) if scales is None else load(scales, (at[0],))
        return (load(values, tuple(at)).to(Scalar.FLOAT32) * scale).to(kind)

    return (gathered(call, builder, "lookups", 0, read=read),)


LOWERINGS = {OperationType.TFLITE_EMBEDDING_LOOKUP: _embedding_lookup}

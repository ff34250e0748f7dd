"""Lowers CONCATENATION."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.concatenation import RESCALED, concatenation_axis, rescale


def _rescaled(builder: Builder, value: Value, operand: Operand, output: Operand) -> Value:
    """Requantises a value to the output's scale and zero point by a table of 256 entries."""
    same = (operand.scale, operand.zero_point) == (output.scale, output.zero_point)
    if same or output.type not in RESCALED:
        return value
    limits = np.iinfo(operand.type.dtype.name)
    every = np.arange(limits.min, limits.max + 1).astype(operand.type.dtype)
    table = builder.constant(rescale(every, operand, output))

    def body(*at: Expression) -> Expression:
        return load(table, (load(value, at).to(Scalar.INDEX) - int(limits.min),))

    return builder.compute(value.shape, body)


def concatenate(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CONCATENATION.

    8-bit inputs are requantised to the output; others are copied as stored.
    """
    parts = [
        _rescaled(builder, value, operand, call.operand("output"))
        for value, operand in zip(builder.values(call, "inputs"), call.operands("inputs"), strict=True)
    ]
    return (concatenated(builder, parts, concatenation_axis(call)),)


LOWERINGS = {OperationType.CONCATENATION: concatenate}

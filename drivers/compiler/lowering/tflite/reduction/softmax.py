"""Lowers SOFTMAX and LOG_SOFTMAX for all of TFLite's types and ranks."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, constant, load
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.gemmlowp import bit_length
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale
from neurald.drivers.compiler.lowering.machinery.reduced_axes import first_along, reduce_dimensions
from neurald.drivers.compiler.lowering.reduction.softmax import lower_log_softmax, lower_softmax
from neurald.drivers.compiler.lowering.tflite.machinery.tables import interpolated
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.tflite.reduction.softmax import (
    exponent_steps,
    exponential_table,
    reciprocal_table,
)

_LIMITS = np.iinfo(np.int16)


def _softmax(call: Call, builder: Builder) -> tuple[Value, ...]:
    is_int16 = call.operand("input").type is OperandType.TENSOR_QUANT16_SYMM
    return _softmax16(call, builder) if is_int16 else lower_softmax(call, builder)


def _centred(value: Expression) -> Expression:
    return clamp(value, int(_LIMITS.min), int(_LIMITS.max)).to(Scalar.INT32)


def _softmax16(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers 16-bit SOFTMAX with tables of exponentials and reciprocals.

    See `neurald.hal.operations.tflite.reduction.softmax`.
    """
    source = builder.value(call, "input")
    axis = resolve_axis(call.scalar("axis"), len(source.shape), call.name("axis"))
    powers_of, reciprocals_of = (builder.constant(table()) for table in (exponential_table, reciprocal_table))
    largest = reduce_dimensions(builder, source, (axis,), ReductionOp.MAXIMUM)

    def power(*at: Expression) -> Expression:
        value, top = (load(source, at), load(largest, first_along(at, axis)))
        difference = value.to(Scalar.INT64) - top.to(Scalar.INT64)
        steps = rescale(difference, exponent_steps(call))
        return interpolated(powers_of, _centred(steps + int(_LIMITS.max)))

    powers = builder.compute(source.shape, power)
    totals = reduce_dimensions(
        builder, powers, (axis,), ReductionOp.SUM, element=lambda value: value.to(Scalar.INT64)
    )

    def reciprocal(*at: Expression) -> Expression:
        # Normalises the sum to [1, 2) and subtracts 1.
        total = load(totals, at)
        shifted = ((total << (-bit_length(total) + 31)) + (1 << 13)) >> 14
        return interpolated(reciprocals_of, _centred(shifted - ((1 << 15) + (1 << 16))))

    reciprocals = builder.compute(totals.shape, reciprocal)
    rights = builder.compute(totals.shape, lambda *at: bit_length(load(totals, at)) - 1)

    def body(*at: Expression) -> Expression:
        row = first_along(at, axis)
        right = load(rights, row)
        product = load(powers, at).to(Scalar.INT64) * load(reciprocals, row).to(Scalar.INT64)
        half = (constant(1, Scalar.INT64) << right) >> 1
        return clamp((product + half) >> right, 0, int(_LIMITS.max)).to(source.type)

    return (builder.compute(source.shape, body),)


LOWERINGS = {
    OperationType.TFLITE_SOFTMAX: _softmax,
    OperationType.TFLITE_LOG_SOFTMAX: lower_log_softmax,
}

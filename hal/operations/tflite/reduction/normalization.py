"""L2_NORMALIZATION of any rank, with TFLite's arithmetic on quantised values."""

import math

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.fixed_point import multiply
from neurald.hal.operations.arithmetic.quantized import saturate
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.reduction.normalization import DEFINITIONS as NORMALIZATIONS
from neurald.hal.operations.tflite.machinery.tables import FLOATS, QUANT8, typed_rows
from neurald.hal.operations.tflite.machinery.widening import widen
from neurald.hal.records import replace

#: Results are fractions of 2^7.
FRACTION_BITS = 7

_NARROW = next(d for d in NORMALIZATIONS if d.type is OperationType.L2_NORMALIZATION)


def _reference(call: Call) -> tuple[Array, ...]:
    operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
    if not is_quantized(output):
        return _NARROW.reference(call)
    from neurald.hal.operations.arithmetic.gemmlowp import inverse_square_root  # few models need it

    axis = resolve_axis(call.scalar("axis"), values.ndim, call.name("axis"))
    differences = np.moveaxis(values.astype(np.int64) - operand.zero_point, axis, 0)
    rows = differences.reshape(len(differences), math.prod(differences.shape[1:]))
    # TFLite's sums have 31 bits.
    squares = np.minimum(np.square(rows).sum(axis=0), (1 << 31) - 1)
    mantissas, exponents = inverse_square_root(squares)
    # TFLite multiplies unsigned values differently, which affects rounding.
    if rows.size and values.dtype.kind == "u":
        rows = multiply(rows << FRACTION_BITS, mantissas, exponents)
    elif rows.size:
        rows = multiply(rows, mantissas, exponents + FRACTION_BITS)
    results = np.moveaxis(rows.reshape(differences.shape), 0, axis)
    return (saturate(results + output.zero_point, output),)


DEFINITIONS = (
    replace(
        widen(_NARROW, OperationType.TFLITE_L2_NORMALIZATION, rows=typed_rows(*FLOATS, *QUANT8)),
        reference=_reference,
    ),
)

"""Functions of one number with all types of TFLite."""

from collections.abc import Callable
from functools import cache

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import saturate
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import shape_of_input
from neurald.hal.operations.machinery.signature import Row
from neurald.hal.operations.tflite.machinery.tables import (
    FLOATS,
    QUANTIZED_TYPES,
    lookup,
    typed_rows,
    unary_form,
)

_SIGNED = (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM)
_INTEGERS = (OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
_FLOAT64 = OperandType.TENSOR_FLOAT64

#: Additional bits of an inverse root, so that it is an integer.
_ROOT_BITS = 20

QuantizedUnary = Callable[[Array, Operand, Operand], Array]


def _by_table(function: Callable[[Array, Operand], Array]) -> QuantizedUnary:
    """Returns a quantised function, by TFLite's table, from one of real numbers and the output."""

    def compute(values: Array, operand: Operand, output: Operand) -> Array:
        return lookup(lambda real: function(real, output), values, operand, output)

    return compute


def _absolute(values: Array, operand: Operand, output: Operand) -> Array:
    magnitudes = np.abs(values.astype(np.int64) - operand.zero_point)
    ratio = single_ratio(operand.scale, 1, output.scale)
    if ratio != 1:
        magnitudes = multiply(magnitudes, *quantize_multiplier(ratio))
    return saturate(magnitudes + output.zero_point, output)


def _not_negative(values: Array, operand: Operand) -> Array:
    """Returns differences from the zero point.

    Raises:
        BadData: one is negative.
    """
    differences = values.astype(np.int64) - operand.zero_point
    if (differences < 0).any():
        raise BadData(
            f"the square root of {differences.min() * operand.scale:g} is undefined; at least 0 is expected"
        )
    return differences


def _root(values: Array, operand: Operand, output: Operand) -> Array:
    """Computes square roots, truncated instead of rounded."""
    real = np.float32(operand.scale) * _not_negative(values, operand).astype(np.float32)
    with np.errstate(over="ignore"):
        quotient = (np.sqrt(real) / np.float32(output.scale)).astype(np.float64)
    return saturate(np.trunc(quotient) + output.zero_point, output)


def _inverse_root(values: Array, operand: Operand, output: Operand) -> Array:
    """Computes inverse square roots; 0 gives the maximum of the output."""
    differences = _not_negative(values, operand)
    if values.dtype.itemsize == 2:
        largest = np.float32(np.iinfo(np.int16).max) * np.float32(output.scale)
        return lookup(
            lambda real: np.where(real <= 0, largest, 1 / np.sqrt(np.maximum(real, 0))),
            values,
            operand,
            output,
        )
    scale = 1 / (float(np.sqrt(np.float32(operand.scale))) * float(np.float32(output.scale)))
    mantissa, exponent = quantize_multiplier(scale)
    results = multiply(_byte_roots(), mantissa, exponent - _ROOT_BITS) + output.zero_point
    results[0] = np.iinfo(values.dtype).max
    return saturate(results[differences], output)


@cache
def _byte_roots() -> Array:
    """Returns the inverse roots of all differences of bytes from their zero point, INT64."""
    from neurald.hal.operations.arithmetic.gemmlowp import inverse_square_root  # few models need it

    differences = np.arange(256)
    mantissas, exponents = inverse_square_root(differences)
    return multiply(np.ones_like(differences), mantissas, exponents + _ROOT_BITS)


def _logarithm(values: Array, output: Operand) -> Array:
    """Computes logarithms; arguments that are not positive give the minimum of the output."""
    lowest = (np.iinfo(output.type.dtype.name).min - output.zero_point) * np.float32(output.scale)
    is_positive = values > 0
    return np.where(is_positive, np.log(np.where(is_positive, values, 1)), np.float32(lowest))


def _exponential(values: Array, _: Operand) -> Array:
    return np.exp(values)


def _apply(
    function: Callable[[Array], Array], quantized: QuantizedUnary | None
) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference.

    Float16 is computed in float32, quantised values by `quantized` or as integers.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
        with np.errstate(all="ignore"):
            if quantized is not None and is_quantized(output):
                return (quantized(values, operand, output),)
            real = values.astype(np.float32) if values.dtype == np.float16 else values
            return (np.asarray(function(real)).astype(output.type.dtype, copy=False),)

    return reference


def _definition(
    operation_type: OperationType,
    function: Callable[[Array], Array],
    rows: tuple[Row, ...],
    *,
    quantized: QuantizedUnary | None = None,
    widens: OperationType | None = None,
    arithmetic: frozenset[str] = frozenset({"input"}),
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(unary_form(),),
        rows=rows,
        shape=shape_of_input,
        reference=_apply(function, quantized),
        widens=widens,
        arithmetic=arithmetic,
    )


_REAL_ROWS = typed_rows(*FLOATS)
_QUANTIZED_ROWS = typed_rows(*FLOATS, *_SIGNED)

DEFINITIONS = (
    _definition(
        OperationType.TFLITE_ABS,
        np.abs,
        typed_rows(*FLOATS, *_INTEGERS, *_SIGNED),
        quantized=_absolute,
        widens=OperationType.ABS,
    ),
    _definition(OperationType.TFLITE_CEIL, np.ceil, _REAL_ROWS),
    _definition(OperationType.TFLITE_COS, np.cos, _REAL_ROWS),
    _definition(
        OperationType.TFLITE_EXP,
        np.exp,
        _QUANTIZED_ROWS,
        quantized=_by_table(_exponential),
        widens=OperationType.EXP,
    ),
    _definition(OperationType.TFLITE_FLOOR, np.floor, _REAL_ROWS, widens=OperationType.FLOOR),
    _definition(
        OperationType.TFLITE_LOG,
        np.log,
        _QUANTIZED_ROWS,
        quantized=_by_table(_logarithm),
        widens=OperationType.LOG,
    ),
    _definition(
        OperationType.TFLITE_NEG,
        np.negative,
        typed_rows(*FLOATS, *_INTEGERS, *QUANTIZED_TYPES, zero_points16=True),
        widens=OperationType.NEG,
    ),
    _definition(OperationType.TFLITE_ROUND, np.rint, _REAL_ROWS),
    _definition(
        OperationType.TFLITE_RSQRT,
        lambda values: 1 / np.sqrt(values),
        _QUANTIZED_ROWS,
        quantized=_inverse_root,
        widens=OperationType.RSQRT,
        arithmetic=frozenset(),  # values are checked
    ),
    _definition(OperationType.TFLITE_SIGN, np.sign, typed_rows(*FLOATS, _FLOAT64, OperandType.TENSOR_INT32)),
    _definition(
        OperationType.TFLITE_SQRT,
        np.sqrt,
        _QUANTIZED_ROWS,
        quantized=_root,
        widens=OperationType.SQRT,
        arithmetic=frozenset(),  # values are checked
    ),
    _definition(OperationType.TFLITE_SQUARE, np.square, typed_rows(*FLOATS, OperandType.TENSOR_INT32)),
)

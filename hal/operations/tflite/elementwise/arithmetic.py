"""Arithmetic on two tensors with broadcasting, and ADD_N."""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, FusedActivation, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier
from neurald.hal.operations.arithmetic.quantized import activate, saturate
from neurald.hal.operations.elementwise.arithmetic import quantized_product, quantized_sum
from neurald.hal.operations.machinery.broadcasting import binary_shape
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Row, row, scalar, tensor
from neurald.hal.operations.tflite.machinery.tables import (
    FLOATS,
    QUANT8,
    QUANTIZED_TYPES,
    binary_form,
    typed_rows,
)
from neurald.hal.records import replace

_INT16 = OperandType.TENSOR_QUANT16_SYMM
_PLAIN = (*FLOATS, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
_COMPLEX = OperandType.TENSOR_COMPLEX64

#: Left shift of addends whose difference is squared.
DIFFERENCE_SHIFT = 7

_ACTIVATED = binary_form(scalar("activation"))
#: The flag selects shifts instead of rescaling for int16 sums with power-of-two scales.
_SUM = binary_form(scalar("activation"), scalar("power_of_two_scales", OperandType.BOOL, default=False))


def _widen_float16(values: Array) -> Array:
    """Widens float16 for computation."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _activate(values: Array, call: Call) -> Array:
    if call.activation is FusedActivation.NONE:
        return values
    if values.dtype.kind == "f":
        return activate(values, call.activation)
    low, high = activate(np.array([-np.inf, np.inf]), call.activation)
    if np.isfinite(high):
        values = np.minimum(values, int(high))
    return np.maximum(values, 0 if values.dtype.kind == "u" else int(low))


def _arithmetic(
    function: Callable[[Array, Array], Array], quantized: Callable[[Call], Array]
) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference: integers modulo 2^bits, quantised values by `quantized`."""

    def reference(call: Call) -> tuple[Array, ...]:
        output = call.operand("output")
        if is_quantized(output):
            return (saturate(quantized(call), output, call.activation),)
        with np.errstate(all="ignore"):
            result = function(_widen_float16(call.array("input1")), _widen_float16(call.array("input2")))
        return (_activate(np.asarray(result), call).astype(output.type.dtype, copy=False),)

    return reference


def _product(call: Call) -> tuple[Array, ...]:
    """Computes products; int16 inputs with 8-bit outputs are fractions of 2^15, for any scales."""
    output = call.operand("output")
    if call.operand("input1").type is not _INT16 or output.type is _INT16:
        return _PRODUCT(call)
    from neurald.hal.operations.arithmetic.gemmlowp import product16, shift_right  # few models need it

    products = shift_right(product16(call.array("input1"), call.array("input2")), 8)
    return (saturate(products + output.zero_point, output, call.activation),)


def _same_shapes(call: Call) -> None:
    """Checks that products of int16 with 8-bit outputs do not broadcast."""
    if call.operand("input1").type is not _INT16 or call.operand("output").type is _INT16:
        return
    first, second = call.shape("input1"), call.shape("input2")
    if first != second:
        raise BadData(
            f"{call.name('input2')} has shape {list(second)}; {list(first)} is expected where int16 gives "
            "8 bits"
        )


def _none_for_complex(call: Call) -> None:
    if call.operand("output").type is _COMPLEX and call.activation:
        raise BadData(f"{call.name('activation')} is {call.activation.name}; TENSOR_COMPLEX64 takes NONE")


def sum_shifts(call: Call) -> tuple[int, int] | None:
    """Returns the right shift of each input of an int16 sum; None if it is rescaled."""
    if call.operand("output").type is not _INT16 or not call.scalar("power_of_two_scales"):
        return None
    logarithms = [np.log2(np.float32(call.operand(n).scale)) for n in ("input1", "input2", "output")]
    rounded = [round(float(number)) for number in logarithms]
    if any(abs(a - b) >= 1e-3 for a, b in zip(logarithms, rounded, strict=True)):
        return None
    return rounded[2] - rounded[0], rounded[2] - rounded[1]


def _power_of_two_scales(call: Call) -> None:
    shifts = sum_shifts(call)
    if shifts is not None and (min(shifts) < 0 or 0 not in shifts):
        largest = max(call.operand(name).scale for name in ("input1", "input2"))
        raise BadData(
            f"{call.name('output')} has scale {call.operand('output').scale:g}; the larger scale of the "
            "inputs, "
            f"{largest:g}, is expected"
        )


def _sum(sign: int) -> Callable[[Call], Array]:
    general = quantized_sum(sign)

    def compute(call: Call) -> Array:
        shifts = sum_shifts(call)
        if shifts is None:
            return general(call)
        first, second = (
            _shift_right(call.array(name).astype(np.int64), shift)
            for name, shift in zip(("input1", "input2"), shifts, strict=True)
        )
        return np.asarray(first + sign * second)

    return compute


def _shift_right(values: Array, bits: int) -> Array:
    """Shifts right, rounded to nearest, ties away from zero."""
    bits = min(bits, 31)
    half = (1 << bits) >> 1
    shifted: Array = np.sign(values) * ((np.abs(values) + half) >> bits)
    return shifted


def _nonzero_divisor(call: Call) -> Array:
    """Returns the divisor.

    Raises:
        BadData: it contains a 0.
    """
    divisor, operand = call.array("input2"), call.operand("input2")
    zero = operand.zero_point if call.binding.type is OperationType.TFLITE_DIV else 0
    if (divisor == zero).any():
        raise BadData(f"{call.name('input2')} contains 0; non-zero divisors are expected")
    return divisor


def _divide(first: Array, second: Array) -> Array:
    """Divides; integers truncate."""
    if first.dtype.kind == "f":
        return first / second
    wide, divisor = first.astype(np.int64), second.astype(np.int64)
    quotient: Array = np.sign(wide) * np.sign(divisor) * (np.abs(wide) // np.abs(divisor))
    return quotient


def _quotient(call: Call) -> tuple[Array, ...]:
    if call.operand("output").type not in FLOATS:
        _nonzero_divisor(call)
    return _arithmetic(_divide, _quantized_quotient)(call)


def _quantized_quotient(call: Call) -> Array:
    """Multiplies the dividend by the divisor's reciprocal in 32-bit fixed point."""
    one, two, output = (call.operand(name) for name in ("input1", "input2", "output"))
    first, second = np.broadcast_arrays(
        call.array("input1").astype(np.int64) - one.zero_point,
        call.array("input2").astype(np.int64) - two.zero_point,
    )
    dividend, divisor = (first * np.sign(second)).reshape(-1), np.abs(second).reshape(-1)
    inverse, over_unit = reciprocal(divisor)
    headroom = 31 - _bits(np.where(dividend < 0, -dividend - 1, dividend))
    scale = np.float32(one.scale) / (np.float32(two.scale) * np.float32(output.scale))
    mantissa, exponent = quantize_multiplier(float(scale))
    unscaled = _product32(dividend << headroom, inverse)
    # A larger right shift gives 0 as well.
    result = multiply(unscaled, mantissa, np.maximum(exponent - over_unit - headroom, -32))
    return result.reshape(first.shape) + output.zero_point


def _bits(values: Array) -> Array:
    """Returns the number of bits of non-negative numbers."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _product32(first: Array, second: Array | int) -> Array:
    """Returns the high half of a doubled product, rounded to nearest."""
    product = np.asarray(first * second, np.int64) + (1 << 30)
    return np.asarray(np.minimum(product >> 31, (1 << 31) - 1))


def reciprocal(values: Array) -> tuple[Array, Array]:
    """Computes 1 / values by Newton-Raphson: fractions of 2^31, and right shifts to apply."""
    bits = _bits(values)
    one = (1 << 31) - 1
    half = ((values << (32 - bits)) - (1 << 31) + one + 1) >> 1
    x = round(48 / 17 * (1 << 29)) + _product32(half, round(-32 / 17 * (1 << 29)))
    for _ in range(3):
        error = (1 << 29) - _product32(half, x)
        x = x + np.clip(_product32(x, error) << 2, -1 << 31, one)
    return np.minimum(x << 1, one), bits - 1


def _squared_difference(call: Call) -> tuple[Array, ...]:
    output = call.operand("output")
    if not is_quantized(output):
        with np.errstate(all="ignore"):
            difference = _widen_float16(call.array("input1")) - _widen_float16(call.array("input2"))
            return (np.asarray(difference * difference).astype(output.type.dtype),)
    largest = 2.0 * max(call.operand("input1").scale, call.operand("input2").scale)
    total: Array | int = 0
    for name, sign in (("input1", 1), ("input2", -1)):
        operand = call.operand(name)
        shifted = (call.array(name).astype(np.int64) - operand.zero_point) << DIFFERENCE_SHIFT
        total = total + sign * multiply(shifted, *quantize_multiplier(operand.scale / largest))
    rescale = largest * largest / ((1 << 2 * DIFFERENCE_SHIFT) * output.scale)
    squares = multiply(np.square(np.asarray(total)), *quantize_multiplier(rescale))
    return (saturate(squares + output.zero_point, output),)


def _floor_quotient(call: Call) -> tuple[Array, ...]:
    divisor, values = _nonzero_divisor(call), call.array("input1")
    if values.dtype.kind == "f":
        with np.errstate(all="ignore"):
            quotient = np.floor(values.astype(np.float64) / divisor.astype(np.float64))
            return (np.asarray(quotient).astype(values.dtype),)
    with np.errstate(over="ignore"):
        return (np.asarray(values // divisor),)


def _remainder(call: Call) -> tuple[Array, ...]:
    """Computes the remainder of a floored division, which has the divisor's sign."""
    values, divisor = call.array("input1"), call.array("input2")
    if values.dtype.kind != "f":
        _nonzero_divisor(call)
    with np.errstate(all="ignore"):
        return (
            np.asarray(np.mod(_widen_float16(values), _widen_float16(divisor))).astype(
                values.dtype, copy=False
            ),
        )


def _power(call: Call) -> tuple[Array, ...]:
    """Computes powers; integers saturate to 32 bits."""
    values, exponents = call.array("input1"), call.array("input2")
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f":
            return (
                np.asarray(np.power(_widen_float16(values), _widen_float16(exponents))).astype(values.dtype),
            )
        if (exponents < 0).any():
            raise BadData(
                f"{call.name('input2')} has {exponents.min()}; integer exponents of at least 0 are expected"
            )
        result = np.power(values.astype(np.float64), exponents.astype(np.float64))
    limits = np.iinfo(values.dtype)
    return (np.asarray(np.clip(result, limits.min, limits.max)).astype(values.dtype),)


def _angle(call: Call) -> tuple[Array, ...]:
    y, x = call.array("input1"), call.array("input2")
    return (np.asarray(np.arctan2(_widen_float16(y), _widen_float16(x))).astype(y.dtype, copy=False),)


def _sum_shape(call: Call) -> tuple[Shape, ...]:
    first, *others = call.shapes("inputs")
    for shape in others:
        if shape != first:
            raise BadData(f"an addend of ADD_N has shape {list(shape)}; {list(first)} is expected")
    return (first,)


def _sum_of_all(call: Call) -> tuple[Array, ...]:
    first, *others = call.arrays("inputs")
    total = first.copy()
    with np.errstate(all="ignore"):
        for addend in others:
            total += addend
    return (total,)


def _definition(
    operation_type: OperationType,
    reference: Callable[[Call], tuple[Array, ...]],
    rows: tuple[Row, ...],
    *,
    form: Form | None = None,
    checks: tuple[Check, ...] = (),
    widens: OperationType | None = None,
    arithmetic: frozenset[str] = frozenset({"input1", "input2"}),
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(form or binary_form(),),
        rows=rows,
        checks=checks,
        shape=binary_shape,
        reference=reference,
        widens=widens,
        arithmetic=arithmetic,
    )


_SUMMED = typed_rows(*_PLAIN, *QUANT8, _INT16)
_PRODUCT = _arithmetic(np.multiply, quantized_product)

DEFINITIONS = (
    _definition(
        OperationType.TFLITE_ADD,
        _arithmetic(np.add, _sum(1)),
        _SUMMED,
        form=_SUM,
        checks=(_power_of_two_scales,),
        widens=OperationType.ADD,
    ),
    _definition(
        OperationType.TFLITE_SUB,
        _arithmetic(np.subtract, _sum(-1)),
        _SUMMED,
        form=_SUM,
        checks=(_power_of_two_scales,),
        widens=OperationType.SUB,
    ),
    _definition(
        OperationType.TFLITE_MUL,
        _product,
        (
            *(
                row(FeatureLevel.LEVEL_1, T=kind, U=kind)
                for kind in (*_PLAIN, OperandType.TENSOR_UINT32, _COMPLEX, *QUANT8, _INT16)
            ),
            *(row(FeatureLevel.LEVEL_1, T=_INT16, U=narrow) for narrow in QUANT8),
        ),
        form=replace(_ACTIVATED, outputs=(tensor("output", "U", rank=ANY_RANK),)),
        checks=(_none_for_complex, _same_shapes),
        widens=OperationType.MUL,
    ),
    # Those that divide integers have no arithmetic inputs, nor has POW: a divisor or an exponent
    # must not change after it was compared with 0.
    _definition(
        OperationType.TFLITE_DIV,
        _quotient,
        typed_rows(*FLOATS, OperandType.TENSOR_INT32, *QUANT8, _INT16, zero_points16=True),
        form=_ACTIVATED,
        widens=OperationType.DIV,
        arithmetic=frozenset(),
    ),
    _definition(
        OperationType.TFLITE_SQUARED_DIFFERENCE,
        _squared_difference,
        typed_rows(*_PLAIN, *QUANT8),
    ),
    _definition(
        OperationType.TFLITE_FLOOR_DIV,
        _floor_quotient,
        typed_rows(*_PLAIN, *QUANTIZED_TYPES, zero_points16=True),
        arithmetic=frozenset(),
    ),
    _definition(
        OperationType.TFLITE_FLOOR_MOD,
        _remainder,
        typed_rows(*_PLAIN, *QUANTIZED_TYPES, zero_points16=True),
        arithmetic=frozenset(),
    ),
    _definition(
        OperationType.TFLITE_POW,
        _power,
        typed_rows(*FLOATS, OperandType.TENSOR_INT32),
        widens=OperationType.POW,
        arithmetic=frozenset(),
    ),
    _definition(OperationType.TFLITE_ATAN2, _angle, typed_rows(*FLOATS, OperandType.TENSOR_FLOAT64)),
    Definition(
        type=OperationType.TFLITE_ADD_N,
        forms=(
            Form(
                inputs=(tensor("inputs", rank=ANY_RANK, variadic=True),),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=typed_rows(OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32),
        shape=_sum_shape,
        reference=_sum_of_all,
        arithmetic=frozenset({"inputs"}),
    ),
)

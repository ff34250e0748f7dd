"""Reductions over a set of axes as in TFLite: with more types, output scales, and rank 0.

CUMSUM is defined here too.
"""

import math
from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, saturate32, single_ratio
from neurald.hal.operations.arithmetic.quantized import round_away, saturate
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import resolve_axes
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Row, scalar, tensor
from neurald.hal.operations.reduction.reduction import highest, lowest, quantized_mean
from neurald.hal.operations.tflite.machinery.tables import FLOATS, QUANT8, typed_rows

_INT16 = OperandType.TENSOR_QUANT16_SYMM
_INTEGERS = (OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
_NUMBERS = (*FLOATS, *_INTEGERS, *QUANT8, _INT16)

#: Bits of the multipliers that rescale products of quantised values.
_MULTIPLIER_BITS = 15


def _form(keep_dims: OperandType) -> Form:
    return Form(
        inputs=(
            tensor("input", rank=ANY_RANK),
            tensor("axes", OperandType.TENSOR_INT32, rank=1),
            scalar("keep_dims", keep_dims),
        ),
        outputs=(tensor("output", rank=ANY_RANK),),
    )


def reduced_axes(call: Call) -> tuple[int, ...]:
    """Returns the axes to reduce; a scalar has none, regardless of the argument."""
    return resolve_axes(call, "axes") if call.shape("input") else ()


def _shape(call: Call) -> tuple[Shape, ...]:
    axes, shape = reduced_axes(call), call.shape("input")
    if call.scalar("keep_dims"):
        return (tuple(1 if axis in axes else length for axis, length in enumerate(shape)),)
    return (tuple(length for axis, length in enumerate(shape) if axis not in axes),)


def _reduction(
    plain: Callable[[Array, tuple[int, ...]], Array],
    quantized: Callable[[Array, Operand, Operand], Array] | None = None,
) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference for a reduction.

    Args:
        plain: reduces values (float16 is widened) over axes.
        quantized: reduces quantised values over axis 0, given their operand and the output.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output = call.operand("input"), call.operand("output")
        values, axes, (shape,) = call.array("input"), reduced_axes(call), _shape(call)
        with np.errstate(all="ignore"):
            if quantized is not None and is_quantized(output):
                kept = [axis for axis in range(values.ndim) if axis not in axes]
                count = math.prod(values.shape[axis] for axis in axes)
                rows = values.transpose(*axes, *kept).reshape(count, math.prod(shape))
                return (quantized(rows, operand, output).reshape(shape),)
            real = values.astype(np.float32) if values.dtype == np.float16 else values
            return (np.asarray(plain(real, axes)).astype(values.dtype).reshape(shape),)

    return reference


def _mean(values: Array, axes: tuple[int, ...]) -> Array:
    """Computes means; integers truncate, and the mean of no elements is NaN or 0."""
    count = math.prod(values.shape[axis] for axis in axes)
    if values.dtype.kind == "f":
        return np.asarray(values.sum(axis=axes, dtype=values.dtype) / values.dtype.type(count))
    total = np.asarray(values.sum(axis=axes, dtype=np.int64))
    return np.asarray(np.sign(total) * (np.abs(total) // max(1, count)))


def _quantized_mean(rows: Array, operand: Operand, output: Operand) -> Array:
    if not len(rows):
        return np.zeros(rows.shape[1], output.type.dtype)
    total = rows.sum(axis=0, dtype=np.int64) - operand.zero_point * len(rows)
    return quantized_mean(np.asarray(total), len(rows), operand, output)


def _quantized_sum(rows: Array, operand: Operand, output: Operand) -> Array:
    scale, bias = sum_scaling(len(rows), operand, output)
    total = saturate32(rows.sum(axis=0, dtype=np.int64))
    with np.errstate(all="ignore"):
        real = np.nan_to_num(total.astype(np.float32) * scale + bias)
    return saturate(round_away(real.astype(np.float64)) + output.zero_point, output)


def sum_scaling(count: int, operand: Operand, output: Operand) -> tuple[np.float32, np.float32]:
    """Returns LiteRT's float32 factor and offset from a sum of `count` values to output steps."""
    scale = np.float32(single_ratio(operand.scale, 1, output.scale))
    with np.errstate(all="ignore"):
        return scale, np.float32(np.nan_to_num(np.float32(-operand.zero_point) * scale * np.float32(count)))


def _quantized_product(rows: Array, operand: Operand, output: Operand) -> Array:
    """Multiplies quantised values and rescales at each step, to avoid overflow."""
    count = len(rows)
    if not count:
        return np.full(rows.shape[1], stored_one(output), output.type.dtype)
    multiplier, right = product_multiplier(count, operand, output)
    factors = rows.astype(np.int64) - operand.zero_point
    product = factors[0]
    for factor in [*factors[1:], 1]:
        product = _rescaled(product * factor, multiplier, right)
    return saturate(product + output.zero_point, output)


def stored_one(output: Operand) -> int:
    """Returns the stored value of the product of nothing, which is 1."""
    one = round_away(np.array(1 / output.scale)) + output.zero_point
    return int(saturate(one, output))


def product_multiplier(count: int, operand: Operand, output: Operand) -> tuple[int, int]:
    """Returns multiplier and right shift for each of the `count` steps of a product."""
    mantissa, exponent = quantize_multiplier(operand.scale / output.scale ** (1 / count))
    return min((mantissa + (1 << 15)) >> 16, (1 << _MULTIPLIER_BITS) - 1), _MULTIPLIER_BITS - exponent


def _rescaled(values: Array, multiplier: int, right: int) -> Array:
    """Multiplies, divides by 2^right, rounds to nearest and keeps the low 32 bits, as TFLite does.

    `values` have up to 48 bits. If `right` is not positive, which TFLite does not define, what
    exceeds 32 bits is clamped.
    """
    if right <= 0:
        limits = -1 << 31, (1 << 31) - 1
        return np.clip(values * (multiplier * 2.0**-right), *limits).astype(np.int64)
    bits = min(right, 62)
    return ((values * multiplier + ((1 << bits) >> 1)) >> bits).astype(np.int32).astype(np.int64)


def _reduce(function: np.ufunc, start: Callable[[Array], float] | None = None) -> Callable[..., Array]:
    """Returns a reduction with `start` as its identity, or with the function's own."""

    def reduce(values: Array, axes: tuple[int, ...]) -> Array:
        if start is None:
            return np.asarray(function.reduce(values, axis=axes, dtype=values.dtype))
        return np.asarray(function.reduce(values, axis=axes, initial=start(values)))

    return reduce


def _cumulative_shape(call: Call) -> tuple[Shape, ...]:
    cumulative_axis(call)
    return (call.shape("input"),)


def cumulative_axis(call: Call) -> int:
    """Returns the axis of the cumulative sum.

    Raises:
        BadData: there is no such axis, or more than one.
        UnknownValue: it is not known yet.
    """
    shape, axes = call.shape("input"), call.array("axis")
    if axes.size != 1 or not -len(shape) <= int(axes.flat[0]) < len(shape):
        raise BadData(f"{call.name('axis')} is {axes.tolist()}; one axis of rank {len(shape)} is expected")
    return int(axes.flat[0]) % len(shape)


def _cumulative(call: Call) -> tuple[Array, ...]:
    values, axis = call.array("input"), cumulative_axis(call)
    if call.scalar("reverse"):
        values = np.flip(values, axis)
    with np.errstate(all="ignore"):
        sums = np.moveaxis(np.cumsum(values, axis=axis, dtype=values.dtype), axis, 0)
    if call.scalar("exclusive"):
        sums = np.concatenate((np.zeros_like(sums[:1]), sums[:-1]))
    sums = np.moveaxis(sums, 0, axis)
    return (np.flip(sums, axis) if call.scalar("reverse") else sums,)


def _definition(
    operation_type: OperationType,
    widened: OperationType,
    reference: Callable[[Call], tuple[Array, ...]],
    rows: tuple[Row, ...],
    *,
    keep_dims: OperandType = OperandType.BOOL,
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(_form(keep_dims),),
        rows=rows,
        shape=_shape,
        reference=reference,
        widens=widened,
        arithmetic=frozenset({"input"}),
    )


_NUMBER_ROWS = typed_rows(*_NUMBERS)
_NUMBER_OR_TRUTH_ROWS = typed_rows(*_NUMBERS, OperandType.TENSOR_BOOL8)
_TRUTH_ROWS = typed_rows(OperandType.TENSOR_BOOL8)

DEFINITIONS = (
    _definition(
        OperationType.TFLITE_MEAN,
        OperationType.MEAN,
        _reduction(_mean, _quantized_mean),
        _NUMBER_ROWS,
        keep_dims=OperandType.INT32,
    ),
    _definition(
        OperationType.TFLITE_SUM,
        OperationType.REDUCE_SUM,
        _reduction(_reduce(np.add), _quantized_sum),
        _NUMBER_OR_TRUTH_ROWS,
    ),
    _definition(
        OperationType.TFLITE_REDUCE_PROD,
        OperationType.REDUCE_PROD,
        _reduction(_reduce(np.multiply), _quantized_product),
        _NUMBER_OR_TRUTH_ROWS,
    ),
    _definition(
        OperationType.TFLITE_REDUCE_MAX,
        OperationType.REDUCE_MAX,
        _reduction(_reduce(np.maximum, lowest)),
        _NUMBER_OR_TRUTH_ROWS,
    ),
    _definition(
        OperationType.TFLITE_REDUCE_MIN,
        OperationType.REDUCE_MIN,
        _reduction(_reduce(np.minimum, highest)),
        _NUMBER_OR_TRUTH_ROWS,
    ),
    _definition(
        OperationType.TFLITE_REDUCE_ANY,
        OperationType.REDUCE_ANY,
        _reduction(_reduce(np.logical_or)),
        _TRUTH_ROWS,
    ),
    _definition(
        OperationType.TFLITE_REDUCE_ALL,
        OperationType.REDUCE_ALL,
        _reduction(_reduce(np.logical_and)),
        _TRUTH_ROWS,
    ),
    Definition(
        type=OperationType.TFLITE_CUMSUM,
        forms=(
            Form(
                inputs=(
                    tensor("input"),
                    tensor("axis", OperandType.TENSOR_INT32, rank=ANY_RANK),
                    scalar("exclusive", OperandType.BOOL),
                    scalar("reverse", OperandType.BOOL),
                ),
                outputs=(tensor("output"),),
            ),
        ),
        rows=typed_rows(*FLOATS, *_INTEGERS),
        shape=_cumulative_shape,
        reference=_cumulative,
        arithmetic=frozenset({"input"}),
    ),
)

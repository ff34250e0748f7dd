"""Reductions over a set of axes: MEAN, and REDUCE_ALL, _ANY, _MAX, _MIN, _PROD and _SUM."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier, saturate32
from neurald.hal.operations.arithmetic.quantized import quantized_limits, saturate
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.rules import data_rows, resolve_axes, same_scale
from neurald.hal.operations.machinery.signature import Form, Row, scalar, tensor


def _form(keep_dims: OperandType) -> Form:
    ranks = (0, 4)
    return Form(
        inputs=(
            tensor("input", rank=ranks),
            tensor("axes", OperandType.TENSOR_INT32, rank=1),
            scalar("keep_dims", keep_dims),
        ),
        outputs=(tensor("output", rank=ranks),),
    )


def _shape(call: Call) -> tuple[Shape, ...]:
    """Removes the reduced axes or keeps them with length 1; the result has at least rank 1."""
    axes = resolve_axes(call, "axes")
    if call.scalar("keep_dims") > 0:
        return (tuple(1 if axis in axes else length for axis, length in enumerate(call.shape("input"))),)
    return (tuple(length for axis, length in enumerate(call.shape("input")) if axis not in axes) or (1,),)


def _mean(call: Call) -> tuple[Array, ...]:
    """Computes means.

    Floats sum in float32; quantised values sum exactly and are rescaled once, as in TFLite.

    Raises:
        BadData: there are no elements to average.
    """
    values, axes, (shape,) = call.array("input"), resolve_axes(call, "axes"), _shape(call)
    operand, output = call.operand("input"), call.operand("output")
    count = math.prod(values.shape[axis] for axis in axes)
    if not math.prod(shape):
        return (np.zeros(shape, output.type.dtype),)
    if not count:
        raise BadData(
            f"{call.name('axes')} is {list(axes)}; input {list(values.shape)} has no elements there"
        )
    if not is_quantized(output):
        mean = values.astype(np.float32).sum(axis=axes, dtype=np.float32) / np.float32(count)
        return (mean.astype(output.type.dtype).reshape(shape),)
    total = values.sum(axis=axes, dtype=np.int64) - operand.zero_point * count
    return (quantized_mean(np.asarray(total), count, operand, output).reshape(shape),)


def quantized_mean(total: Array, count: int, operand: Operand, output: Operand) -> Array:
    """Requantises means, given sums of `count` differences from the zero point."""
    mantissa, exponent = mean_multiplier(count, operand, output)
    if exponent > 0:
        # Shifts to the left saturate to 32 bits, but longer sums overflow in them.
        total = saturate32(total)
    return saturate(multiply(total, mantissa, exponent) + output.zero_point, output)


def mean_multiplier(count: int, operand: Operand, output: Operand) -> tuple[int, int]:
    """Returns the multiplier from a sum of `count` differences to the output's mean."""
    mantissa, exponent, most = mean_rescaling(operand, output)
    shift = min(count.bit_length() - 1, most)
    return (mantissa << shift) // count, exponent - shift


def mean_rescaling(operand: Operand, output: Operand) -> tuple[int, int, int]:
    """Returns the multiplier from differences to output steps, and the most bits that a mean adds.

    The division by the count is part of a mean's multiplier, with as many additional bits as fit,
    and as products with the largest sum have 64 bits for. TFLite's overflow for such sums.
    """
    mantissa, exponent = quantize_multiplier(operand.scale / output.scale)
    low, high = quantized_limits(operand)
    reach = max(high - operand.zero_point, operand.zero_point - low)
    return mantissa, exponent, min(32, 31 + exponent, 31 - (reach - 1).bit_length())


def _reduce(function: np.ufunc, empty: Callable[[Array], Any]) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference for a reduction: floats in float32, other types as stored.

    Args:
        function: combines two elements.
        empty: returns the result of a reduction of no elements, given an array of their type.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        values, axes, (shape,) = call.array("input"), resolve_axes(call, "axes"), _shape(call)
        if not values.size:
            return (np.full(shape, empty(values), values.dtype),)
        wide = values.astype(np.float32) if values.dtype.kind == "f" else values
        with np.errstate(over="ignore"):
            reduced = function.reduce(wide, axis=axes)
        return (np.asarray(reduced).astype(values.dtype).reshape(shape),)

    return reference


def lowest(values: Array) -> float:
    """Returns the lowest finite number of the values' type."""
    if values.dtype.kind == "b":
        return False
    return float(np.finfo(values.dtype).min) if values.dtype.kind == "f" else np.iinfo(values.dtype).min


def highest(values: Array) -> float:
    """Returns the highest finite number of the values' type."""
    if values.dtype.kind == "b":
        return True
    return float(np.finfo(values.dtype).max) if values.dtype.kind == "f" else np.iinfo(values.dtype).max


def _definition(
    operation_type: OperationType,
    form: Form,
    rows: tuple[Row, ...],
    reference: Callable[[Call], tuple[Array, ...]],
    checks: tuple[Check, ...] = (same_scale("input"),),
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(form,),
        rows=rows,
        checks=checks,
        shape=_shape,
        reference=reference,
        arithmetic=frozenset({"input"}),
    )


_REDUCE_FORM = _form(OperandType.BOOL)
_LOGICAL_ROWS = data_rows(None, bool8=FeatureLevel.LEVEL_3)
_FLOAT_ROWS = data_rows(FeatureLevel.LEVEL_3)
_EXTREME_ROWS = data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3)

DEFINITIONS = (
    _definition(
        OperationType.MEAN,
        _form(OperandType.INT32),
        data_rows(FeatureLevel.LEVEL_2, quant8=FeatureLevel.LEVEL_2),
        _mean,
    ),
    _definition(
        OperationType.REDUCE_ALL, _REDUCE_FORM, _LOGICAL_ROWS, _reduce(np.logical_and, lambda _: True)
    ),
    _definition(
        OperationType.REDUCE_ANY, _REDUCE_FORM, _LOGICAL_ROWS, _reduce(np.logical_or, lambda _: False)
    ),
    _definition(OperationType.REDUCE_MAX, _REDUCE_FORM, _EXTREME_ROWS, _reduce(np.maximum, lowest)),
    _definition(OperationType.REDUCE_MIN, _REDUCE_FORM, _EXTREME_ROWS, _reduce(np.minimum, highest)),
    _definition(OperationType.REDUCE_PROD, _REDUCE_FORM, _FLOAT_ROWS, _reduce(np.multiply, lambda _: 1)),
    _definition(OperationType.REDUCE_SUM, _REDUCE_FORM, _FLOAT_ROWS, _reduce(np.add, lambda _: 0)),
)

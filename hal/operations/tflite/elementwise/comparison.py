"""Comparisons of all types and ranks, and selections: SELECT, SELECT_V2, MAXIMUM, MINIMUM.

TFLite compares quantised values in 32 bits, at 256 times their real values; with small scales,
different numbers compare equal. It selects quantised values regardless of their scales.
"""

from collections.abc import Callable, Sequence

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier
from neurald.hal.operations.machinery.broadcasting import binary_shape, broadcast_shape
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, tensor
from neurald.hal.operations.tflite.machinery.tables import REALS, binary_form, typed_rows

#: Fraction bits of compared numbers.
PRECISION_BITS = 8

_COMPARED = Form(
    inputs=(tensor("input1", rank=ANY_RANK), tensor("input2", rank=ANY_RANK)),
    outputs=(tensor("output", OperandType.TENSOR_BOOL8, rank=ANY_RANK),),
)
_CHOSEN = Form(
    inputs=(
        tensor("condition", OperandType.TENSOR_BOOL8, rank=ANY_RANK),
        tensor("input1", rank=ANY_RANK),
        tensor("input2", rank=ANY_RANK),
    ),
    outputs=(tensor("output", rank=ANY_RANK),),
)
_ANY = (*REALS, OperandType.TENSOR_BOOL8)
#: Numbers without an order, of which empty tensors have maxima and minima, as in TFLite.
_COMPLEX = OperandType.TENSOR_COMPLEX64
#: Types that can be compared for equality.
_EQUATED = (*_ANY, OperandType.TENSOR_STRING)
#: The comparisons that use the scales of int16.
_SCALES_INT16 = (OperationType.TFLITE_EQUAL, OperationType.TFLITE_NOT_EQUAL)


def is_compared_by_scale(call: Call) -> bool:
    """Returns True if a comparison dequantises its inputs."""
    operand = call.operand("input1")
    is_int16 = operand.type is OperandType.TENSOR_QUANT16_SYMM
    return is_quantized(operand) and (not is_int16 or call.binding.type in _SCALES_INT16)


def comparable(operand: Operand, values: Array) -> Array:
    """Returns the integers by which numbers of an operand are compared."""
    precise = (values.astype(np.int64) - operand.zero_point) << PRECISION_BITS
    return multiply(precise, *quantize_multiplier(operand.scale))


def _compare(
    operation_type: OperationType,
    widened: OperationType,
    function: np.ufunc,
    *,
    types: Sequence[OperandType] = _ANY,
) -> Definition:
    """Defines a comparison of values of one of the types."""

    def reference(call: Call) -> tuple[Array, ...]:
        first, second = call.array("input1"), call.array("input2")
        if is_compared_by_scale(call):
            first = comparable(call.operand("input1"), first)
            second = comparable(call.operand("input2"), second)
        return (np.asarray(function(first, second)),)

    return Definition(
        type=operation_type,
        forms=(_COMPARED,),
        rows=typed_rows(*types, zero_points16=True),
        shape=binary_shape,
        reference=reference,
        widens=widened,
        arithmetic=frozenset({"input1", "input2"}),
    )


def _require_order(call: Call) -> None:
    """Requires that the output is empty if its numbers have no order."""
    if call.operand("output").type is not _COMPLEX:
        return
    (shape,) = binary_shape(call)
    if 0 not in shape:
        raise BadData(
            f"{call.name('output')} has type {_COMPLEX.name} and shape {list(shape)}; complex numbers have "
            "no order, so a shape with a 0 is expected"
        )


def _extreme(
    operation_type: OperationType, widened: OperationType, is_first: Callable[[Array, Array], Array]
) -> Definition:
    """Defines the maximum or minimum of two numbers; the second one if either is NaN."""

    def reference(call: Call) -> tuple[Array, ...]:
        first, second = call.array("input1"), call.array("input2")
        return (np.where(is_first(first, second), first, second),)

    return Definition(
        type=operation_type,
        forms=(binary_form(),),
        rows=typed_rows(*_ANY, _COMPLEX, zero_points16=True),
        checks=(_require_order,),
        shape=binary_shape,
        reference=reference,
        widens=widened,
        arithmetic=frozenset({"input1", "input2"}),
    )


def _select_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape.

    A condition of rank 1 selects along the first axis, one of rank 0 everything.
    """
    condition, shape, other = (call.shape(name) for name in ("condition", "input1", "input2"))
    if other != shape:
        raise BadData(
            f"{call.name('input2')} has shape {list(other)}; that of input1, {list(shape)}, is expected"
        )
    if condition not in ((), shape, shape[:1]):
        raise BadData(
            f"{call.name('condition')} has shape {list(condition)}; "
            f"[], {list(shape[:1])} or {list(shape)} is expected"
        )
    return (shape,)


def _select(call: Call) -> tuple[Array, ...]:
    condition, first = call.array("condition"), call.array("input1")
    if condition.ndim != first.ndim:
        condition = condition.reshape(condition.shape + (1,) * (first.ndim - condition.ndim))
    return (np.where(condition, first, call.array("input2")),)


def _select_broadcast_shape(call: Call) -> tuple[Shape, ...]:
    return (broadcast_shape(call, "condition", "input1", "input2"),)


def _select_broadcast(call: Call) -> tuple[Array, ...]:
    return (np.where(call.array("condition"), call.array("input1"), call.array("input2")),)


DEFINITIONS = (
    _compare(OperationType.TFLITE_EQUAL, OperationType.EQUAL, np.equal, types=_EQUATED),
    _compare(OperationType.TFLITE_NOT_EQUAL, OperationType.NOT_EQUAL, np.not_equal, types=_EQUATED),
    _compare(OperationType.TFLITE_LESS, OperationType.LESS, np.less),
    _compare(OperationType.TFLITE_LESS_EQUAL, OperationType.LESS_EQUAL, np.less_equal),
    _compare(OperationType.TFLITE_GREATER, OperationType.GREATER, np.greater),
    _compare(OperationType.TFLITE_GREATER_EQUAL, OperationType.GREATER_EQUAL, np.greater_equal),
    _extreme(OperationType.TFLITE_MAXIMUM, OperationType.MAXIMUM, np.greater),
    _extreme(OperationType.TFLITE_MINIMUM, OperationType.MINIMUM, np.less),
    Definition(
        type=OperationType.TFLITE_SELECT,
        forms=(_CHOSEN,),
        rows=typed_rows(*_ANY, _COMPLEX, zero_points16=True),
        shape=_select_shape,
        reference=_select,
        arithmetic=frozenset({"condition", "input1", "input2"}),
        widens=OperationType.SELECT,
    ),
    Definition(
        type=OperationType.TFLITE_SELECT_V2,
        forms=(_CHOSEN,),
        rows=typed_rows(*_ANY, _COMPLEX, zero_points16=True),
        shape=_select_broadcast_shape,
        reference=_select_broadcast,
        arithmetic=frozenset({"condition", "input1", "input2"}),
    ),
)

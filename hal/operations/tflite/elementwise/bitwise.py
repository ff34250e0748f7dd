"""BITWISE_XOR, RIGHT_SHIFT, and StableHLO's AND and SHIFT_LEFT on integers."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.broadcasting import binary_shape
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.tflite.machinery.tables import INTEGERS, QUANTIZED_TYPES, binary_form, typed_rows

# Operates on raw bits, regardless of their meaning.
_ROWS = typed_rows(*QUANTIZED_TYPES, OperandType.TENSOR_INT32, OperandType.TENSOR_UINT32, zero_points16=True)


def _exclusive_or(call: Call) -> tuple[Array, ...]:
    return (np.asarray(np.bitwise_xor(call.array("input1"), call.array("input2"))),)


def _shift_right(call: Call) -> tuple[Array, ...]:
    """Shifts right with sign extension; the shift is clamped to 0 to the number of bits minus 1."""
    values, bits = call.array("input1"), call.array("input2")
    limited = np.clip(bits, 0, 8 * values.dtype.itemsize - 1)
    return (np.asarray(np.right_shift(values, limited)),)


def _and(call: Call) -> tuple[Array, ...]:
    return (np.asarray(np.bitwise_and(call.array("input1"), call.array("input2"))),)


def _shift_left(call: Call) -> tuple[Array, ...]:
    """Shifts left; gives 0 if all bits are shifted out or the shift is negative."""
    values, bits = call.array("input1"), call.array("input2")
    width = 8 * values.dtype.itemsize
    shifted = np.left_shift(values, np.clip(bits, 0, width - 1))
    return (np.where((bits >= 0) & (bits < width), shifted, 0).astype(values.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_BITWISE_XOR,
        forms=(binary_form(),),
        rows=_ROWS,
        shape=binary_shape,
        reference=_exclusive_or,
    ),
    Definition(
        type=OperationType.TFLITE_RIGHT_SHIFT,
        forms=(binary_form(),),
        rows=_ROWS,
        shape=binary_shape,
        reference=_shift_right,
    ),
    Definition(
        type=OperationType.TFLITE_STABLEHLO_AND,
        forms=(binary_form(),),
        rows=typed_rows(*QUANTIZED_TYPES, *INTEGERS, OperandType.TENSOR_BOOL8, zero_points16=True),
        shape=binary_shape,
        reference=_and,
    ),
    Definition(
        type=OperationType.TFLITE_STABLEHLO_SHIFT_LEFT,
        forms=(binary_form(),),
        rows=typed_rows(
            OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
            OperandType.TENSOR_QUANT16_SYMM,
            OperandType.TENSOR_INT32,
            zero_points16=True,
        ),
        shape=binary_shape,
        reference=_shift_left,
    ),
)

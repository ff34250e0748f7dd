"""Comparisons and logical operations.

EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT.
"""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.broadcasting import binary_shape
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, shape_of_input
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Row, tensor

_RESULT = (tensor("output", OperandType.TENSOR_BOOL8, rank=ANY_RANK),)
_BINARY_FORM = Form(
    inputs=(tensor("input1", rank=ANY_RANK), tensor("input2", rank=ANY_RANK)), outputs=_RESULT
)
_UNARY_FORM = Form(inputs=(tensor("input", rank=ANY_RANK),), outputs=_RESULT)

_LEVEL = FeatureLevel.LEVEL_3
_BOOL_ROWS = data_rows(None, bool8=_LEVEL)
_ALL_ROWS = data_rows(_LEVEL, quant8=_LEVEL, int32=_LEVEL, bool8=_LEVEL)


def _comparable(call: Call, name: str) -> Array:
    """Returns an input for comparison; quantised ones dequantised in float32, as in Android NN."""
    operand, values = call.operand(name), call.array(name)
    if not is_quantized(operand):
        return values
    return (values.astype(np.float32) - np.float32(operand.zero_point)) * np.float32(operand.scale)


def _compare(
    operation_type: OperationType, function: np.ufunc, rows: tuple[Row, ...] = _ALL_ROWS
) -> Definition:
    def reference(call: Call) -> tuple[Array, ...]:
        return (np.asarray(function(_comparable(call, "input1"), _comparable(call, "input2"))),)

    return Definition(
        type=operation_type,
        forms=(_BINARY_FORM,),
        rows=rows,
        shape=binary_shape,
        reference=reference,
        arithmetic=frozenset({"input1", "input2"}),
    )


def _not(call: Call) -> tuple[Array, ...]:
    return (np.asarray(np.logical_not(call.array("input"))),)


DEFINITIONS = (
    _compare(OperationType.EQUAL, np.equal),
    _compare(OperationType.NOT_EQUAL, np.not_equal),
    _compare(OperationType.GREATER, np.greater),
    _compare(OperationType.GREATER_EQUAL, np.greater_equal),
    _compare(OperationType.LESS, np.less),
    _compare(OperationType.LESS_EQUAL, np.less_equal),
    _compare(OperationType.LOGICAL_AND, np.logical_and, _BOOL_ROWS),
    _compare(OperationType.LOGICAL_OR, np.logical_or, _BOOL_ROWS),
    Definition(
        type=OperationType.LOGICAL_NOT,
        forms=(_UNARY_FORM,),
        rows=_BOOL_ROWS,
        shape=shape_of_input,
        reference=_not,
        arithmetic=frozenset({"input"}),
    ),
)

"""BATCH_MATMUL with TFLite's types: broadcasting batches, and floats with 8-bit matrices."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.convolution.matrix_product import stored_product
from neurald.hal.operations.machinery.broadcasting import broadcast_shapes
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, scalar, tensor
from neurald.hal.operations.tflite.convolution import hybrid

_RANKS = (2, MAX_RANK)

_FLOAT32, _FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
_BYTE, _SHORT = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
_INT32, _PER_CHANNEL = OperandType.TENSOR_INT32, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL

#: Types of the first matrix (T), of the second one (F) and of the output (O).
_TYPES = (
    (_FLOAT32, _FLOAT32, _FLOAT32),
    (_FLOAT16, _FLOAT16, _FLOAT16),
    (_INT32, _INT32, _INT32),
    (_BYTE, _BYTE, _BYTE),
    (_BYTE, _BYTE, _INT32),
    (_SHORT, _SHORT, _SHORT),
    (_SHORT, _BYTE, _SHORT),
    (_FLOAT32, _BYTE, _FLOAT32),
    (_FLOAT32, _PER_CHANNEL, _FLOAT32),
)


def _adjoint_shape(shape: Shape, is_adjoint: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if is_adjoint else shape


def _shape(call: Call) -> tuple[Shape, ...]:
    first = _adjoint_shape(call.shape("input1"), call.scalar("adjoint1"))
    second = _adjoint_shape(call.shape("input2"), call.scalar("adjoint2"))
    try:
        batches = broadcast_shapes(first[:-2], second[:-2])
    except ValueError:
        batches = None
    if batches is None or first[-1] != second[-2]:
        raise BadData(
            f"{call.binding.type.name} cannot multiply matrices of shapes {list(first)} and "
            f"{list(second)}; batches "
            "that broadcast, and as many columns as the other has rows, are expected"
        )
    return ((*batches, first[-2], second[-1]),)


def _columns_have_scales(call: Call) -> None:
    """Checks that per-channel scales of a matrix belong to the columns of the product."""
    operand, shape = call.operand("input2"), call.shape("input2")
    if operand.type is not OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        return
    expected = len(shape) - (2 if call.scalar("adjoint2") else 1)
    quant = operand.channel_quant
    if quant is None or quant.dimension != expected or len(quant.scales) != shape[expected]:
        raise BadData(
            f"{call.name('input2')} of shape {list(shape)} needs a scale for each index of dimension "
            f"{expected}, the "
            "columns of the product"
        )


def _factor(call: Call, name: str, adjoint: str) -> Array:
    """Returns a matrix without its zero point.

    It is float64 if quantised (for exact sums), otherwise float32 or integer. TFLite ignores zero
    points if the output is the plain sums.
    """
    values, operand = call.array(name), call.operand(name)
    if is_quantized(operand):
        zero_point = operand.zero_point if is_quantized(call.operand("output")) else 0
        values = values.astype(np.float64) - zero_point
    elif operand.type is OperandType.TENSOR_FLOAT16:
        values = values.astype(np.float32)
    return values.swapaxes(-1, -2) if call.scalar(adjoint) else values


def _hybrid(call: Call) -> Array:
    """Multiplies with separate quantisation of each row of the first matrix."""
    from neurald.hal.operations.arithmetic.row_quantization import quantize_rows  # Only to compute.

    values, matrix = call.array("input1"), call.array("input2")
    values = values.swapaxes(-1, -2) if call.scalar("adjoint1") else values
    matrix = (matrix.swapaxes(-1, -2) if call.scalar("adjoint2") else matrix).astype(np.float64)
    rows = np.ascontiguousarray(values).reshape(int(np.prod(values.shape[:-1])), values.shape[-1])
    quantized_values, scales, zero_points = quantize_rows(rows, asymmetric=bool(call.scalar("asymmetric")))
    centred = (quantized_values.astype(np.float64) - zero_points[:, np.newaxis]).reshape(values.shape)
    row_scales = scales.reshape(*values.shape[:-1], 1)
    product = (centred @ matrix).astype(np.float32)
    result: Array = product * row_scales * hybrid.weight_scales(call.operand("input2"))
    return result


def _reference(call: Call) -> tuple[Array, ...]:
    is_int16 = call.operand("output").type is OperandType.TENSOR_QUANT16_SYMM
    with np.errstate(over="ignore", invalid="ignore"):
        if hybrid.is_hybrid(call, "input1", "input2"):
            return (_hybrid(call),)
        product = _factor(call, "input1", "adjoint1") @ _factor(call, "input2", "adjoint2")
        return (stored_product(call, product, Rounding.SHORT if is_int16 else Rounding.TWICE),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_BATCH_MATMUL,
        forms=(
            Form(
                inputs=(
                    tensor("input1", rank=_RANKS),
                    tensor("input2", "F", rank=_RANKS),
                    scalar("adjoint1", OperandType.BOOL, default=False),
                    scalar("adjoint2", OperandType.BOOL, default=False),
                    scalar("asymmetric", OperandType.BOOL, default=False),
                ),
                outputs=(tensor("output", "O", rank=_RANKS),),
            ),
        ),
        rows=tuple(row(FeatureLevel.LEVEL_1, T=first, F=second, O=third) for first, second, third in _TYPES),
        checks=(_columns_have_scales,),
        shape=_shape,
        reference=_reference,
        widens=OperationType.BATCH_MATMUL,
        arithmetic=frozenset({"input1", "input2"}),
    ),
)

"""BATCH_MATMUL: products of pairs of matrices."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import Requantization, Rounding, single_ratio
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, row, scalar, tensor

_RANKS = (2, 4)
_FACTORS = (("input1", "adjoint1"), ("input2", "adjoint2"))


def _matrix_shape(call: Call, name: str, adjoint: str) -> Shape:
    *batches, rows, columns = call.shape(name)
    return (*batches, columns, rows) if call.scalar(adjoint) else (*batches, rows, columns)


def _shape(call: Call) -> tuple[Shape, ...]:
    first, second = (_matrix_shape(call, *names) for names in _FACTORS)
    if first[:-2] != second[:-2] or first[-1] != second[-2]:
        raise BadData(
            f"{call.binding.type.name} cannot multiply matrices of shapes {list(first)} and "
            f"{list(second)}; equal "
            "batches, and as many columns as the other has rows, are expected"
        )
    return ((*first[:-1], second[-1]),)


def product_scale(call: Call) -> float:
    """Returns the scale of products of quantised matrices, in float32 as TFLite computes it."""
    return single_ratio(call.operand("input1").scale, call.operand("input2").scale, 1.0)


def _factor(call: Call, name: str, adjoint: str) -> Array:
    """Returns an input without its zero point.

    It is float64 if quantised (for exact sums), otherwise float32 or integer.
    """
    values, operand = call.array(name), call.operand(name)
    if is_quantized(operand):
        values = values.astype(np.float64) - operand.zero_point
    elif operand.type is OperandType.TENSOR_FLOAT16:
        values = values.astype(np.float32)
    return values.swapaxes(-1, -2) if call.scalar(adjoint) else values


def stored_product(call: Call, product: Array, rounding: Rounding = Rounding.TWICE) -> Array:
    """Returns a product of matrices as elements of the output.

    Args:
        call: the call, with `input1`, `input2` and `output`.
        product: the product, of the shape of the output; of quantised inputs without zero points.
        rounding: the rounding of quantised results.
    """
    output = call.operand("output")
    if not is_quantized(output):
        converted: Array = product.astype(output.type.dtype)
        return converted
    result = np.empty(product.shape, output.type.dtype)
    if result.size:
        low, high = quantized_limits(output)
        columns = product.shape[-1]
        requantize = Requantization(
            multipliers=np.array([product_scale(call) / output.scale]),
            bias=np.zeros(columns, np.int64),
            zero_point=output.zero_point,
            low=low,
            high=high,
            dtype=output.type.dtype,
            rounding=rounding,
        )
        requantize(product.reshape(-1, columns), result.reshape(-1, columns))
    return result


def _reference(call: Call) -> tuple[Array, ...]:
    first, second = (_factor(call, *names) for names in _FACTORS)
    with np.errstate(over="ignore", invalid="ignore"):
        return (stored_product(call, first @ second),)


DEFINITIONS = (
    Definition(
        type=OperationType.BATCH_MATMUL,
        forms=(
            Form(
                inputs=(
                    *(tensor(name, rank=_RANKS) for name, _ in _FACTORS),
                    *(scalar(name, OperandType.BOOL, default=False) for _, name in _FACTORS),
                ),
                outputs=(tensor("output", rank=_RANKS),),
                level=FeatureLevel.LEVEL_6,
            ),
        ),
        rows=tuple(
            row(FeatureLevel.LEVEL_6, T=operand_type)
            for operand_type in (
                OperandType.TENSOR_FLOAT32,
                OperandType.TENSOR_FLOAT16,
                OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
                OperandType.TENSOR_INT32,
            )
        ),
        shape=_shape,
        reference=_reference,
        arithmetic=frozenset(name for name, _ in _FACTORS),
    ),
)

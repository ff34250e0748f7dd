"""CAST to another element type. Scales and zero points are ignored: it converts the raw numbers."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, tensor

_CONVERTIBLE = (
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_QUANT8_ASYMM,
)
#: Types that can only be cast to themselves.
_COPIED = (
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT16_ASYMM,
    OperandType.TENSOR_QUANT16_SYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT8_SYMM,
)

_ROWS = (
    *(row(FeatureLevel.LEVEL_3, T=source, U=target) for source in _CONVERTIBLE for target in _CONVERTIBLE),
    *(row(FeatureLevel.LEVEL_4, T=kind, U=kind) for kind in _COPIED),
)


def cast(values: Array, dtype: "np.dtype[np.generic]") -> Array:
    """Converts `values` to another element type.

    Conversion to integers truncates real numbers and saturates values that are out of range; NaN
    becomes 0.
    """
    if values.dtype == dtype:
        return values
    if dtype.kind not in "iu":
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    limits = np.iinfo(dtype.name)
    if values.dtype.kind == "f":
        real = values.astype(np.float64)
        return np.clip(np.where(np.isnan(real), 0, real), limits.min, limits.max).astype(dtype)
    return np.clip(values.astype(np.int64), limits.min, limits.max).astype(dtype)


def _shape(call: Call) -> tuple[Shape, ...]:
    return (call.shape("input"),)


def _reference(call: Call) -> tuple[Array, ...]:
    return (cast(call.array("input"), call.operand("output").type.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.CAST,
        forms=(
            Form(
                inputs=(tensor("input", "T", rank=(0, MAX_RANK)),),
                outputs=(tensor("output", "U", rank=(0, MAX_RANK)),),
            ),
        ),
        rows=_ROWS,
        shape=_shape,
        reference=_reference,
        arithmetic=frozenset({"input"}),
    ),
)

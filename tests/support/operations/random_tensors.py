"""Random tensors of every type, for data movement operations."""

import numpy as np
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    given,
    level_of,
    stored_values,
    wanted,
)

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array

#: Types that nearly every operation supports, and the same with INT32.
PLAIN_TYPES = (*FLOAT_TYPES, *QUANT8_TYPES)
INT32_TYPES = (*PLAIN_TYPES, OperandType.TENSOR_INT32)

SCALE, ZERO_POINT = 0.5, 3


def tensor(operand_type: OperandType, *shape: int, seed: int = 0) -> Given:
    """Creates a tensor of random elements, with SCALE and ZERO_POINT if it is quantised."""
    generator = np.random.default_rng([seed, *shape])
    if operand_type in FLOAT_TYPES:
        values: Array = generator.normal(size=shape).astype(operand_type.dtype)
    elif operand_type is OperandType.TENSOR_BOOL8:
        values = generator.random(shape) < 0.5
    else:
        values = stored_values(generator, operand_type, shape)
    return as_given(operand_type, values)


def as_given(operand_type: OperandType, values: object) -> Given:
    """Creates a tensor of these elements, with SCALE and ZERO_POINT if it is quantised."""
    return given(operand_type, values, *_form(operand_type))


def like(operand_type: OperandType) -> Operand:
    """Creates an output that corresponds to `tensor`."""
    return wanted(operand_type, *_form(operand_type))


def value(source: Given) -> Array:
    """Returns the elements of an input with a known value."""
    assert source.value is not None
    return source.value


def levels(
    operation_type: OperationType, types: tuple[OperandType, ...], shape: tuple[int, ...], *more: Given
) -> dict[OperandType, FeatureLevel]:
    """Returns the feature level of an operation by the type of its first input.

    Zero points are 0.
    """
    return {
        t: level_of(
            operation_type,
            [given(t, np.zeros(shape), _form(t)[0]), *more],
            wanted(t, _form(t)[0]),
        )
        for t in types
    }


def _form(operand_type: OperandType) -> tuple[float, int]:
    if operand_type not in QUANTIZED or operand_type is OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        return 0.0, 0
    symmetric = operand_type in (OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM)
    return SCALE, 0 if symmetric else ZERO_POINT


def quantized(kind: OperandType, *shape: int) -> Array:
    """Returns random elements of the whole range of a type of integers."""
    limits = np.iinfo(kind.dtype.name)
    return np.random.default_rng(1).integers(limits.min, limits.max + 1, shape)

"""Complex numbers as kernels see them: pairs of FLOAT32, side by side along one more dimension, as they lie in memory."""

from typing import Any

import numpy as np

from neurald.hal.model.types import OperandType

Array = np.ndarray[Any, np.dtype[Any]]

_COMPLEX = OperandType.TENSOR_COMPLEX64


def is_complex(kind: OperandType) -> bool:
    """Whether a tensor's elements are pairs to kernels."""
    return kind is _COMPLEX


def value_shape(kind: OperandType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the value that an operand of a type and shape is."""
    return (*shape, 2) if kind is _COMPLEX else shape


def operand_shape(kind: OperandType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the operand of a type that a value of some shape is."""
    return shape[:-1] if kind is _COMPLEX else shape


def as_pairs(array: Array) -> Array:
    """Complex numbers as pairs; other elements as they are."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).reshape(-1).view(np.float32).reshape(*array.shape, 2)


def as_numbers(kind: OperandType, array: Array) -> Array:
    """The elements of a value as an operand of that type has them."""
    if kind is not _COMPLEX:
        return array
    return np.ascontiguousarray(array).view(kind.dtype).reshape(array.shape[:-1])

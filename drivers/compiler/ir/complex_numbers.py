"""Converts complex numbers to the form that kernels compute with, and back.

That form has a FLOAT32 for the real and one for the imaginary part, along an extra last dimension.
"""

from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.lazy_numpy import np
from neurald.hal.model.types import OperandType

_COMPLEX = OperandType.TENSOR_COMPLEX64


def is_complex(kind: OperandType) -> bool:
    """Returns True for tensors of complex numbers."""
    return kind is _COMPLEX


def value_shape(kind: OperandType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the value for an operand of this type and shape."""
    return (*shape, 2) if kind is _COMPLEX else shape


def operand_shape(kind: OperandType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the operand of this type whose value has this shape."""
    return shape[:-1] if kind is _COMPLEX else shape


def as_pairs(array: Array) -> Array:
    """Returns complex numbers as pairs, and other arrays unchanged."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).reshape(-1).view(np.float32).reshape(*array.shape, 2)


def as_numbers(kind: OperandType, array: Array) -> Array:
    """Converts the elements of a value to the operand's type."""
    if kind is not _COMPLEX:
        return array
    return np.ascontiguousarray(array).view(kind.dtype).reshape(array.shape[:-1])

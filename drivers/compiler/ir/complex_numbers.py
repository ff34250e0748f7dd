"""Converts complex numbers to the form that kernels compute with, and back.

That form has a number for the real and one for the imaginary part, along an extra last dimension.
"""

from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.lazy_numpy import np
from neurald.hal.model.types import OperandType

#: Types of complex numbers, and of their parts.
_PARTS: "dict[OperandType, np.dtype[np.generic]]" = {
    OperandType.TENSOR_COMPLEX64: np.dtype(np.float32),
    OperandType.TENSOR_COMPLEX128: np.dtype(np.float64),
}


def is_complex(kind: OperandType) -> bool:
    """Returns True for tensors of complex numbers."""
    return kind in _PARTS


def part_type(kind: OperandType) -> "np.dtype[np.generic]":
    """Returns the type of the parts of complex numbers."""
    return _PARTS[kind]


def value_shape(kind: OperandType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the value for an operand of this type and shape."""
    return (*shape, 2) if kind in _PARTS else shape


def operand_shape(kind: OperandType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the operand of this type whose value has this shape."""
    return shape[:-1] if kind in _PARTS else shape


def as_pairs(array: Array) -> Array:
    """Returns complex numbers as pairs, and other arrays unchanged."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).reshape(-1).view(array.real.dtype).reshape(*array.shape, 2)


def as_numbers(kind: OperandType, array: Array) -> Array:
    """Converts the elements of a value to the operand's type."""
    if kind not in _PARTS:
        return array
    return np.ascontiguousarray(array).view(kind.dtype).reshape(array.shape[:-1])

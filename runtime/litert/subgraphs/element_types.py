"""Element types of tensors by the names and NumPy types that LiteRT's API shows."""

from typing import Any, Final

import numpy as np
from msgspec import Struct

from neurald.runtime.tflite.file.schema import INT2, UINT4
from neurald.runtime.tflite.file.schema_enums import TensorType


class ElementType(Struct, frozen=True):
    """An element type.

    Attributes:
        name: the name in messages.
        scalar: the NumPy type in details and of values; `np.object_` for handles.
    """

    name: str
    scalar: type[np.generic]


_TYPES: Final = {
    TensorType.FLOAT32: ElementType("FLOAT32", np.float32),
    TensorType.FLOAT16: ElementType("FLOAT16", np.float16),
    TensorType.INT32: ElementType("INT32", np.int32),
    TensorType.UINT8: ElementType("UINT8", np.uint8),
    TensorType.INT64: ElementType("INT64", np.int64),
    TensorType.STRING: ElementType("STRING", np.bytes_),
    TensorType.BOOL: ElementType("BOOL", np.bool_),
    TensorType.INT16: ElementType("INT16", np.int16),
    TensorType.COMPLEX64: ElementType("COMPLEX64", np.complex64),
    TensorType.INT8: ElementType("INT8", np.int8),
    TensorType.FLOAT64: ElementType("FLOAT64", np.float64),
    TensorType.COMPLEX128: ElementType("COMPLEX128", np.complex128),
    TensorType.UINT64: ElementType("UINT64", np.uint64),
    TensorType.RESOURCE: ElementType("RESOURCE", np.object_),
    TensorType.VARIANT: ElementType("VARIANT", np.object_),
    TensorType.UINT32: ElementType("UINT32", np.uint32),
    TensorType.UINT16: ElementType("UINT16", np.uint16),
    TensorType.INT4: ElementType("INT4", np.int8),
    UINT4: ElementType("UINT4", np.uint8),
    INT2: ElementType("INT2", np.int8),
}
_UNKNOWN: Final = ElementType("NOTYPE", np.object_)

#: The names of NumPy types, for values of another type than that of their tensor.
_NAMES_OF_KINDS: Final = {"S": "STRING", "U": "STRING", "O": "STRING"}


def element_type(number: int) -> ElementType:
    """Returns the element type with a number of `TensorType`."""
    return _TYPES.get(number, _UNKNOWN)


def name_of(dtype: np.dtype[Any]) -> str:
    """Returns the name of a NumPy type in messages."""
    return _NAMES_OF_KINDS.get(dtype.kind) or next(
        (each.name for each in _TYPES.values() if each.scalar is dtype.type), "NOTYPE"
    )

"""The types of the numbers that kernels compute with."""

from enum import Enum

import numpy as np


class Scalar(Enum):
    """A number's type. INDEX is a count or a position; a compiler takes 32 or 64 bits for it, as the tensors need."""

    BOOL = "bool"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INDEX = "index"

    @staticmethod
    def of(dtype: "np.dtype[np.generic]") -> "Scalar":
        """The type of an array's elements; KeyError where kernels have none, for strings and complex numbers."""
        return _BY_DTYPE[dtype.name]

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """How NumPy stores it."""
        return np.dtype("int64" if self is Scalar.INDEX else self.value)

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.value.startswith("float")

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer; INDEX is, BOOL is not."""
        return not self.is_float and self is not Scalar.BOOL

    @property
    def size_bytes(self) -> int:
        """Of one stored element."""
        return self.dtype.itemsize


_BY_DTYPE = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.INDEX}

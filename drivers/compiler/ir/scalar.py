"""Types of the numbers that kernels compute with."""

from enum import Enum

import numpy as np


class Scalar(Enum):
    """The type of a number.

    INDEX is for counts and indices. Compilers use 32 or 64 bits for it, as the tensors require.

    Attributes:
        dtype: the NumPy type that stores it.
        is_float: True for floating-point types.
        is_integer: True for integers, including INDEX and excluding BOOL.
        size_bytes: size of one stored element.
    """

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

    #: Members are compared by identity; Enum's own hash function is slow.
    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        self.dtype: np.dtype[np.generic] = np.dtype("int64" if name == "index" else name)
        self.is_float = name.startswith("float")
        self.is_integer = not self.is_float and name != "bool"
        self.size_bytes = self.dtype.itemsize

    @property
    def wider(self) -> "Scalar":
        """The type in which elements of this type are reduced: itself unless it is narrow."""
        return _WIDER.get(self, self)

    def rounded(self, value: float) -> float:
        """Rounds a value to this float type; values out of range become infinite."""
        with np.errstate(over="ignore", under="ignore"):
            return float(self.dtype.type(value))

    @staticmethod
    def of(dtype: "np.dtype[np.generic]") -> "Scalar":
        """Returns the type of an array's elements.

        Raises:
            KeyError: they are strings or complex numbers.
        """
        return _BY_DTYPE[dtype.name]


_WIDER = {
    Scalar.FLOAT16: Scalar.FLOAT32,
    Scalar.INT8: Scalar.INT32,
    Scalar.INT16: Scalar.INT32,
    Scalar.UINT8: Scalar.INT32,
    Scalar.UINT16: Scalar.INT32,
}
_BY_DTYPE = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.INDEX}

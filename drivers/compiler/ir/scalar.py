"""Types of the numbers that kernels compute with."""

from typing import ClassVar, Final

import numpy as np


class Scalar:
    """The type of a number.

    INDEX is for counts and indices. Compilers use 32 or 64 bits for it, as the tensors require.
    There is one object for each type, so that they are compared by identity. They are no `Enum`,
    whose class takes ten times as long to make, in each start of a model with control flow.

    Args:
        value: the name of its NumPy type, or "index".

    Attributes:
        value: see above.
        name: the name of the attribute of this class that has it.
        dtype: the NumPy type that stores it.
        is_float: True for floating-point types.
        is_integer: True for integers, including INDEX and excluding BOOL.
        size_bytes: size of one stored element.
    """

    __slots__ = ("dtype", "is_float", "is_integer", "name", "size_bytes", "value")

    BOOL: ClassVar["Scalar"]
    INT8: ClassVar["Scalar"]
    UINT8: ClassVar["Scalar"]
    INT16: ClassVar["Scalar"]
    UINT16: ClassVar["Scalar"]
    INT32: ClassVar["Scalar"]
    UINT32: ClassVar["Scalar"]
    INT64: ClassVar["Scalar"]
    UINT64: ClassVar["Scalar"]
    FLOAT16: ClassVar["Scalar"]
    FLOAT32: ClassVar["Scalar"]
    FLOAT64: ClassVar["Scalar"]
    INDEX: ClassVar["Scalar"]

    def __init__(self, value: str) -> None:
        self.value = value
        self.name = value.upper()
        self.dtype: np.dtype[np.generic] = np.dtype("int64" if value == "index" else value)
        self.is_float = value.startswith("float")
        self.is_integer = not self.is_float and value != "bool"
        self.size_bytes = self.dtype.itemsize

    def __repr__(self) -> str:
        return f"Scalar.{self.name}"

    def __reduce__(self) -> str:
        # A copy, or what another process unpickles, is the same object.
        return repr(self)

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


def _made(value: str) -> Scalar:
    """Makes the type of a name an attribute of the class."""
    made = Scalar(value)
    setattr(Scalar, made.name, made)
    return made


#: All types.
SCALARS: Final = tuple(
    map(
        _made,
        (
            *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
            *("float16", "float32", "float64", "index"),
        ),
    )
)

_WIDER = {
    Scalar.FLOAT16: Scalar.FLOAT32,
    Scalar.INT8: Scalar.INT32,
    Scalar.INT16: Scalar.INT32,
    Scalar.UINT8: Scalar.INT32,
    Scalar.UINT16: Scalar.INT32,
}
_BY_DTYPE = {scalar.value: scalar for scalar in SCALARS if scalar is not Scalar.INDEX}

"""Kinds of products, which bindings choose and kernels are written for."""

from enum import Enum


class Products(Enum):
    """Kinds of factors, and of what their sums are converted to."""

    #: Floats.
    FLOAT = "float"
    #: Integers of 8 bits, which are requantised.
    INT = "int"
    #: Integers of 16 bits and weights of 8, which are requantised to 16.
    SHORT = "short"
    #: Rows of floats, quantised before, and integers. A sum is scaled to a float.
    HYBRID = "hybrid"
    #: Like HYBRID; each tap has scales of its own.
    BLOCKS = "blocks"

    @property
    def pointers(self) -> tuple[str, ...]:
        """The parameters of the epilogue."""
        return {
            Products.FLOAT: ("bias",),
            Products.INT: ("bias", "scales"),
            Products.SHORT: ("bias", "scales"),
            Products.HYBRID: ("bias", "rows"),
            Products.BLOCKS: ("bias", "scales", "rows"),
        }[self]

    @property
    def is_float(self) -> bool:
        """True if floats are multiplied."""
        return self is Products.FLOAT

    @property
    def is_requantized(self) -> bool:
        """True if sums of integers become integers."""
        return self in (Products.INT, Products.SHORT)

    @property
    def output(self) -> str:
        """The type of outputs."""
        return {Products.INT: "i8", Products.SHORT: "i16"}.get(self, "float")

    @property
    def starts_with_bias(self) -> bool:
        """True if sums begin with the bias, which else is added to the result."""
        return self.is_float or self.is_requantized

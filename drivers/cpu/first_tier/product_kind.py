"""Kinds of products, which bindings choose and kernels are written for."""

from enum import Enum


class Products(Enum):
    """Kinds of factors, and of what their sums are converted to."""

    #: Floats.
    FLOAT = "float"
    #: Integers, which are requantised.
    INT = "int"
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
            Products.HYBRID: ("bias", "rows"),
            Products.BLOCKS: ("bias", "scales", "rows"),
        }[self]

    @property
    def is_float(self) -> bool:
        """True if floats are multiplied."""
        return self is Products.FLOAT

    @property
    def starts_with_bias(self) -> bool:
        """True if sums begin with the bias, which else is added to the result."""
        return self in (Products.FLOAT, Products.INT)

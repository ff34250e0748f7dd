"""Layouts that kernels of the first tier and the data that is prepared for them have in common."""

from typing import Final

from msgspec import Struct

from neurald.drivers.cpu.target.target import Target

#: Elements of a work item of kernels that process elements one by one.
BLOCK: Final = 4096
#: Parameters of requantisation for each channel, apart from the mantissa: what is added, and what is
#: added to numbers below zero, before the shift.
SCALES: Final = 3

_WINDOW: Final = ("out", "input", "weights", "bias", "table", "zeros", "words")
_INT_WINDOW: Final = ("out", "input", "weights", "bias", "scales", "table", "zeros", "words")
_BINARY: Final = ("out", "input", "other", "words")
_POOL: Final = ("out", "input", "table", "zeros", "words")
_UNARY: Final = ("out", "input", "words")
_MOVE: Final = ("out", "input", "table", "words")
_BYTES: Final = ("out", "input", "other", "first", "second", "words")
#: The functions of the library, with the names of their pointers.
FUNCTIONS: Final = {
    "first_tiles_float": _WINDOW,
    "first_panels_float": _WINDOW,
    "first_depthwise_float": _WINDOW,
    "first_tiles_int": _INT_WINDOW,
    "first_panels_int": _INT_WINDOW,
    "first_depthwise_int": _INT_WINDOW,
    "first_widen_signed": ("out", "input", "words"),
    "first_widen_unsigned": ("out", "input", "words"),
    "first_lookup": ("out", "input", "lookup", "words"),
    "first_byte_sum": _BYTES,
    "first_byte_product": _BYTES,
    "first_copy": ("out", "input", "words"),
    "first_move_1": _MOVE,
    "first_move_2": _MOVE,
    "first_move_4": _MOVE,
    "first_move_8": _MOVE,
    "first_scatter_1": _MOVE,
    "first_scatter_2": _MOVE,
    "first_scatter_4": _MOVE,
    "first_scatter_8": _MOVE,
    "first_max_float": _POOL,
    "first_max_signed": _POOL,
    "first_max_unsigned": _POOL,
    "first_prelu": _BINARY,
    "first_softmax": _UNARY,
    "first_mean": _UNARY,
    "first_clamp": _UNARY,
    "first_exp": _UNARY,
    "first_hard_swish": _UNARY,
    "first_logistic": _UNARY,
    "first_rsqrt": _UNARY,
    "first_tanh": _UNARY,
    "first_divide": _BINARY,
    "first_squared_difference": _BINARY,
    "first_add": _BINARY,
    "first_subtract": _BINARY,
    "first_multiply": _BINARY,
}


class Tiles(Struct, frozen=True, kw_only=True):
    """Sizes of register tiles for a target.

    Attributes:
        lanes: 32-bit elements of a vector.
        rows: positions of a tile.
        vectors: vectors of channels of a tile.
        panel_vectors: vectors of channels of a tile with one position.
    """

    lanes: int
    rows: int
    vectors: int = 2
    panel_vectors: int = 4

    @property
    def width(self) -> int:
        """Number of channels of a tile."""
        return self.lanes * self.vectors

    @property
    def panel_width(self) -> int:
        """Number of channels of a tile with one position."""
        return self.lanes * self.panel_vectors


def tiles_of(target: Target) -> Tiles:
    """Returns the sizes for a target."""
    many = 32
    return Tiles(lanes=target.lanes(4), rows=8 if target.registers >= many else 4)

"""A part of an image that a work-group computes of a depthwise convolution, and what it takes of the input."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.compiler.ir.graph import DepthwiseConvolution

#: Statements that say where patch `spot` lies: its image, the first position of the output, and the first one of the input, which may
#: lie outside.
PLACE = """\
  const int image = spot / $SPOTS, y0 = spot % $SPOTS / $SPOTS_ACROSS * $LINES, x0 = spot % $SPOTS_ACROSS * $LENGTH;
  const int top = y0 * $STRIDE_Y - $PAD_Y, left = x0 * $STRIDE_X - $PAD_X;
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """A rectangle of the output; the last ones of an image may be smaller.

    Attributes:
        lines, length: how many lines, and how many positions of each.
    """

    convolution: DepthwiseConvolution
    lines: int
    length: int

    @property
    def rows(self) -> int:
        """Positions of the output."""
        return self.lines * self.length

    @property
    def input_lines(self) -> int:
        """Lines of the input that these need."""
        return self._needed(0, self.lines)

    @property
    def pitch(self) -> int:
        """Positions of each of them."""
        return self._needed(1, self.length)

    def _needed(self, dimension: int, count: int) -> int:
        convolution = self.convolution
        reach = (convolution.kernel[dimension] - 1) * convolution.dilation[dimension] + 1
        return (count - 1) * convolution.stride[dimension] + reach

    @property
    def positions(self) -> int:
        """Of the input, also outside of the image."""
        return self.input_lines * self.pitch

    @property
    def count(self) -> int:
        """How many there are, in all images."""
        return self.convolution.output.shape[0] * self._down * self._across

    @property
    def _down(self) -> int:
        return -(-self.convolution.output.shape[1] // self.lines)

    @property
    def _across(self) -> int:
        return -(-self.convolution.output.shape[2] // self.length)

    @property
    def names(self) -> dict[str, int]:
        """What texts call its numbers: `PLACE` does."""
        _, height, width, channels = self.convolution.input.shape
        return {
            "LINES": self.lines,
            "LENGTH": self.length,
            "SPOTS": self._down * self._across,
            "SPOTS_ACROSS": self._across,
            "ROWS": self.rows,
            "PITCH": self.pitch,
            "POSITIONS": self.positions,
            "HEIGHT": height,
            "WIDTH": width,
            "CHANNELS": channels,
            "OUT_HEIGHT": self.convolution.output.shape[1],
            "OUT_WIDTH": self.convolution.output.shape[2],
            "STRIDE_Y": self.convolution.stride[0],
            "STRIDE_X": self.convolution.stride[1],
            "PAD_Y": self.convolution.padding[0][0],
            "PAD_X": self.convolution.padding[1][0],
        }

    def inside(self, line: str, position: str) -> str:
        """The condition that a position of the patch is one of the output; "1": all are."""
        _, height, width, _ = self.convolution.output.shape
        conditions = [
            f"{place} < {length}"
            for place, length, each in (
                (f"y0 + {line}", height, self.lines),
                (f"x0 + {position}", width, self.length),
            )
            if length % each
        ]
        return " && ".join(conditions) or "1"

    def taps(self) -> Iterator[int]:
        """How far the taps of a window lie behind its first one, in positions of the input."""
        rows, columns = self.convolution.kernel
        for i in range(rows):
            for j in range(columns):
                yield i * self.convolution.dilation[0] * self.pitch + j * self.convolution.dilation[1]


def patches(convolution: DepthwiseConvolution, *, most_rows: int, most: int) -> Iterator[Patch]:
    """Those that share an image as evenly as can be: none are much higher than wide, since that is no better.

    Args:
        convolution: whose output they are of.
        most_rows: positions of each.
        most: how many there may be.
    """
    _, height, width, _ = convolution.output.shape
    for lines in parts_of(height):
        for length in parts_of(width):
            patch = Patch(convolution=convolution, lines=lines, length=length)
            if patch.rows <= most_rows and patch.count <= most and (lines <= length or length == width):
                yield patch


def parts_of(count: int) -> list[int]:
    """How long parts are that divide something as evenly as can be."""
    return sorted({math.ceil(count / parts) for parts in range(1, count + 1)})

"""Divides images into patches.

A patch is the part of a depthwise convolution's output that one work-group computes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.compiler.ir.graph import DepthwiseConvolution
from neurald.drivers.opencl.codegen.template import templates

#: Statements that compute the location of patch `spot`.
PLACE = templates(__name__, "patch.cl")["place"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """Rectangle of the output; the last ones of an image may be smaller.

    Attributes:
        lines, length: the number of lines, and of positions per line.
    """

    convolution: DepthwiseConvolution
    lines: int
    length: int

    @property
    def rows(self) -> int:
        """Number of output positions."""
        return self.lines * self.length

    @property
    def input_lines(self) -> int:
        """Number of input lines that the patch needs."""
        return self._needed(0, self.lines)

    @property
    def pitch(self) -> int:
        """Number of positions per input line."""
        return self._needed(1, self.length)

    def _needed(self, dimension: int, count: int) -> int:
        convolution = self.convolution
        reach = (convolution.kernel[dimension] - 1) * convolution.dilation[dimension] + 1
        return (count - 1) * convolution.stride[dimension] + reach

    @property
    def positions(self) -> int:
        """Number of input positions, including those outside of the image."""
        return self.input_lines * self.pitch

    @property
    def count(self) -> int:
        """Number of patches in all images."""
        return self.convolution.output.shape[0] * self._down * self._across

    @property
    def _down(self) -> int:
        return -(-self.convolution.output.shape[1] // self.lines)

    @property
    def _across(self) -> int:
        return -(-self.convolution.output.shape[2] // self.length)

    @property
    def names(self) -> dict[str, int]:
        """Names of the sizes in texts, such as `PLACE`."""
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
        """Returns the condition that a position of the patch lies in the output.

        The condition is "1" if it always does.
        """
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
        """Yields the offsets of a window's taps from its first one, in input positions."""
        rows, columns = self.convolution.kernel
        for i in range(rows):
            for j in range(columns):
                yield i * self.convolution.dilation[0] * self.pitch + j * self.convolution.dilation[1]


def patches(convolution: DepthwiseConvolution, *, max_rows: int, max_count: int) -> Iterator[Patch]:
    """Yields patches that divide an image evenly.

    Patches that are much higher than wide are left out, because they have no benefit.

    Args:
        convolution: the convolution whose output they divide.
        max_rows: the maximum number of positions of a patch.
        max_count: the maximum number of patches.
    """
    _, height, width, _ = convolution.output.shape
    for lines in parts_of(height):
        for length in parts_of(width):
            patch = Patch(convolution=convolution, lines=lines, length=length)
            if patch.rows <= max_rows and patch.count <= max_count and (lines <= length or length == width):
                yield patch


def parts_of(count: int) -> list[int]:
    """Returns the lengths of parts that divide a length as evenly as possible."""
    return sorted({math.ceil(count / parts) for parts in range(1, count + 1)})

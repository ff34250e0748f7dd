"""The heads of detectors: outputs that have some numbers for each cell of a grid over the image."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from neurald.service.tensors.arrays import Array

#: The strides of grids, in pixels.
_STRIDES: Final = (4, 8, 16, 32, 64, 128)
#: The heads of a grid, of which each has some of the numbers.
_MAX_HEADS: Final = 3
#: A detector has several grids.
_MIN_GRIDS: Final = 2


class Level(Struct, frozen=True):
    """A grid, and the numbers of its cells.

    Attributes:
        stride: height and width of a cell in pixels.
        heads: the heads in the order of outputs, of shape (cells, numbers), where those of an
            anchor are next to each other.
    """

    stride: int
    heads: tuple[Array, ...]


def find_levels(values: Sequence[Array], size: tuple[int, int]) -> list[Level]:
    """Returns the grids of a model whose outputs are all heads, finest first; none for others.

    Args:
        values: the outputs.
        size: height and width of the image.
    """
    found: dict[int, list[Array]] = {}
    for each in values:
        head = _head(each, size)
        if head is None:
            return []
        found.setdefault(head[0], []).append(head[1])
    levels = [Level(stride, tuple(heads)) for stride, heads in sorted(found.items())]
    kinds = {tuple(sorted(head.shape[1] for head in level.heads)) for level in levels}
    if len(levels) < _MIN_GRIDS or len(kinds) != 1 or len(levels[0].heads) > _MAX_HEADS:
        return []
    return levels


def _head(value: Array, size: tuple[int, int]) -> tuple[int, Array] | None:
    """Returns stride and numbers of a head."""
    if value.ndim not in (4, 5) or value.shape[0] != 1:
        return None
    for stride, rows, columns in grids(size):
        for arranged in _arrangements(value[0]):
            if arranged.shape[:2] == (rows, columns):
                return stride, arranged.reshape(rows * columns, -1)
    return None


def _arrangements(value: Array) -> Iterator[Array]:
    """Yields a head with rows and columns first, by the usual orders of its dimensions."""
    yield value
    if value.ndim == 3:
        yield value.transpose(1, 2, 0)
        return
    # Anchors first; anchors and numbers first.
    yield value.transpose(1, 2, 0, 3)
    yield value.transpose(2, 3, 0, 1)


def grids(size: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Returns for each stride also the rows and columns of its grid."""
    height, width = size
    return [(stride, math.ceil(height / stride), math.ceil(width / stride)) for stride in _STRIDES]

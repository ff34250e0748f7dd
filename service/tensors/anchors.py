"""Anchors: the boxes from which the outputs of a detector measure, in the usual layouts.

A layout is a list of grids over the image, each with some boxes for every cell. Sources: the anchor
generators of MediaPipe (`ssd_anchors_calculator`) and of TensorFlow's object detection API
(`multiple_grid_anchor_generator`), and the grids of YOLOX.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.service.tensors.arrays import Array

#: Strides in pixels and boxes per cell of MediaPipe's detectors of faces, hands and poses, whose
#: boxes are as large as the image.
_MEDIAPIPE: Final = (
    ((8, 2), (16, 6)),
    ((16, 2), (32, 6)),
    ((4, 1),),
    ((8, 2), (16, 2), (32, 6)),
)
#: The first grid of SSD has cells of so many pixels, each further one has cells twice as large.
_SSD_STRIDE: Final = 16
_SSD_GRIDS: Final = 6
_SSD_SCALES: Final = (0.2, 0.95)
_SSD_RATIOS: Final = (1.0, 2.0, 0.5, 3.0, 0.3333)
#: Strides of YOLO's grids, in pixels.
YOLO_STRIDES: Final = (8, 16, 32)


class Anchors(Struct, frozen=True, kw_only=True):
    """Boxes in the order of a detector's outputs.

    Attributes:
        name: of the layout, for people.
        boxes: for each the centre's y and x, its height and its width, as shares of the image.
    """

    name: str
    boxes: Array


def mediapipe_anchors(size: tuple[int, int], count: int) -> Anchors | None:
    """Returns the anchors of the layout of MediaPipe that has so many; None if none or several have.

    Args:
        size: height and width of the image.
        count: number of boxes.
    """
    found = []
    for layout in _MEDIAPIPE:
        grids = [(_cells(size, stride), boxes) for stride, boxes in layout]
        if sum(rows * columns * boxes for (rows, columns), boxes in grids) == count:
            found.append([_grid(cells, [(1.0, 1.0)] * boxes) for cells, boxes in grids])
    return Anchors(name="MediaPipe's detectors", boxes=np.concatenate(found[0])) if len(found) == 1 else None


def ssd_anchors(size: tuple[int, int], count: int) -> Anchors | None:
    """Returns the anchors of SSD in its usual six grids, if they are so many; see `mediapipe_anchors`."""
    least, most = _SSD_SCALES
    scales = [least + (most - least) * number / (_SSD_GRIDS - 1) for number in range(_SSD_GRIDS)] + [1.0]
    cells, grids = _cells(size, _SSD_STRIDE), []
    for number, (scale, following) in enumerate(pairwise(scales)):
        if number:
            shapes = [*((scale, ratio) for ratio in _SSD_RATIOS), (math.sqrt(scale * following), 1.0)]
        else:
            shapes = [(0.1, 1.0), (scale, 2.0), (scale, 0.5)]
        sides = [(side / math.sqrt(ratio), side * math.sqrt(ratio)) for side, ratio in shapes]
        grids.append(_grid(cells, sides))
        cells = math.ceil(cells[0] / 2), math.ceil(cells[1] / 2)
    boxes = np.concatenate(grids)
    return Anchors(name="SSD", boxes=boxes) if len(boxes) == count else None


def yolo_cells(size: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yields the strides of YOLO's grids, and their numbers of rows and columns."""
    return ((stride, _cells(size, stride)) for stride in YOLO_STRIDES)


def yolo_anchors(size: tuple[int, int], count: int) -> Anchors | None:
    """Returns the cells of YOLOX's grids, if they are so many; see `mediapipe_anchors`.

    The outputs measure from the upper left corners of the cells, not from their centres.
    """
    height, width = size
    boxes = np.concatenate(
        [_grid(cells, [(stride / height, stride / width)]) for stride, cells in yolo_cells(size)]
    )
    return Anchors(name="YOLOX", boxes=boxes) if len(boxes) == count else None


def _cells(size: tuple[int, int], stride: int) -> tuple[int, int]:
    return math.ceil(size[0] / stride), math.ceil(size[1] / stride)


def _grid(cells: tuple[int, int], sides: Sequence[tuple[float, float]]) -> Array:
    """Returns boxes with these heights and widths in the middle of each cell, cell by cell."""
    rows, columns = cells
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    centres = np.stack([y, x], -1).reshape(-1, 1, 2).repeat(len(sides), 1)
    shapes = np.broadcast_to(np.array(sides), centres.shape)
    return np.concatenate([centres, shapes], -1).reshape(-1, 4).astype(np.float32)

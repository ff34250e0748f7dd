"""The anchors of detectors whose files lack them, by the image's size and their number."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from neurald.service.tensors.arrays import Array

#: MediaPipe's detectors of faces, palms and persons: the strides of their layers, and the anchors
#: of each layer in a cell.
_LAYERS: Final = (
    ((4,), 1),
    ((8, 16, 16, 16), 2),
    ((8, 16, 32, 32, 32), 2),
    ((16, 32, 32, 32), 2),
)
#: The layers of TensorFlow's SSD, the stride of the first, and the scales of its anchors.
_SSD_LAYERS: Final = 6
_SSD_STRIDE: Final = 16
_MIN_SCALE: Final = 0.2
_MAX_SCALE: Final = 0.95
_SSD_RATIOS: Final = (1.0, 2.0, 0.5, 3.0, 1 / 3)
#: Scales and ratios of the anchors of SSD's first layer; None is the scale of the layer.
_FIRST_LAYER: Final = ((0.1, 1.0), (None, 2.0), (None, 0.5))


def mediapipe_anchors(size: tuple[int, int], count: int) -> tuple[Array, str] | None:
    """Returns the centres of the anchors of one of MediaPipe's detectors.

    Args:
        size: height and width of the image.
        count: the number of anchors.

    Returns:
        The centres as y and x, shares of the image, of shape (count, 2), and the strides for
        people. None if no detector has that many.
    """
    for strides, anchors in _LAYERS:
        # Layers of the same stride are one, whose cells have the anchors of all.
        cells = [(stride, anchors * strides.count(stride)) for stride in dict.fromkeys(strides)]
        centers = [np.repeat(grid(size, stride), each, axis=0) for stride, each in cells]
        if sum(map(len, centers)) == count:
            return np.concatenate(centers), ", ".join(map(str, strides))
    return None


def ssd_anchors(size: tuple[int, int], count: int) -> Array | None:
    """Returns the anchors of TensorFlow's SSD with six layers.

    Args:
        size: height and width of the image.
        count: the number of anchors.

    Returns:
        Centre y, centre x, height and width as shares of the image, of shape (count, 4). None if
        SSD has another number of them.
    """
    found = np.array(list(_ssd_anchors(size)), np.float32)
    return found if len(found) == count else None


def _ssd_anchors(size: tuple[int, int]) -> Iterator[tuple[float, float, float, float]]:
    step = (_MAX_SCALE - _MIN_SCALE) / (_SSD_LAYERS - 1)
    scales = [*(_MIN_SCALE + step * layer for layer in range(_SSD_LAYERS)), 1.0]
    rows, columns = (math.ceil(length / _SSD_STRIDE) for length in size)
    for layer in range(_SSD_LAYERS):
        scale = scales[layer]
        boxes: Sequence[tuple[float | None, float]] = _FIRST_LAYER
        if layer:
            boxes = [*((scale, ratio) for ratio in _SSD_RATIOS), (math.sqrt(scale * scales[layer + 1]), 1.0)]
        for row in range(rows):
            for column in range(columns):
                for own, ratio in boxes:
                    side, root = scale if own is None else own, math.sqrt(ratio)
                    yield (row + 0.5) / rows, (column + 0.5) / columns, side / root, side * root
        rows, columns = math.ceil(rows / 2), math.ceil(columns / 2)


def grid(size: tuple[int, int], stride: int) -> Array:
    """Returns the centres of the cells of an image, row by row, as y and x, shares of the image.

    Args:
        size: height and width of the image.
        stride: height and width of a cell.
    """
    rows, columns = (math.ceil(length / stride) for length in size)
    y, x = np.mgrid[:rows, :columns].astype(np.float32)
    return np.stack([(y + 0.5) / rows, (x + 0.5) / columns], axis=-1).reshape(-1, 2)

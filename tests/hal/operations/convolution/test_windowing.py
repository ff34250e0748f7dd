import itertools
import math

import numpy as np
from support.sweeps import sweep

from neurald.hal.operations.convolution.windowing import Window, blocks


@sweep("length", [0, 1, 4, 9])
@sweep("stride", [1, 2, 5])
@sweep("dilation", [1, 3])
@sweep("head", [0, 1, 4])
def test_overlap_covers_the_elements_inside_the_image(
    length: int, stride: int, dilation: int, head: int
) -> None:
    window = Window(
        kernel=(1, 4), stride=(1, stride), dilation=(1, dilation), padding=((0, 0), (head, 9)), output=(1, 7)
    )
    for tap, start, stop in itertools.product(range(4), range(7), range(8)):
        seen = [position * stride + tap * dilation - head for position in range(start, stop)]
        positions, elements = window.overlap(1, tap, length, start, stop)
        assert np.arange(start, max(start, stop))[positions].tolist() == [
            start + n for n, element in enumerate(seen) if 0 <= element < length
        ]
        assert np.arange(length)[elements].tolist() == [element for element in seen if 0 <= element < length]


@sweep("positions", [(1, 1, 1), (2, 3, 4), (7, 1, 5), (1, 6, 1), (0, 3, 3)])
@sweep("limit", [0, 1, 3, 4, 5, 12, 13, 24, 1000])
def test_blocks_cover_all_positions_in_order(positions: tuple[int, int, int], limit: int) -> None:
    indexes = np.arange(math.prod(positions)).reshape(positions)
    parts = [indexes[block].ravel().tolist() for block in blocks(positions, limit)]
    assert list(itertools.chain(*parts)) == indexes.ravel().tolist()
    assert all(1 <= len(part) <= max(1, limit) for part in parts)


@sweep(
    ("kernel", "padding", "pointwise"),
    [((1, 1), (0, 0), True), ((1, 2), (0, 0), False), ((1, 1), (0, 1), False)],
)
def test_pointwise(kernel: tuple[int, int], padding: tuple[int, int], pointwise: bool) -> None:
    window = Window(kernel=kernel, stride=(2, 1), dilation=(1, 1), padding=((0, 0), padding), output=(1, 1))
    assert window.is_pointwise is pointwise

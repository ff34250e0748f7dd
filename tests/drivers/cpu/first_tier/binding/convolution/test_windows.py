"""Tables of windows name the image element of each tap of each position."""

import itertools
import random

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution.windows import WindowAxis, window_table
from neurald.drivers.cpu.first_tier.binding.scope import BindingScope
from neurald.drivers.cpu.first_tier.layout import Tiles
from neurald.hal.model.graph import Subgraph


def table(batches: int, axes: tuple[WindowAxis, ...], depth: int) -> list[int]:
    """Returns the content of a table."""
    graph = Subgraph(operands=(), operations=(), inputs=(), outputs=())
    constant = window_table(BindingScope(graph, lambda _: None, Tiles(lanes=4, rows=1)), batches, axes, depth)
    content = np.zeros(constant.shape, constant.dtype)
    assert constant.fill is not None
    constant.fill(content)
    found: list[int] = content.tolist()
    return found


def expected(batches: int, axes: tuple[WindowAxis, ...], depth: int) -> list[int]:
    """Returns the offsets, one by one."""
    offsets = []
    positions = [range(axis.positions) for axis in axes]
    taps = [range(axis.taps) for axis in axes]
    for batch, *numbers in itertools.product(range(batches), *positions, *taps):
        pixel, is_inside = batch, True
        for axis, position, tap in zip(axes, numbers, numbers[len(axes) :], strict=False):
            place = position * axis.stride + tap * axis.dilation - axis.before
            is_inside = is_inside and 0 <= place < axis.length
            pixel = pixel * axis.length + place
        offsets.append(pixel * depth if is_inside else -1)
    return offsets


def test_offsets_of_random_windows() -> None:
    draw = random.Random(0)
    for _ in range(60):
        axes = tuple(
            WindowAxis(
                length=draw.randint(1, 7),
                positions=draw.randint(1, 4),
                taps=draw.randint(1, 3),
                stride=draw.randint(1, 3),
                dilation=draw.randint(1, 3),
                before=draw.randint(-2, 4),
            )
            for _ in range(draw.randint(1, 3))
        )
        batches, depth = draw.randint(1, 3), draw.randint(1, 5)
        assert table(batches, axes, depth) == expected(batches, axes, depth), (batches, axes, depth)

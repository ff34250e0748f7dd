"""Tiles leave out taps that only read padding, with the graph's integers."""

import numpy as np
import pytest
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.tap_sets import tap_sets
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, Target

_targets = pytest.mark.parametrize("target", RUNNABLE, ids=lambda each: each.name)


@_targets
@pytest.mark.parametrize("seed", range(12))
def test_random_windows(seed: int, target: Target) -> None:
    """Checks random types, zero points, groups, strides, and paddings up to the whole image."""
    random = np.random.default_rng(seed)
    source, weights, result = [each for each in TYPES if each[1] is Scalar.INT8][seed % 2]
    groups = int(random.choice([1, 1, 2]))
    depth, channels = int(random.choice([4, 6, 16])), groups * int(random.choice([16, 33, 48, 80]))
    taps = tuple(int(each) for each in random.integers(2, 5, 2))
    stride = tuple(int(each) for each in random.integers(1, 3, 2))
    dilation = tuple(int(each) for each in random.integers(1, 7, 2))
    reach = [(count - 1) * step + 1 for count, step in zip(taps, dilation, strict=True)]
    padding = tuple((int(random.integers(0, each + 3)), int(random.integers(0, each + 3))) for each in reach)
    outputs = int(random.integers(4, 14)), int(random.choice([9, 14, 20, 33]))
    size = [
        max(1, (count - 1) * step + each - sum(sides))
        for count, step, each, sides in zip(outputs, stride, reach, padding, strict=True)
    ]
    results = tuple(
        (length + sum(sides) - each) // step + 1
        for length, sides, each, step in zip(size, padding, reach, stride, strict=True)
    )
    # Weights with a zero point need sums of windows, for which all taps are multiplied.
    least = -128 if source is Scalar.INT8 else 0
    zeros = least if seed % 3 == 0 else least + int(random.integers(256)), int(seed % 6 == 5)
    sums = QuantizedSums(seed, source=source, weights=weights, zeros=zeros)
    case = sums.convolution(
        (2, *size, groups * depth),
        (channels, *taps, depth),
        (2, *results, channels),
        sums.rescaled(type=result),
        stride=stride,
        dilation=dilation,
        padding=padding,
        groups=groups,
    )
    check(case, target, seed)


def test_initial_sums_of_every_set() -> None:
    """With a padding element of 0, and with taps on the image only, panels have no other ones."""

    def size(zero: int, padding: int) -> int:
        side = 33 + 2 * (12 - padding)
        case = QuantizedSums(1, zeros=(zero, 0)).convolution(
            (1, side, side, 48),
            (48, 3, 3, 48),
            (1, 33, 33, 48),
            dilation=(12, 12),
            padding=((padding, padding), (padding, padding)),
        )
        routine = routine_for(case.kernel, TARGETS["avx512vnni"])
        assert routine is not None
        return int(np.prod(routine.arguments[2].shape))

    inside, sets, channel_bytes = size(3, 0), 9, 4
    assert size(-128, 12) == size(-128, 0) == inside
    assert size(3, 12) == inside + sets * 48 * channel_bytes


def test_taps_of_rows_and_tiles() -> None:
    """Tiles between the borders have positions that need every tap."""
    side = WindowDimension(length=33, positions=33, taps=3, dilation=12, padding_before=12)
    tiles = [range(9), range(9, 18), range(18, 27), range(24, 33)]
    sets = tap_sets(side, side, tiles, has_starts=True)
    assert sets.rows == sets.columns == (range(1, 3), range(3), range(2))
    assert sets.of_row == (0,) * 12 + (1,) * 9 + (2,) * 12
    assert sets.of_tile == (0, 1, 1, 2)
    assert sets.products() == pytest.approx((2 * 24 + 3 * 9) / 33 * 2.5)
    merged = tap_sets(side, None, tiles, has_starts=False)
    assert merged.columns == (range(1),)
    assert merged.start_rows == 0


def test_positions_without_taps_keep_one() -> None:
    side = WindowDimension(length=3, positions=9, taps=2, dilation=2, padding_before=4)
    assert [list(each) for each in tap_sets(side, None, [range(1)], has_starts=False).rows] == [
        [0],
        [1],
        [0, 1],
    ]

"""Columns that are computed as channels have the graph's integers."""

import numpy as np
import pytest
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.int8.joined_columns import joined_columns
from neurald.drivers.cpu.target.target import Target

_targets = pytest.mark.parametrize("target", RUNNABLE, ids=lambda each: each.name)


def _joined(kernel: Kernel, lanes: int) -> Kernel | None:
    node = kernel.contraction
    assert isinstance(node, Convolution)
    return joined_columns(kernel, node, lanes)


@_targets
@pytest.mark.parametrize("seed", range(8))
def test_random_windows(seed: int, target: Target) -> None:
    """Checks kernels of few channels with random windows, strides, paddings and types."""
    random = np.random.default_rng(seed)
    source, weights, result = TYPES[seed % len(TYPES)]
    channels, depth = int(random.integers(1, 4)), int(random.choice([1, 3, 8, 20]))
    taps = tuple(int(each) for each in random.integers(1, 6, 2))
    stride = tuple(int(each) for each in random.integers(1, 3, 2))
    padding = tuple((int(random.integers(0, each)), int(random.integers(0, each))) for each in taps)
    outputs = int(random.integers(2, 7)), int(random.choice([8, 12, 30, 32]))
    size = [
        (count - 1) * step + each - sum(sides)
        for count, step, each, sides in zip(outputs, stride, taps, padding, strict=True)
    ]
    sums = QuantizedSums(seed, source=source, weights=weights)
    tail = sums.rescaled(type=result)
    if result is not Scalar.INT16 and seed % 2:
        tail = sums.added(tail, zeros=(3, 9), factors=(0.31, 0.5))
    case = sums.convolution(
        (2, *size, depth),
        (channels, *taps, depth),
        (2, *outputs, channels),
        tail,
        stride=stride,
        padding=padding,
    )
    check(case, target, seed)


def test_as_many_columns_as_lanes_hold() -> None:
    for channels, width, count in ((1, 32, 16), (1, 12, 12), (2, 32, 8), (3, 30, 5)):
        case = QuantizedSums(1).convolution(
            (1, 5, width, 8), (channels, 3, 3, 8), (1, 3, width, channels), padding=((0, 0), (1, 1))
        )
        joined = _joined(case.kernel, 16)
        assert joined is not None
        assert joined.contraction is not None
        assert joined.contraction.output.shape == (1, 3, width // count, count * channels)


def test_kernels_that_remain() -> None:
    """Windows of one column, widths that are prime, and full vectors spare no products."""
    sums = QuantizedSums(1)
    narrow = sums.convolution((1, 5, 32, 8), (1, 3, 1, 8), (1, 3, 32, 1))
    prime = sums.convolution((1, 5, 31, 8), (1, 3, 3, 8), (1, 3, 29, 1))
    full = sums.convolution((1, 5, 34, 8), (9, 3, 3, 8), (1, 3, 32, 9))
    dilated = sums.convolution((1, 5, 36, 8), (1, 3, 3, 8), (1, 3, 32, 1), dilation=(1, 2))
    assert all(_joined(each.kernel, 16) is None for each in (narrow, prime, full, dilated))

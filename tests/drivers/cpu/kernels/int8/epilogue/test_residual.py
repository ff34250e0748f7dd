"""Residual additions give the graph's integers, with a matched formula and without."""

import numpy as np
import pytest
from support.cpu.quantized_sums import TYPES, QuantizedSums, check, two_targets, types_and_targets

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import find_rescaling
from neurald.drivers.cpu.kernels.int8.epilogue.residual import Residual, find_residual
from neurald.drivers.cpu.target.target import Target


def _residual(kernel: Kernel) -> Residual | None:
    rescaling = find_rescaling(flattened(kernel), kernel.shape[-1])
    assert rescaling is not None
    tail = QuantizedEpilogue(flattened(kernel), rescaling)
    assert tail.residual == find_residual(tail.kernel, rescaling)
    return tail.residual


@types_and_targets
@pytest.mark.parametrize("channels", [64, 56, 24, 7])
def test_additions(seed: int, channels: int, target: Target) -> None:
    """Checks pairs of whole vectors, overlapping vectors, and a partial vector."""
    source, weights, result = TYPES[seed % 3]
    sums = QuantizedSums(seed, source=source, weights=weights)
    zero = 3 if result is Scalar.INT8 else 130
    tail = sums.added(sums.rescaled(type=result), zeros=(zero, zero + 5), factors=(0.31, 0.5))
    case = sums.convolution((1, 5, 5, 16), (channels, 1, 1, 16), (1, 5, 5, channels), tail)
    assert _residual(case.kernel) is not None
    check(case, target, seed)


def test_all_pairs() -> None:
    """The formula equals the body for almost all random factors."""
    random, found = np.random.default_rng(1), 0
    for seed in range(12):
        first, second = (float(each) for each in random.uniform(0.05, 1, 2))
        sums = QuantizedSums(seed)
        tail = sums.added(sums.rescaled(), zeros=(seed, -seed), factors=(first, second))
        found += _residual(sums.product((1, 8), (8, 8), tail).kernel) is not None
    assert found >= 10


@two_targets
def test_ties(target: Target) -> None:
    """Ties are rounded away from zero, which no rounded-down sum reproduces."""
    sums = QuantizedSums(9)
    tail = sums.added(sums.rescaled(), zeros=(0, 0), factors=(0.5 / 1.118, 0.25 / 1.118))
    check(sums.convolution((1, 6, 6, 16), (23, 1, 1, 16), (1, 6, 6, 23), tail), target)

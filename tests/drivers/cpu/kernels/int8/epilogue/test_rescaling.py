"""Products that are rounded once give the graph's integers, with floats and without."""

import pytest
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import QuantizedSums, check

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import find_rescaling
from neurald.drivers.cpu.target.target import Target

_targets = pytest.mark.parametrize("target", RUNNABLE, ids=lambda each: each.name)


@_targets
@pytest.mark.parametrize("channels", [64, 24, 7])
def test_sums_of_bytes(channels: int, target: Target) -> None:
    for seed, kind in enumerate((Scalar.INT8, Scalar.UINT8, Scalar.INT16)):
        sums = QuantizedSums(seed)
        tail = sums.rescaled(type=kind, op=None, per_channel=seed != 1, largest=0.03)
        case = sums.product((7, 60), (channels, 60), tail)
        found = find_rescaling(flattened(case.kernel), channels)
        assert found is not None
        assert found.is_once
        check(case, target, seed)


@_targets
def test_ties_are_rounded_up(target: Target) -> None:
    """Multipliers are powers of two, so that many sums are ties; some exceed 1."""
    for largest in (0.25, 4.0):
        sums = QuantizedSums(5, zeros=(0, 0), bits=3)
        tail = sums.rescaled(op=None, largest=largest, has_powers=True)
        check(sums.product((5, 40), (40, 40), tail), target)


@_targets
def test_residuals(target: Target) -> None:
    sums = QuantizedSums(3)
    tail = sums.added(sums.rescaled(op=None), zeros=(3, 9), factors=(0.31, 0.5))
    check(sums.product((9, 32), (48, 32), tail), target)

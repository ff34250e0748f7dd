"""Quantised products with few channels and many terms give the graph's integers."""

import pytest
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check, types_and_targets
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import Target

pytestmark = pytest.mark.quick


@types_and_targets
def test_types(seed: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights, extreme=seed % 2 == 1)
    check(sums.product((2, 701), (2, 701), sums.rescaled(type=result)), target, seed)


@sweep("target", RUNNABLE, ids=lambda target: target.name)
@sweep("source", [Scalar.INT8, Scalar.UINT8])
def test_any_number_of_terms(source: Scalar, target: Target) -> None:
    for number, terms in enumerate((1024, 1153)):
        sums = QuantizedSums(number, source=source, zeros=(-5 if source is Scalar.INT8 else 100, 0))
        case = sums.convolution((2, 3, 2, terms), (1, 1, 1, terms), (2, 3, 2, 1), sums.rescaled(type=source))
        check(case, target, number)
        routine = routine_for(case.kernel, target)
        assert routine is not None
        assert "terms at once" in routine.label

"""Epilogues of several bytes give the graph's integers, by sums of 32 bits if these are equal."""

from collections.abc import Callable

import numpy as np
import pytest
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import QuantizedSums, Tail, check

from neurald.drivers.compiler.ir.expression import Apply, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import find_rescaling
from neurald.drivers.cpu.target.target import TARGETS, Target

_targets = pytest.mark.parametrize("target", RUNNABLE, ids=lambda each: each.name)


def _product(seed: int) -> Callable[..., Expression]:
    """Returns a random product of two bytes, as quantised MUL computes it."""
    random = np.random.default_rng(seed)
    first, second, result = (int(each) for each in random.integers(-20, 20, 3))
    scale = float(0.02 * 0.5 ** random.uniform(0, 3))
    return lambda a, b: rescale((a - first) * (b - second), scale) + result


def _sum(seed: int, sign: int) -> Callable[..., Expression]:
    """Returns a random sum or difference of two bytes, as quantised ADD and SUB compute it."""
    random = np.random.default_rng(seed)
    first, second, result = (int(each) for each in random.integers(-20, 20, 3))
    scales = random.uniform(0.02, 0.06, 3)
    largest = 2 * float(scales[:2].max())

    def compute(a: Expression, b: Expression) -> Expression:
        one = rescale((a - first) << 20, float(scales[0]) / largest)
        other = rescale((b - second) << 20, float(scales[1]) / largest)
        total = one + other if sign > 0 else one - other
        return rescale(total, largest / ((1 << 20) * float(scales[2]))) + result

    return compute


def _crossed(sums: QuantizedSums, seed: int, *, op: Op | None = Op.FIXED_POINT) -> Tail:
    """Creates x · (W x + b) + y, or minus y, of bytes."""
    kind = (Scalar.INT8, Scalar.UINT8)[seed % 2]
    product = sums.combined(sums.rescaled(type=kind, op=op), _product(seed))
    return sums.combined(product, _sum(seed, 1 if seed % 3 else -1))


def _rescalings(kernel: Kernel) -> int:
    return sum(
        isinstance(each, Apply) and each.op in (Op.FIXED_POINT, Op.FIXED_POINT_UP)
        for each in walk(kernel.body)
    )


@_targets
@pytest.mark.parametrize("channels", [64, 24, 7])
def test_products_and_sums_of_bytes(channels: int, target: Target) -> None:
    for seed in range(3):
        sums = QuantizedSums(seed)
        tail = _crossed(sums, seed, op=None if seed == 1 else Op.FIXED_POINT)
        check(sums.product((5, 36), (channels, 36), tail), target, seed)


@_targets
def test_depthwise_convolutions_and_sums(target: Target) -> None:
    for seed in range(3):
        sums = QuantizedSums(seed, weights=Scalar.INT8)
        tail = sums.combined(sums.rescaled(), _sum(seed, 1))
        case = sums.depthwise((1, 6, 6, 24), (3, 3, 24), (1, 4, 4, 24), tail)
        check(case, target, seed)


def test_sums_are_shorter() -> None:
    """None of a sum's three products is left; of a product's, the one that floats compute is."""
    for seed in range(4):
        sums = QuantizedSums(seed)
        kernel = flattened(sums.product((4, 16), (32, 16), _crossed(sums, seed)).kernel)
        tail = QuantizedEpilogue(kernel, find_rescaling(kernel, 32))
        assert _rescalings(tail.kernel) == 4
        assert _rescalings(tail.with_short_sums(TARGETS["avx512vbmi"]).kernel) == 1

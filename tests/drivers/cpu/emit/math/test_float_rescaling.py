"""Floats rescale integers exactly as fixed-point products do."""

import numpy as np
from support.compiler.elementwise import computed, expected, kernel_of
from support.cpu.native import RUNNABLE
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Apply, Expression, apply, clamp, constant
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.emit.math.float_rescaling import float_rescaling
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier

#: Multipliers, also of which many products are ties.
MULTIPLIERS = [0.05, 0.0806, 1 / 3, 0.5, 0.25, 0.0625, 0.9999, 1e-3, 2.0**-12, 1e-12]
MULTIPLIERS += np.exp(np.random.default_rng(3).uniform(-7, -0.1, 6)).tolist()
_BYTES = np.arange(-128, 128).astype(np.int8)
PAIRS = [np.repeat(_BYTES, 256), np.tile(_BYTES, 256)]


def scaled_product(
    first: Expression, second: Expression, multiplier: float, zero_points: tuple[int, int]
) -> Expression:
    """Returns a quantised product."""
    factors = [
        each.to(Scalar.INT32) - point for each, point in zip((first, second), zero_points, strict=True)
    ]
    return clamp(rescale(factors[0] * factors[1], multiplier) + zero_points[0], -128, 127).to(Scalar.INT8)


@sweep("target", RUNNABLE)
@sweep("zero_points", [(2, 5), (-128, 127), (0, -77)])
def test_products_of_all_bytes(target: Target, zero_points: tuple[int, int]) -> None:
    bodies = [
        lambda first, second, number=number: scaled_product(first, second, number, zero_points)
        for number in MULTIPLIERS
    ]
    for found, wanted in zip(computed(bodies, PAIRS, target), expected(bodies, PAIRS), strict=True):
        np.testing.assert_array_equal(found, wanted)


@sweep("target", RUNNABLE)
def test_products_that_are_not_clamped(target: Target) -> None:
    values = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
    bodies = [
        lambda x, op=op, number=number: _rescaled(x, op, number)
        for op in (Op.FIXED_POINT, Op.FIXED_POINT_UP)
        for number in MULTIPLIERS
    ]
    for found, wanted in zip(computed(bodies, [values], target), expected(bodies, [values]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def _rescaled(x: Expression, op: Op, multiplier: float) -> Expression:
    mantissa, exponent = (constant(each, Scalar.INT32) for each in quantize_multiplier(multiplier))
    return apply(op, x.to(Scalar.INT64), mantissa, exponent, type=Scalar.INT64).to(Scalar.INT32)


def test_what_floats_compute() -> None:
    """Clamped products of bytes unless many are ties, and others if they are exact."""
    values = [Value((256,), Scalar.INT8)] * 2
    for number in (0.05, 0.0806, 1 / 3, 0.9999, 1e-3):

        def body(first: Expression, second: Expression, number: float = number) -> Expression:
            return scaled_product(first, second, number, (2, 5))

        assert "sitofp" in render(kernel_of(body, values), TARGETS["avx512"]).text
        assert "sitofp" not in render(kernel_of(body, values), TARGETS["generic"]).text
    wide = _rescaled(constant(1, Scalar.INT32) + 0, Op.FIXED_POINT, 1.5)
    assert isinstance(wide, Apply)
    assert isinstance(wide.arguments[0], Apply)
    assert float_rescaling(wide.arguments[0]) is None

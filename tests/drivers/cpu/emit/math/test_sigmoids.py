import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiler.elementwise import computed
from support.cpu.native import RUNNABLE
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Apply, Expression, apply, index, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.math.sigmoids import gate, tanh_of_half, tanh_of_log
from neurald.drivers.cpu.target.target import Target

#: The functions, and the largest absolute errors of their sums with 1.
CURVES: dict[Op, tuple[Callable[..., Any], float]] = {
    Op.TANH: (np.tanh, 4e-7),
    Op.ERF: (np.vectorize(math.erf, otypes=[np.float64]), 4e-7),
}


def _risen(op: Op) -> Callable[[Expression], Expression]:
    return lambda value: apply(op, value) + 1.0


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_sums_of_curves_with_one(target: Target) -> None:
    ends = np.array([0.0, 4.0, 20.0, 88.0, 89.0, 3e38, math.inf])
    x = np.concatenate([np.linspace(-12, 12, 20_000), ends, -ends, [math.nan]]).astype(np.float32)
    found = computed([_risen(op) for op in CURVES], [x], target)
    for got, (function, limit) in zip(found, CURVES.values(), strict=True):
        exact = function(x.astype(np.float64)) + 1
        np.testing.assert_allclose(got, exact, rtol=0, atol=limit)
        # Activations multiply them with large numbers.
        np.testing.assert_array_equal(got[x >= 20], 2)
        np.testing.assert_allclose(got[x <= -44], 0, atol=1e-37)
    if target.has_fma and target.vector_bytes < 64:
        # The sum itself, which is faster with vectors of 64 bytes, would have no digit.
        is_low = (x > -12) & (x < -8)
        np.testing.assert_allclose(found[0][is_low], 2 / (1 + np.exp(-2.0 * x[is_low])), rtol=1e-6)


def _swish(x: Expression) -> Expression:
    return x * apply(Op.LOGISTIC, x * 1.702)


def _half_gelu(x: Expression) -> Expression:
    return x * 0.25 * (apply(Op.TANH, x * (x * x + 22.36386) * 0.035677408) + 1.0)


def _doubled_gelu(x: Expression) -> Expression:
    return x * (apply(Op.TANH, x * (x * x + 22.36386) * 0.035677408) + 1.0)


def _steep_step(x: Expression) -> Expression:
    return x * 0.5 * (apply(Op.TANH, x * 1e20) + 1.0)


def _written_gelu(x: Expression) -> Expression:
    return (1.0 + apply(Op.TANH, (x + x * x * x * 0.044715) * 0.7978846)) * (0.5 * x)


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_numbers_times_gates(target: Target) -> None:
    ends = np.array([0.0, 1e-40, 4.0, 20.0, 88.0, 89.0, 1e10, 3e38])
    x = np.concatenate([np.linspace(-12, 12, 20_000), ends, -ends, [math.nan, math.inf, -math.inf]]).astype(
        np.float32
    )
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        logistic = wide / (1 + np.exp(-1.702 * wide))
        curved = wide / (1 + np.exp(-2 * 0.7978845608 * (wide + 0.044715 * wide**3)))
        step = np.where(x > 0, wide, wide * 0)
    found = computed([_swish, _half_gelu, _written_gelu, _doubled_gelu, _steep_step], [x], target)
    for got, exact in zip(found, (logistic, curved / 2, curved, 2 * curved, step), strict=True):
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(got, exact.astype(np.float32), rtol=5e-7, atol=6e-7)
        is_zero = x == 0
        np.testing.assert_array_equal(np.signbit(got[is_zero]), np.signbit(x[is_zero]))


def test_gates_of_the_number_that_they_multiply() -> None:
    first, second = (load(Value((1,), Scalar.FLOAT32), (index(0),)) for _ in range(2))
    assert first is not second
    expected = {
        _swish(first): (first, 1.0, -1.0),
        _half_gelu(first): (first, 0.5, -2 * 0.035677408),
        _written_gelu(first): (first, 1.0, -2 * 0.7978846),
        first * -0.5 * (apply(Op.TANH, first * 32.0) + 1.0): (first, -1.0, -64.0),
    }
    for product, (number, multiple, factor) in expected.items():
        assert isinstance(product, Apply)
        found = gate(product)
        assert found is not None
        assert (found.number, found.multiple) == (number, multiple)
        assert found.factor == pytest.approx(factor)
    for other in (
        second * apply(Op.LOGISTIC, first),
        first * (apply(Op.ERF, first) + 1.0),
        first * 0.5 * (apply(Op.TANH, first * -2.0) + 1.0),
        first * 0.5 * (apply(Op.TANH, first * 1e20) + 1.0),
        first * 0.5 * (apply(Op.TANH, first * 1e-20) + 1.0),
        first * (apply(Op.TANH, first) + 1.0),
        first * math.nan * apply(Op.LOGISTIC, first),
        first * apply(Op.TANH, first),
        first + apply(Op.LOGISTIC, first),
        (first * apply(Op.LOGISTIC, first.to(Scalar.FLOAT64)).to(Scalar.FLOAT32)),
    ):
        assert isinstance(other, Apply)
        assert gate(other) is None


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_tangents_of_logarithms_of_sums_with_powers(target: Target) -> None:
    ends = np.array([0.0, 20.0, 88.0, 89.0, 3e38, math.inf])
    x = np.concatenate([np.linspace(-20, 100, 20_000), ends, -ends, [math.nan]]).astype(np.float32)
    one, half = computed(
        [
            lambda value: apply(Op.TANH, apply(Op.LOG, apply(Op.EXP, value) + 1.0)),
            lambda value: apply(Op.TANH, apply(Op.LOG, apply(Op.EXP, value) + 0.5)),
        ],
        [x],
        target,
    )
    with np.errstate(over="ignore"):
        power = np.exp(x.astype(np.float64))
    # The sum itself is rounded.
    for found, added in ((one, 1.0), (half, 0.5)):
        total = np.minimum(power + added, 1e100)
        np.testing.assert_allclose(found, (total**2 - 1) / (total**2 + 1), rtol=2e-6, atol=3e-7)
    np.testing.assert_array_equal(one[x > 20], 1)
    # Other tangents are computed as before.
    for each in (Op.EXP, Op.LOG):
        other = apply(Op.TANH, apply(each, load(Value((1,), Scalar.FLOAT32), (index(0),))))
        assert isinstance(other, Apply)
        assert tanh_of_log(other) is None


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_tangents_of_float16_are_rounded_as_exact_ones(target: Target) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    functions: list[Callable[[Expression], Expression]] = [
        lambda value: apply(Op.TANH, value),
        lambda value: apply(Op.TANH, value.to(Scalar.FLOAT32)).to(Scalar.FLOAT16),
    ]
    found, converted = computed(functions, [every], target)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, converted)
    with np.errstate(all="ignore"):
        exact = np.tanh(every.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(every))
    is_number = ~np.isnan(every)
    units = np.abs(found.view(np.int16).astype(int) - exact.view(np.int16))[is_number]
    # Without fused additions, a few are rounded to a neighbour.
    assert units.max() <= (0 if target.has_fma else 1)
    assert (units > 0).sum() < 20
    np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(every[is_number]))


def test_tangents_of_other_numbers_or_that_are_not_rounded() -> None:
    half, single = (load(Value((1,), kind), (index(0),)) for kind in (Scalar.FLOAT16, Scalar.FLOAT32))
    wide = apply(Op.TANH, half.to(Scalar.FLOAT32))
    rounded = apply(Op.TANH, single).to(Scalar.FLOAT16)
    for other in (wide, rounded, half.to(Scalar.FLOAT32)):
        assert isinstance(other, Apply)
        assert tanh_of_half(other) is None

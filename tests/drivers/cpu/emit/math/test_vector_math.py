import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiler.elementwise import computed
from support.cpu.native import RUNNABLE, Array
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, apply, minimum
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.target.target import Target

_Function = Callable[..., Any]

#: The reference of each function, and its maximum error in FLOAT32 units in the last place.
FUNCTIONS: dict[Op, tuple[_Function, float]] = {
    Op.EXP: (np.exp, 1.1),
    Op.EXPM1: (np.expm1, 1.8),
    Op.LOG: (np.log, 1.0),
    Op.LOG1P: (np.log1p, 1.6),
    Op.SIN: (np.sin, 1.8),
    Op.COS: (np.cos, 1.8),
    Op.TAN: (np.tan, 4.0),
    Op.TANH: (np.tanh, 2.7),
    Op.LOGISTIC: (lambda x: 1 / (1 + np.exp(-x)), 2.5),
    Op.ERF: (np.vectorize(math.erf, otypes=[np.float64]), 1.5),
    Op.RSQRT: (lambda x: 1 / np.sqrt(x), 1.5),
    Op.SQRT: (np.sqrt, 0.5),
}
TWO: dict[Op, tuple[_Function, float]] = {Op.ATAN2: (np.arctan2, 1.7), Op.POWER: (np.power, 0.6)}

_SMALL_AND_LARGE = (0.0, 1e-45, 1e-40, 2.0**-126, 1e-30, 1e30, 3e38, 2.0**24, 2.0**25, math.inf)
_ENDS = (0.5, 1.0, 2.0, 2.5, 3.0, 0.92, 0.99999994, 1.0000001, 9.0, 87.4, 88.7, 88.8, 103.9, 104.1)
EDGES = (*_SMALL_AND_LARGE, *_ENDS)
_RANDOM = np.random.default_rng(5)


def _samples(count: int) -> Array:
    """Returns floats of all magnitudes, most of them where the functions vary."""
    bits = _RANDOM.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    parts = [bits, *(_RANDOM.uniform(-size, size, count) for size in (1.5, 10, 120))]
    edges = np.array([*EDGES, math.nan])
    with np.errstate(invalid="ignore"):
        return np.concatenate([*parts, edges, -edges]).astype(np.float32)


def _assert_within(got: Array, exact: Array, limit: float) -> None:
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    is_finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~is_finite], rounded[~is_finite])
    unit = np.maximum(np.spacing(np.abs(rounded[is_finite])), np.float32(1e-45)).astype(np.float64)
    off = np.abs(got[is_finite].astype(np.float64) - exact[is_finite]) / unit
    assert np.all(off <= limit)


def _assert_keeps_zeros(got: Array, x: Array) -> None:
    is_zero = x == 0
    np.testing.assert_array_equal(got[is_zero], 0)
    np.testing.assert_array_equal(np.signbit(got[is_zero]), np.signbit(x[is_zero]))


def _of(op: Op) -> Callable[..., Expression]:
    return lambda *values: apply(op, *values)


def _expm1_below_zero(value: Expression) -> Expression:
    return apply(Op.EXPM1, minimum(value, 0.0))


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_errors_of_functions_of_one_float(target: Target) -> None:
    x = _samples(5000)
    with np.errstate(all="ignore"):
        for op, got in zip(FUNCTIONS, computed([_of(op) for op in FUNCTIONS], [x], target), strict=True):
            function, limit = FUNCTIONS[op]
            exact = function(x.astype(np.float64))
            if op in (Op.EXP, Op.LOGISTIC):
                is_tiny = exact < np.finfo(np.float32).tiny
                np.testing.assert_allclose(
                    got[is_tiny], exact[is_tiny], atol=float(np.finfo(np.float32).tiny)
                )
                got, exact = got[~is_tiny], exact[~is_tiny]
            _assert_within(got, exact, limit)


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_powers_less_one_of_numbers_that_are_not_positive(target: Target) -> None:
    x = _samples(5000)
    below = np.minimum(x, np.float32(0))
    functions = (_expm1_below_zero, lambda value: apply(Op.EXPM1, minimum(value, -1.0)))
    with np.errstate(all="ignore"):
        found, far = computed(functions, [x], target)
        _assert_within(found, np.expm1(below.astype(np.float64)), 1.1)
        _assert_within(far, np.expm1(np.minimum(x, np.float32(-1)).astype(np.float64)), 1.1)
    _assert_keeps_zeros(found, x)


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_tangents_are_odd_and_at_most_one(target: Target) -> None:
    x = np.concatenate([np.abs(_samples(5000)), np.linspace(8, 21, 5000, dtype=np.float32)])
    (found,) = computed([_of(Op.TANH)], [np.concatenate([x, -x])], target)
    above, below = np.split(found, 2)
    np.testing.assert_array_equal(above, -below)
    np.testing.assert_array_equal(np.signbit(above), np.signbit(x))
    assert np.nanmax(above) == 1


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_errors_of_functions_of_two_floats(target: Target) -> None:
    edges = np.array([*EDGES[:15], 1.5, math.nan])
    edges = np.concatenate([edges, -edges])
    x, y = (part.ravel() for part in np.meshgrid(edges, edges))
    x = np.concatenate([x, _RANDOM.uniform(0, 10, 5000), _RANDOM.uniform(-9, 9, 5000)]).astype(np.float32)
    y = np.concatenate([y, _RANDOM.uniform(-30, 30, 5000), _RANDOM.integers(-9, 9, 5000)]).astype(np.float32)
    with np.errstate(all="ignore"):
        for op, got in zip(TWO, computed([_of(op) for op in TWO], [x, y], target), strict=True):
            function, limit = TWO[op]
            exact = function(x.astype(np.float64), y.astype(np.float64))
            _assert_within(got, exact, limit)
            np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(exact[got == 0]))


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_doubles_are_computed_in_double_precision(target: Target) -> None:
    x = _samples(1000).astype(np.float64)
    x = np.concatenate([x, _RANDOM.uniform(-700, 700, 1000)])
    with np.errstate(all="ignore"):
        *found, below = computed([*(_of(op) for op in FUNCTIONS), _expm1_below_zero], [x], target)
        np.testing.assert_allclose(below, np.expm1(np.minimum(x, 0)), rtol=1e-13)
        _assert_keeps_zeros(below, x)
        for op, got in zip(FUNCTIONS, found, strict=True):
            is_near = np.abs(x) < (2.0**28 if op in (Op.SIN, Op.COS, Op.TAN) else math.inf)
            exact = FUNCTIONS[op][0](x[is_near])
            np.testing.assert_allclose(got[is_near], exact, rtol=1e-13, atol=1e-300)
            if op in (Op.EXPM1, Op.TANH):
                _assert_keeps_zeros(got, x)


def test_scalars_and_vectors_give_equal_results() -> None:
    for x in (0.3, -2.7, 40.0):
        single = np.array([x], np.float32)
        for op, got in zip(
            FUNCTIONS, computed([_of(op) for op in FUNCTIONS], [single], RUNNABLE[0]), strict=True
        ):
            with np.errstate(all="ignore"):
                _assert_within(got, FUNCTIONS[op][0](single.astype(np.float64)), FUNCTIONS[op][1])


@pytest.mark.parametrize("kind", ["int32", "int8", "uint8", "int64"])
def test_powers_of_integers_wrap_around(kind: str) -> None:
    base = _RANDOM.integers(-9 if kind.startswith("i") else 0, 9, 500).astype(kind)
    exponent = _RANDOM.integers(0, 30, 500).astype(kind)
    (got,) = computed([_of(Op.POWER)], [base, exponent], RUNNABLE[0])
    np.testing.assert_array_equal(got, np.power(base, exponent))

"""Float scales give the integers of the fixed-point reference for every sum, or none is found."""

from typing import Any

import numpy as np
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check, types_and_targets
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import constant
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.int8.epilogue.float_scale import FloatScale
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import Rescaling, find_rescaling
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multipliers
from neurald.hal.records import replace

Array = np.ndarray[Any, np.dtype[Any]]

_TARGET = TARGETS["avx512"]
_REACH = 3_000_000


def _rescaling(
    multipliers: Array, zero_point: int, low: int, *, is_by_sign: bool = True, is_once: bool = False
) -> Rescaling:
    mantissas, exponents = quantize_multipliers(multipliers)
    return Rescaling(
        expression=constant(0, Scalar.INT8),
        bias=np.zeros(len(multipliers), np.int64),
        mantissas=mantissas,
        shifts=-exponents,
        zero_point=zero_point,
        low=low,
        high=127,
        is_by_sign=is_by_sign,
        is_once=is_once,
    )


def _found(rescaling: Rescaling, reach: int = _REACH) -> FloatScale | None:
    return rescaling.with_floats(np.full(len(rescaling.mantissas), reach), _TARGET).floats


def _sums(rescaling: Rescaling, reach: int) -> Array:
    """Returns (sums, channels): sums around those where results change, and the largest ones."""
    multipliers = np.ldexp(rescaling.mantissas.astype(np.float64), -31 - rescaling.shifts)
    changes = (np.arange(-260, 260)[:, None] - 0.5) / np.maximum(multipliers, 1e-9)
    near = np.clip(np.rint(changes), -reach, reach).astype(np.int64)[:, None] + np.arange(-3, 4)[:, None]
    ends = np.array([-reach, -1, 0, 1, reach])[:, None] + np.zeros_like(near[0, :1])
    sums = np.concatenate((near.reshape(-1, near.shape[-1]), ends))
    return np.asarray(np.clip(sums, -reach, reach))


def _results(floats: FloatScale, rescaling: Rescaling, sums: Array) -> Array:
    """Computes what the instructions yield; long doubles hold the numbers before rounding."""
    moved = (sums + floats.moves).astype(np.float32)
    additions = (
        np.where(moved < 0, -floats.additions, floats.additions) if floats.is_signed else floats.additions
    )
    if floats.rests is not None:
        exact = moved.astype(np.longdouble) * floats.rests + additions
        additions = exact.astype(np.float32)
    numbers = moved.astype(np.longdouble) * floats.factors + additions
    whole = np.trunc(numbers) + rescaling.zero_point if floats.is_signed else np.floor(numbers)
    limited: np.ndarray = np.clip(whole, rescaling.low, rescaling.high)
    return limited.astype(np.int64)


def _check(rescaling: Rescaling, reach: int = _REACH) -> FloatScale:
    floats = _found(rescaling, reach)
    assert floats is not None
    sums = _sums(rescaling, reach)
    if rescaling.is_once:
        expected = (sums * rescaling.mantissas + (1 << (30 + rescaling.shifts))) >> (31 + rescaling.shifts)
    else:
        expected = multiply(sums, rescaling.mantissas, -rescaling.shifts, ties_up=not rescaling.is_by_sign)
    expected = np.clip(expected + rescaling.zero_point, rescaling.low, rescaling.high)
    np.testing.assert_array_equal(_results(floats, rescaling, sums), expected)
    return floats


@sweep("is_by_sign", [True, False])
@sweep(("zero_point", "low"), [(-128, -128), (0, 0), (7, -128), (-90, -100)])
def test_usual_multipliers(zero_point: int, low: int, *, is_by_sign: bool) -> None:
    multipliers = 0.004 * 0.5 ** np.random.default_rng(2).uniform(0, 1, 80)
    floats = _check(_rescaling(multipliers, zero_point, low, is_by_sign=is_by_sign))
    assert floats.is_signed == (is_by_sign and low < zero_point)


@sweep(("zero_point", "low"), [(-128, -128), (7, -128), (-90, -100)])
def test_products_that_are_rounded_once(zero_point: int, low: int) -> None:
    random = np.random.default_rng(3)
    multipliers = np.concatenate(
        (0.004 * 0.5 ** random.uniform(0, 1, 80), 0.5 ** np.arange(3, 10), [0.4, 0.999, 0.0])
    )
    rescaling = _rescaling(multipliers, zero_point, low, is_by_sign=False, is_once=True)
    assert not _check(rescaling).is_signed
    assert not rescaling.is_computable
    assert rescaling.with_floats(np.full(len(multipliers), _REACH), _TARGET).is_computable


def test_small_multipliers_need_error_terms() -> None:
    multipliers = 0.0004 * 0.5 ** np.random.default_rng(1).uniform(0, 1, 80)
    assert _check(_rescaling(multipliers, -128, -128)).rests is not None


def test_powers_of_two() -> None:
    """All results change at ties, which are rounded away from zero if `is_by_sign`."""
    multipliers = 0.5 ** np.arange(3, 10)
    _check(_rescaling(multipliers, -128, -128))
    assert _found(_rescaling(multipliers, 3, -128)) is None


def test_large_multipliers() -> None:
    _check(_rescaling(np.array([0.4, 0.77, 0.999]), 0, -128))
    _check(_rescaling(np.array([0.4, 0.77, 0.999]), -5, -128, is_by_sign=False))


@sweep("zero_point", [-128, 5])
def test_results_that_never_change(zero_point: int) -> None:
    """Checks channels without weights, and multipliers of zero."""
    _check(_rescaling(np.array([0.003, 1e-7, 0.0, 2e-6]), zero_point, -128), 20_000)


def test_no_floats() -> None:
    """Sums beyond the precision of floats, and targets without the instructions, have none."""
    rescaling = _rescaling(np.array([3e-7]), 3, -128)
    assert _found(rescaling, 1 << 30) is None
    rescaling = _rescaling(np.array([0.003]), 3, -128)
    assert rescaling.with_floats(np.array([99]), TARGETS["avx2"]).floats is None
    short = replace(rescaling, expression=constant(0, Scalar.INT16))
    assert short.with_floats(np.array([99]), _TARGET).floats is None


@sweep("target", [each for each in RUNNABLE if each.vector_bytes == 64], ids=lambda t: t.name)
@sweep("channels", [64, 40, 7])
@sweep("zero_point", [-128, 9])
@sweep("has_rests", [False, True])
def test_kernels(target: Target, channels: int, zero_point: int, *, has_rests: bool) -> None:
    sums = QuantizedSums(4, zeros=(3, 0))
    tail = sums.rescaled(per_channel=has_rests, zero_point=zero_point, low=-128, largest=0.02)
    case = sums.convolution((1, 5, 5, 24), (channels, 1, 1, 24), (1, 5, 5, channels), tail)
    rescaling = find_rescaling(flattened(case.kernel), channels)
    assert rescaling is not None
    floats = _found(rescaling, 500_000)
    assert floats is not None
    if channels == 40:
        assert (floats.rests is not None) == has_rests
    check(case, target, channels)


@types_and_targets
def test_a_range_of_one_value(seed: int, target: Target) -> None:
    """An activation may clamp every result to the zero point, the type's largest value."""
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights)
    high = int(np.iinfo(result.value).max)
    tail = sums.rescaled(type=result, zero_point=high, low=high)
    check(sums.convolution((1, 5, 6, 8), (17, 2, 2, 8), (1, 4, 5, 17), tail), target, seed)

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.operations.weighted_sums import multiplied, multiplier
from support.sweeps import sweep

from neurald.hal.operations.arithmetic import fixed_point
from neurald.hal.operations.arithmetic.fixed_point import (
    Requantization,
    Rounding,
    multiply,
    quantize_multiplier,
    quantize_multipliers,
)

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
EDGES = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    127,
    -128,
    1 << 30,
    -(1 << 30),
    INT32_MAX,
    INT32_MAX - 1,
    INT32_MIN,
    INT32_MIN + 1,
]


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(3)


def random_int32(generator: np.random.Generator, count: int) -> list[int]:
    """Returns random values of every magnitude."""
    return [int(generator.integers(-(1 << b), 1 << b)) for b in generator.integers(0, 32, count).tolist()]


@sweep(
    "real",
    [
        0.0,
        1.0,
        0.5,
        2.0,
        0.75,
        1e-3,
        1 / 3,
        3.14159,
        2.0**-31,
        2.0**-33,
        1e-30,
        2.0**30,
        2.0**29,
        1e12,
        1 - 2.0**-40,
    ],
)
def test_a_multiplier_is_the_nearest_mantissa(real: float) -> None:
    mantissa, exponent = quantize_multiplier(real)
    assert (mantissa, exponent) == multiplier(real)
    if 2.0**-32 <= real < 2.0**30:
        assert 1 << 30 <= mantissa < 1 << 31
        assert abs(Fraction(mantissa) * Fraction(2) ** (exponent - 31) - Fraction(real)) <= Fraction(real) / (
            1 << 31
        )


def test_a_mantissa_that_rounds_up_to_one_is_halved() -> None:
    assert quantize_multiplier(1 - 2.0**-40) == (1 << 30, 1)


def test_multipliers_of_an_array_are_those_of_its_elements(generator: np.random.Generator) -> None:
    reals = 2.0 ** generator.uniform(-40, 40, 300)
    mantissas, exponents = quantize_multipliers(reals)
    assert list(zip(mantissas.tolist(), exponents.tolist(), strict=True)) == [
        multiplier(r) for r in reals.tolist()
    ]


@pytest.mark.parametrize("exponent", [*range(-31, 4), 17, 30])
def test_products_equal_the_c_implementation(exponent: int, generator: np.random.Generator) -> None:
    values = [*EDGES, *random_int32(generator, 150)]
    for mantissa in (1 << 30, (1 << 31) - 1, 0, int(generator.integers(1 << 30, 1 << 31))):
        expected = [multiplied(v, mantissa, exponent) for v in values]
        assert multiply(np.array(values), mantissa, exponent).tolist() == expected


@sweep("shift", [2, 3, 5, 14, 20])
def test_ties_are_rounded_away_from_zero(shift: int) -> None:
    """With the multiplier 2^-shift, products lie exactly between two integers."""
    odd = np.arange(-9, 10, 2)
    values = odd << (shift - 1)
    away = [int(math.copysign((abs(v) + 1) // 2, v)) for v in odd.tolist()]
    assert multiply(values, *quantize_multiplier(2.0**-shift)).tolist() == away
    assert [multiplied(v, *multiplier(2.0**-shift)) for v in values.tolist()] == away


def test_the_first_rounding_rounds_ties_upwards() -> None:
    """Before the shift, -1.5 becomes -1 and 1.5 becomes 2."""
    assert multiply(np.array([-3, -1, 1, 3]), 1 << 30, 0).tolist() == [-1, 0, 1, 2]


def test_a_left_shift_saturates() -> None:
    values = np.array([INT32_MIN, -5, 5, INT32_MAX])
    largest = (1 << 31) - 1
    assert multiply(values, largest, 30).tolist() == [-largest, -largest, largest - 1, largest - 1]


@sweep("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_inputs_of_any_integer_type_are_not_modified(dtype: type[np.integer]) -> None:
    values = np.array([[0, 1, 100], [7, 50, 127]], dtype)
    kept = values.copy()
    result = multiply(values, *quantize_multiplier(0.3))
    assert result.dtype == np.int64
    assert result.tolist() == [[multiplied(v, *multiplier(0.3)) for v in row] for row in kept.tolist()]
    np.testing.assert_array_equal(values, kept)


@sweep("shape", [(), (0,), (3, 0), (0, 3), (2, 2, 3)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert (
        multiply(np.ones(shape, np.int32), *quantize_multiplier(7.0)).tolist() == np.full(shape, 7).tolist()
    )


def test_a_multiplier_per_channel(generator: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed_point, "_CHUNK", 16)
    reals = 2.0 ** generator.uniform(-33, 4, 7)
    values = np.array(random_int32(generator, 5 * 3 * 7)).reshape(5, 3, 7)
    expected = np.empty(values.shape, np.int64)
    for index in np.ndindex(values.shape):
        expected[index] = multiplied(int(values[index]), *multiplier(reals[index[2]].item()))
    np.testing.assert_array_equal(multiply(values, *quantize_multipliers(reals)), expected)


#: Zero point, low, high and type of outputs, with and without a fused activation.
OUTPUTS = [
    (0, 0, 255, np.uint8),
    (128, 0, 255, np.uint8),
    (128, 128, 255, np.uint8),
    (255, 100, 255, np.uint8),
    (-128, -128, 127, np.int8),
    (3, 3, 9, np.int8),
    (127, -128, 127, np.int8),
    (-5, -7, 12, np.int8),
    (0, -32768, 32767, np.int16),
    (40000, 0, 65535, np.uint16),
]


@pytest.mark.parametrize(("zero_point", "low", "high", "dtype"), OUTPUTS)
@pytest.mark.parametrize("sums_dtype", [np.float32, np.float64, np.int32])
def test_requantization_multiplies_clamps_and_casts(
    zero_point: int,
    low: int,
    high: int,
    dtype: type[np.integer],
    sums_dtype: type[np.number],
    generator: np.random.Generator,
) -> None:
    exponents = np.arange(-33.0, 3.0)
    reals = 2.0 ** (exponents + generator.uniform(0, 1, len(exponents)))
    reals[::5] = 2.0 ** exponents[::5]
    reals[7] = 0.0
    bias = generator.integers(-3000, 3000, len(reals))
    # Sums with results in the output's range, where every rounding matters, and far outside.
    spread = np.minimum(2.0**23, 1.2 * (high - low) / np.maximum(reals, 1e-9))
    sums = np.rint(generator.uniform(-1, 1, (200, len(reals))) * spread)
    sums[:3] = (np.array([-(1 << 23), 0, 1 << 23]))[:, None]
    out = np.empty(sums.shape, dtype)
    requantize = Requantization(
        multipliers=reals, bias=bias, zero_point=zero_point, low=low, high=high, dtype=out.dtype
    )
    requantize(sums.astype(sums_dtype), out)
    products = multiply(sums.astype(np.int64) + bias, *quantize_multipliers(reals))
    np.testing.assert_array_equal(out, np.clip(products + zero_point, low, high))


@sweep("shift", range(1, 22))
@sweep("zero_point", [0, 130])
def test_requantization_rounds_ties_like_multiply(shift: int, zero_point: int) -> None:
    """Sums are one below, at and one above every boundary between quantised values."""
    boundaries = (2 * np.arange(-300, 301) + 1) << (shift - 1)
    sums = np.concatenate([boundaries - 1, boundaries, boundaries + 1])[:, None]
    for real in (2.0**-shift, 2.0**-shift * (1 - 2.0**-31), 2.0**-shift * (1 + 2.0**-30)):
        out = np.empty(sums.shape, np.uint8)
        Requantization(
            multipliers=np.array([real]),
            bias=np.zeros(1, np.int32),
            zero_point=zero_point,
            low=0,
            high=255,
            dtype=out.dtype,
        )(sums.astype(np.float64), out)
        products = [multiplied(v, *multiplier(real)) + zero_point for v in sums[:, 0].tolist()]
        assert out[:, 0].tolist() == np.clip(products, 0, 255).tolist()


@sweep(
    ("value", "mantissa", "exponent"),
    [
        (8962949, 1581990579, -15),
        (9416577, 1797222271, -15),
        (21674223, 1587614690, -16),
        (40943025, 1234025997, -17),
        (153327513, 1097794073, -19),
        (460256293, 1157074141, -20),
        (1257591801, 1554210385, -23),
    ],
)
def test_requantization_where_float64_is_not_exact(value: int, mantissa: int, exponent: int) -> None:
    """The sum is below a boundary between quantised values by less than float64 can represent."""
    scale = mantissa * 2.0 ** (exponent - 31)
    expected = multiplied(value, mantissa, exponent)
    out = np.empty((2, 2), np.uint8)
    Requantization(
        multipliers=np.array([2.0**-8, scale]),
        bias=np.array([0, 1]),
        zero_point=0,
        low=0,
        high=255,
        dtype=out.dtype,
    )(np.array([[512, value - 1], [-512, 0]], np.float64), out)
    assert math.floor(value * scale + 0.5 + 2.0 ** (exponent - 1)) == expected + 1
    assert out.tolist() == [[2, expected], [0, 0]]


@pytest.mark.parametrize("channels", [1, 3, 64, 5000, 40_000])
@pytest.mark.parametrize("rows", [0, 1, 13, 700])
def test_requantization_of_any_size(channels: int, rows: int, generator: np.random.Generator) -> None:
    rows = min(rows, 200_000 // channels)
    sums = generator.integers(-(1 << 20), 1 << 20, (rows, channels))
    bias = generator.integers(-(1 << 31), 1 << 31, channels)
    reals = generator.uniform(1e-4, 2e-4, channels)
    out = np.empty(sums.shape, np.int8)
    Requantization(multipliers=reals, bias=bias, zero_point=-3, low=-128, high=127, dtype=out.dtype)(
        sums.astype(np.float32), out
    )
    products = multiply(sums + bias, *quantize_multipliers(reals))
    np.testing.assert_array_equal(out, np.clip(products - 3, -128, 127))


def test_one_multiplier_serves_all_channels() -> None:
    out = np.empty((1, 3), np.uint8)
    Requantization(
        multipliers=np.array([0.5]), bias=np.array([0, 1, 2]), zero_point=10, low=0, high=255, dtype=out.dtype
    )(np.array([[4, 4, 4]], np.float32), out)
    assert out.tolist() == [[12, 13, 13]]


def rounded_once(value: int, mantissa: int, exponent: int) -> int:
    """Computes the product, rounded to nearest, ties upwards."""
    return math.floor(Fraction(value * mantissa) * Fraction(2) ** (exponent - 31) + Fraction(1, 2))


def rounded_once_away(value: int, mantissa: int, exponent: int) -> int:
    """Computes the product, rounded to nearest, ties away from zero."""
    return rounded_once(abs(value), mantissa, exponent) * (-1 if value < 0 else 1)


def rounded_short(value: int, mantissa: int, exponent: int) -> int:
    """Computes the product with the upper half of the mantissa."""
    upper = (mantissa + (1 << 15)) >> 16 if mantissa < 0x7FFF_0000 else 0x7FFF
    return rounded_once(value, upper << 16, exponent)


def rounded_twice_up(value: int, mantissa: int, exponent: int) -> int:
    """Rounds when the high half is taken, and again in the shift, ties always upwards."""
    shifted = min(max(value << max(exponent, 0), -(1 << 31)), (1 << 31) - 1)
    high = rounded_once(shifted, mantissa, 0)
    return math.floor(Fraction(high) * Fraction(2) ** min(exponent, 0) + Fraction(1, 2))


ROUNDINGS = [
    (Rounding.ONCE, rounded_once),
    (Rounding.ONCE_AWAY, rounded_once_away),
    (Rounding.SHORT, rounded_short),
    (Rounding.TWICE_UP, rounded_twice_up),
]


@pytest.mark.parametrize(("rounding", "oracle"), ROUNDINGS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("bits", range(2, 47, 4))
def test_other_roundings(
    generator: np.random.Generator,
    rounding: Rounding,
    oracle: Callable[[int, int, int], int],
    dtype: str,
    bits: int,
) -> None:
    """Some multipliers bring sums of `bits` bits to the output's range, others do not."""
    if rounding is Rounding.TWICE_UP:
        bits = min(bits, 30)  # Only sums of 32 bits are rounded twice.
    limits, zero_point = np.iinfo(dtype), 3
    sums = generator.integers(-(1 << bits), (1 << bits) + 1, (40, 6))
    reals = 2.0 ** (generator.uniform(-4, 3, 6) + limits.bits - bits)
    bias = generator.integers(-1000, 1000, 6)
    out = np.empty(sums.shape, dtype)
    Requantization(
        multipliers=reals,
        bias=bias,
        zero_point=zero_point,
        low=int(limits.min),
        high=int(limits.max),
        dtype=out.dtype,
        rounding=rounding,
    )(sums, out)
    for channel, real in enumerate(reals.tolist()):
        products = [oracle(v, *multiplier(real)) for v in (sums[:, channel] + bias[channel]).tolist()]
        expected = np.clip(np.array(products, object) + zero_point, int(limits.min), int(limits.max))
        assert out[:, channel].tolist() == expected.tolist()


@sweep("shift", [1, 8, 20, 30])
@sweep(
    ("rounding", "expected"),
    [(Rounding.ONCE, [-1, 0, 1, 2]), (Rounding.ONCE_AWAY, [-2, -1, 1, 2])],
)
def test_ties_of_a_single_rounding(shift: int, rounding: Rounding, expected: list[int]) -> None:
    sums = np.array([[-3], [-1], [1], [3]]) << (shift - 1)
    out = np.empty(sums.shape, np.int8)
    Requantization(
        multipliers=np.array([2.0**-shift]),
        bias=np.zeros(1, np.int32),
        zero_point=0,
        low=-128,
        high=127,
        dtype=out.dtype,
        rounding=rounding,
    )(sums.astype(np.float64), out)
    assert out[:, 0].tolist() == expected

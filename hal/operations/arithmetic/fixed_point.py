"""The fixed-point arithmetic of quantised operations, as defined by TFLite and Android NN.

A real multiplier is represented by a 31-bit integer and a power of two. Products are rounded twice:
to nearest when the high half is taken, and away from zero when it is shifted
(`MultiplyByQuantizedMultiplier` of TFLite's reference kernels).

Both roundings are floors after an addition, and nested floors collapse, so for an exponent -r < 0
the result is

    floor((value × mantissa + 2^30 + 2^(30 + r) - (2^31 if value < 0)) / 2^(31 + r)),

and floor((value × mantissa + 2^30) / 2^31) without a right shift.
"""

import math
from enum import Enum

import numpy as np

from neurald.hal.operations.machinery.call import Array

#: Elements per chunk, so that intermediate results stay in the cache.
_CHUNK = 1 << 15
#: Channel parameters are repeated up to about this many elements: NumPy is slow on short rows.
_ROW = 1 << 13
#: Bits of a float64 significand.
_SIGNIFICAND = 53
#: The largest bias that is added to sums of products, which have fewer than 48 bits.
MAX_BIAS = 1 << 50


def quantize_multipliers(reals: Array) -> tuple[Array, Array]:
    """Converts non-negative `reals` to (mantissas, exponents), both int64.

    See `quantize_multiplier`.
    """
    fractions, exponents = np.frexp(np.asarray(reals, np.float64))
    mantissas = np.floor(fractions * (1 << 31) + 0.5).astype(np.int64)
    exponents = exponents.astype(np.int64) + (mantissas >> 31)
    mantissas >>= mantissas >> 31
    tiny, huge = exponents < -31, exponents > 30
    mantissas = np.where(tiny, 0, np.where(huge, (1 << 31) - 1, mantissas))
    return mantissas, np.where(tiny, 0, np.minimum(exponents, 30))


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Converts `real` to (mantissa, exponent): real ≈ mantissa × 2^(exponent - 31).

    The mantissa is in [2^30, 2^31). Too small values become 0, too large ones the largest
    multiplier.
    """
    if not math.isfinite(real):
        mantissas, exponents = quantize_multipliers(np.array([real]))
        return int(mantissas[0]), int(exponents[0])
    # As in `quantize_multipliers`, without NumPy, which takes far longer for one number.
    fraction, exponent = math.frexp(real)
    mantissa = math.floor(fraction * (1 << 31) + 0.5)
    if mantissa >> 31:
        mantissa, exponent = mantissa >> 1, exponent + 1
    if exponent < -31:
        return 0, 0
    return (mantissa, exponent) if exponent <= 30 else ((1 << 31) - 1, 30)


def single_ratio(first: float, second: float, divisor: float) -> float:
    """Computes first × second / divisor in float32, as TFLite does before quantising the ratio.

    A float64 product differs by a relative error of up to 2^-24, which is enough to change 16-bit
    quantised values by one.

    Returns:
        A finite number: extreme float32 scales give the largest one, or 0.
    """
    with np.errstate(all="ignore"):
        ratio = np.float32(first) * np.float32(second) / np.float32(divisor)
    # NumPy takes far longer for that than for the ratio.
    return float(ratio) if math.isfinite(ratio) else float(np.nan_to_num(ratio))


def short_mantissas(mantissas: Array) -> Array:
    """Rounds mantissas to their upper 16 bits, for `Rounding.SHORT`."""
    short: Array = np.minimum((mantissas + (1 << 15)) >> 16, (1 << 15) - 1) << 16
    return short


def multiply(values: Array, mantissa: Array | int, exponent: Array | int, *, ties_up: bool = False) -> Array:
    """Computes `values` × mantissa × 2^(exponent - 31), rounded as described above.

    Args:
        values: int32 range, any integer type. A left shift by a positive exponent saturates to
            int32.
        mantissa, exponent: the mantissa and exponent from `quantize_multiplier`; arrays have one
            per index of the last axis.
        ties_up: round ties upwards in the shift, not away from zero.

    Returns:
        int64 of the shape of `values`.
    """
    values = np.asarray(values)
    mantissa, exponent = np.asarray(mantissa, np.int64), np.asarray(exponent, np.int64)
    left, right = np.maximum(exponent, 0), np.maximum(-exponent, 0)
    nudge = np.where(right, (1 << 30) + (np.int64(1 << 30) << right), 1 << 30)
    below_zero = np.where(right, 0 if ties_up else -1 << 31, 0)
    channels = values.shape[-1] if mantissa.ndim or exponent.ndim else 1
    products = values.astype(np.int64, order="C")
    rows = products.reshape(products.size // max(1, channels), channels)
    step = max(1, _CHUNK // max(1, channels))
    for start in range(0, len(rows), step):
        product = rows[start : start + step]
        if left.any():
            product <<= left
            np.clip(product, -1 << 31, (1 << 31) - 1, out=product)
        product *= mantissa
        product += nudge + (below_zero & (product >> 63))
        product >>= 31 + right
    return products


def saturate32(values: Array) -> Array:
    """Limits numbers to those of 32 bits."""
    return np.clip(values, -1 << 31, (1 << 31) - 1)


def _multiply_once(values: Array, mantissa: Array, exponent: Array) -> Array:
    """Computes `values` × mantissa × 2^(exponent - 31), rounded to nearest, ties upwards.

    Args:
        values: int64, below 2^47.
        mantissa, exponent: the mantissa and exponent from `quantize_multipliers`, exponents below
            16; one per index of the last axis.
    """
    # Split at 16 bits, because a product may have more than 63 bits.
    low = (values & 0xFFFF) * mantissa + (np.int64(1) << (30 - exponent))
    products: Array = ((values >> 16) * mantissa + (low >> 16)) >> (15 - exponent)
    return products


class Rounding(Enum):
    """Rounding of a product with a quantised multiplier."""

    #: Rounds to nearest, and again in the shift: see the module's docstring.
    TWICE = 0
    #: Like TWICE, with ties always upwards.
    TWICE_UP = 3
    #: Rounds once to nearest, ties upwards.
    ONCE = 1
    #: Like ONCE, with ties away from zero.
    ONCE_AWAY = 4
    #: Like ONCE, with the multiplier rounded to its upper 16 bits.
    SHORT = 2

    @property
    def is_twice(self) -> bool:
        """True if products are rounded twice."""
        return self in (Rounding.TWICE, Rounding.TWICE_UP)

    @property
    def bits(self) -> int:
        """The bits, besides the sign, of sums that are multiplied; longer ones are clamped."""
        return 31 if self.is_twice else 47


def clamped_bias(bias: Array) -> Array:
    """Returns a bias as INT64, limited to `MAX_BIAS`: sums are clamped to fewer bits anyway."""
    wide = bias if bias.dtype.kind == "f" else bias.astype(np.int64)
    clamped: Array = np.clip(wide, -MAX_BIAS, MAX_BIAS).astype(np.int64)
    return clamped


class Requantization:
    """Converts sums of products to quantised values.

    Adds a bias, clamps sums to the range of the rounding, multiplies, adds the zero point, clamps.

    Gives the same results as `multiply`, but in float64 where that is exact: a product within the
    range is a multiple of 2^-(31 + r) below 2^bits, which float64 represents if bits + 31 + r ≤ 53.

    Args:
        multipliers: real multipliers, one per channel or one for all.
        bias: one per channel; at least one.
        zero_point: the zero point of the output.
        low, high: the least and the largest result; others are clamped to them. `dtype` can
            represent both.
        dtype: the data type of the output, an integer type of at most 16 bits.
        rounding: the rounding of the products.
    """

    def __init__(
        self,
        *,
        multipliers: Array,
        bias: Array,
        zero_point: int,
        low: int,
        high: int,
        dtype: "np.dtype[np.generic]",
        rounding: Rounding = Rounding.TWICE,
    ) -> None:
        channels = len(bias)
        mantissas, exponents = (
            np.broadcast_to(part, channels) for part in quantize_multipliers(np.atleast_1d(multipliers))
        )
        if rounding is Rounding.SHORT:
            mantissas = short_mantissas(mantissas)
        self._rounding = rounding
        self._mantissas, self._exponents = mantissas, exponents
        self._bias, reach = clamped_bias(bias), 1 << rounding.bits
        self._range = -reach, reach - 1
        self._is_long = bool((np.abs(self._bias) >= reach // 2).any())
        self._zero_point, self._low, self._high = zero_point, low, high
        bits = max(abs(low - zero_point), abs(high - zero_point)).bit_length()
        fraction = 15 if rounding is Rounding.SHORT else 31
        self._inexact = np.flatnonzero(exponents < fraction + bits - _SIGNIFICAND)
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        # Values below zero would round differently, unless all of them are clamped.
        self._by_sign = rounding is Rounding.TWICE and low < zero_point
        self._is_away = rounding is Rounding.ONCE_AWAY
        half_units = np.where(rounding.is_twice & (exponents < 0), np.ldexp(0.5, exponents), 0.0)
        first = 0.0 if self._is_away else 0.5
        offsets = np.full(channels, first + zero_point - low) + (0.0 if self._by_sign else half_units)
        scales = np.ldexp(mantissas.astype(np.float64), exponents - 31)
        # Rows of parameters: bias, scale, half of the second rounding, offset.
        self._rows = np.tile(np.stack((self._bias, scales, half_units, offsets)), max(1, _ROW // channels))

    def __call__(self, sums: Array, out: Array) -> None:
        """Writes the results to `out`.

        Args:
            sums: integers of any type that represents them exactly, shape (n, channels),
                contiguous.
            out: a contiguous array of the same shape and of the output's type.
        """
        flat, results = sums.reshape(-1), out.reshape(-1).view(self._unsigned)
        width = self._rows.shape[1]
        step = max(1, _CHUNK // width) * width
        buffer = np.empty(min(step, flat.size))
        is_cut = self._is_long or sums.dtype.itemsize > np.int32().itemsize
        whole = flat.size - flat.size % width
        for start in range(0, whole, step):
            stop = min(start + step, whole)
            self._fill(flat[start:stop], results[start:stop], buffer, width, is_cut=is_cut)
        if whole < flat.size:
            self._fill(flat[whole:], results[whole:], buffer, flat.size - whole, is_cut=is_cut)
        if self._inexact.size:
            self._refill(sums, out)

    def _fill(self, sums: Array, results: Array, buffer: Array, width: int, *, is_cut: bool) -> None:
        """Computes `results` from `sums`, both flat, `width` elements per row.

        Sums with their bias are clamped if `is_cut`.
        """
        bias, scale, half, offset = self._rows[:, :width]
        reals = buffer[: sums.size].reshape(-1, width)
        reals[...] = sums.reshape(-1, width)
        reals += bias
        if is_cut:
            np.clip(reals, *self._range, out=reals)
        reals *= scale
        if self._by_sign:
            reals += np.copysign(half, reals)
        elif self._is_away:
            reals += np.copysign(0.5, reals)
            np.trunc(reals, out=reals)
        reals += offset
        # Relative to `low` nothing is negative, so the cast is a floor.
        np.clip(reals, 0, self._high - self._low, out=reals)
        results[...] = reals.reshape(-1)
        results += self._unsigned.type(self._low % (1 << 8 * self._unsigned.itemsize))

    def _refill(self, sums: Array, out: Array) -> None:
        """Recomputes the channels whose products are not exact in float64."""
        where = self._inexact
        values = np.clip(sums[:, where].astype(np.int64) + self._bias[where], *self._range)
        factors = self._mantissas[where], self._exponents[where]
        if self._rounding.is_twice:
            products = multiply(values, *factors, ties_up=self._rounding is Rounding.TWICE_UP)
        elif self._is_away:
            products = np.copysign(1, values).astype(np.int64) * _multiply_once(np.abs(values), *factors)
        else:
            products = _multiply_once(values, *factors)
        products += self._zero_point
        out[:, where] = np.clip(products, self._low, self._high)


def scale_multiplier(first: float, second: float, result: float) -> tuple[int, int]:
    """Returns the multiplier from the product of two scales to a third."""
    return quantize_multiplier(single_ratio(first, second, result))

"""The fixed-point arithmetic of quantised operations, as TFLite and Android NN define it.

A real multiplier is a 31-bit integer and a power of two. Products are rounded twice: to the nearest when the high half
is taken, and away from zero when it is shifted (`MultiplyByQuantizedMultiplier` of TFLite's reference kernels).

Both roundings are floors after an addition, and nested floors collapse, so for an exponent -r < 0 the result is

    floor((value × mantissa + 2^30 + 2^(30 + r) - (2^31 if value < 0)) / 2^(31 + r)),

and floor((value × mantissa + 2^30) / 2^31) where nothing is shifted right.
"""

from enum import Enum

import numpy as np

from neurald.hal.operations.machinery.call import Array

#: Elements computed at a time, so that intermediate results stay in the cache.
_CHUNK = 1 << 15
#: Parameters of channels are repeated up to about so many elements, because NumPy is slow on short rows.
_ROW = 1 << 13
#: Bits of a float64 significand.
_SIGNIFICAND = 53


def quantize_multipliers(reals: Array) -> tuple[Array, Array]:
    """`reals`, none negative, as (mantissas, exponents): see `quantize_multiplier`. Both are int64."""
    fractions, exponents = np.frexp(np.asarray(reals, np.float64))
    mantissas = np.floor(fractions * (1 << 31) + 0.5).astype(np.int64)
    exponents = exponents.astype(np.int64) + (mantissas >> 31)
    mantissas >>= mantissas >> 31
    tiny, huge = exponents < -31, exponents > 30
    mantissas = np.where(tiny, 0, np.where(huge, (1 << 31) - 1, mantissas))
    return mantissas, np.where(tiny, 0, np.minimum(exponents, 30))


def quantize_multiplier(real: float) -> tuple[int, int]:
    """`real` as (mantissa, exponent): real ≈ mantissa × 2^(exponent - 31), the mantissa in [2^30, 2^31).

    What is too small becomes 0, what is too large becomes the largest multiplier.
    """
    mantissas, exponents = quantize_multipliers(np.array([real]))
    return int(mantissas[0]), int(exponents[0])


def single_ratio(first: float, second: float, divisor: float) -> float:
    """Works out the product of two scales over a third in float32, as TFLite does before it quantises the ratio.

    A float64 product differs by up to 2^-24 of it, which is enough to move stored values of 16 bits by one.

    Returns:
        A finite number: scales at the ends of float32 give the largest one, or 0.
    """
    with np.errstate(all="ignore"):
        ratio = np.float32(first) * np.float32(second) / np.float32(divisor)
    return float(np.nan_to_num(ratio))


def short_mantissas(mantissas: Array) -> Array:
    """Mantissas of which only the upper 16 bits are kept, rounded: those of `Rounding.SHORT`."""
    short: Array = np.minimum((mantissas + (1 << 15)) >> 16, (1 << 15) - 1) << 16
    return short


def multiply(values: Array, mantissa: Array | int, exponent: Array | int, *, ties_up: bool = False) -> Array:
    """`values` × mantissa × 2^(exponent - 31), rounded as described above.

    Args:
        values: int32 range, any integer type. Shifted left by a positive exponent they saturate at int32's ends.
        mantissa, exponent: from `quantize_multiplier`; arrays are one for each index of the last axis.
        ties_up: round upwards, not away from zero, when it is shifted.

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


def _multiply_once(values: Array, mantissa: Array, exponent: Array) -> Array:
    """`values` × mantissa × 2^(exponent - 31), rounded to the nearest, ties upwards.

    Args:
        values: int64, below 2^47.
        mantissa, exponent: from `quantize_multipliers`, exponents below 16; one for each index of the last axis.
    """
    # In halves of 16 bits, since a product may have more than 63.
    low = (values & 0xFFFF) * mantissa + (np.int64(1) << (30 - exponent))
    products: Array = ((values >> 16) * mantissa + (low >> 16)) >> (15 - exponent)
    return products


class Rounding(Enum):
    """How a product with a quantised multiplier is rounded."""

    #: To the nearest, and again when it is shifted: see the module's text.
    TWICE = 0
    #: The same, but ties always upwards.
    TWICE_UP = 3
    #: To the nearest, ties upwards.
    ONCE = 1
    #: The same, with a multiplier of which only the upper 16 bits are kept.
    SHORT = 2


class Requantization:
    """Turns sums of products into stored values: adds a bias, multiplies, adds the zero point, cuts to a range.

    Gives what `multiply` gives, but in float64 where that is exact: a product that the range does not cut off is
    a multiple of 2^-(31 + r) below 2^bits, which a float64 holds if bits + 31 + r ≤ 53.

    Args:
        multipliers: real multipliers, one for each channel or one for all.
        bias: int32 range, one for each channel, of which there is at least one.
        zero_point, low, high: of the output; results are cut to `low` to `high`, which `dtype` holds.
        dtype: of the output, an integer of at most 16 bits.
        rounding: of the products.
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
        is_twice = rounding in (Rounding.TWICE, Rounding.TWICE_UP)
        self._mantissas, self._exponents = mantissas, exponents
        self._bias = bias.astype(np.int64)
        self._zero_point, self._low, self._high = zero_point, low, high
        bits = max(abs(low - zero_point), abs(high - zero_point)).bit_length()
        fraction = 15 if rounding is Rounding.SHORT else 31
        self._inexact = np.flatnonzero(exponents < fraction + bits - _SIGNIFICAND)
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        # What is below zero would be rounded otherwise, unless all of that is cut off.
        self._by_sign = rounding is Rounding.TWICE and low < zero_point
        halves = np.where(is_twice & (exponents < 0), np.ldexp(0.5, exponents), 0.0)
        offsets = np.full(channels, 0.5 + zero_point - low) + (0.0 if self._by_sign else halves)
        scales = np.ldexp(mantissas.astype(np.float64), exponents - 31)
        # Rows of parameters: bias, scale, half of the second rounding, offset.
        self._rows = np.tile(np.stack((self._bias, scales, halves, offsets)), max(1, _ROW // channels))

    def __call__(self, sums: Array, out: Array) -> None:
        """Writes the results to `out`.

        Args:
            sums: integers of any type that holds them exactly, shape (n, channels), contiguous.
            out: of the same shape, of the output's type, contiguous.
        """
        flat, stored = sums.reshape(-1), out.reshape(-1).view(self._unsigned)
        width = self._rows.shape[1]
        step = max(1, _CHUNK // width) * width
        buffer = np.empty(min(step, flat.size))
        whole = flat.size - flat.size % width
        for start in range(0, whole, step):
            stop = min(start + step, whole)
            self._fill(flat[start:stop], stored[start:stop], buffer, width)
        if whole < flat.size:
            self._fill(flat[whole:], stored[whole:], buffer, flat.size - whole)
        if self._inexact.size:
            self._refill(sums, out)

    def _fill(self, sums: Array, stored: Array, buffer: Array, width: int) -> None:
        """`stored` from `sums`, both flat, `width` elements a row."""
        bias, scale, half, offset = self._rows[:, :width]
        reals = buffer[: sums.size].reshape(-1, width)
        reals[...] = sums.reshape(-1, width)
        reals += bias
        reals *= scale
        if self._by_sign:
            reals += np.copysign(half, reals)
        reals += offset
        # Counted from `low`, nothing is negative, and the cast is a floor.
        np.clip(reals, 0, self._high - self._low, out=reals)
        stored[...] = reals.reshape(-1)
        stored += self._unsigned.type(self._low % (1 << 8 * self._unsigned.itemsize))

    def _refill(self, sums: Array, out: Array) -> None:
        """Writes the channels whose products float64 does not hold."""
        where = self._inexact
        values = sums[:, where].astype(np.int64) + self._bias[where]
        factors = self._mantissas[where], self._exponents[where]
        if self._rounding in (Rounding.TWICE, Rounding.TWICE_UP):
            products = multiply(values, *factors, ties_up=self._rounding is Rounding.TWICE_UP)
        else:
            products = _multiply_once(values, *factors)
        products += self._zero_point
        out[:, where] = np.clip(products, self._low, self._high)

"""Piecewise polynomial approximation, for processors with table lookups in registers."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.emit.math.float_tables import looked_up
from neurald.drivers.cpu.emit.math.floats import Floats

#: Number of floats next to a part's middle that are tried as its centre.
_TRIED = 400
#: Terms are rounded to multiples of this part of the largest value in a part of the range.
_ROUNDING = 2.0**-30


class PiecewisePolynomial(Struct, frozen=True, kw_only=True):
    """A function from 0 to an end; see `pieces`.

    With r = a - centre, the function is start + r·(a polynomial of r). Each table has an entry per
    part. In the first part, centre and start are 0, and the polynomial is that of the function less
    a·slope.

    Attributes:
        parts_per_one: number of parts between 0 and 1.
        centres: close to the middles of parts, where the function is almost a float.
        starts: that float.
        slope: an integer, which leaves little to the polynomial where the function is small.
        coefficients: the coefficients of each power of r, the lowest first.
    """

    parts_per_one: float
    centres: tuple[float, ...]
    starts: tuple[float, ...]
    slope: float
    coefficients: tuple[tuple[float, ...], ...]


def pieces(function: Callable[[float], float], end: float, count: int, terms: int) -> PiecewisePolynomial:
    """Approximates a smooth function that is 0 at 0.

    Args:
        function: accurate to many more digits than a float.
        end: end of the range.
        count: number of parts, a power of two.
        terms: number of terms of the polynomial.
    """
    # The end is in the last part, however it is rounded.
    step = end / (count - 0.51)
    centres = [_centre(function, part * step) if part else 0.0 for part in range(count)]
    starts = [float(np.float32(function(centre))) for centre in centres]
    slope = float(np.rint(function(step) / step))
    # Fits Chebyshev points, which are dense at the ends of a part and none of which is its centre.
    # The range is slightly wider than the part, since rounding may assign a number to a neighbour.
    angles = np.pi * (np.arange(2 * terms) + 0.5) / (2 * terms)
    points = 0.501 * step * np.cos(angles)
    coefficients = []
    for part, (centre, start) in enumerate(zip(centres, starts, strict=True)):
        beside = points + (part * step - centre)
        less = 0 if part else slope
        values = [function(centre + each) for each in beside]
        wanted = [(value - start) / each - less for value, each in zip(values, beside, strict=True)]
        fitted = np.linalg.lstsq(np.vander(beside, terms, increasing=True), wanted)[0]
        # The last bits differ among processors. Where a coefficient matters little, they are many
        # enough to make code differ.
        least = _ROUNDING * max(map(abs, values)) / (0.501 * step) ** np.arange(1, terms + 1)
        coefficients.append(np.rint(fitted / least) * least)
    return PiecewisePolynomial(
        parts_per_one=1 / step,
        centres=tuple(centres),
        starts=tuple(starts),
        slope=slope,
        coefficients=tuple(
            tuple(float(each) for each in column) for column in zip(*coefficients, strict=True)
        ),
    )


def even_pieces(
    function: Callable[[float], float], step: float, count: int, terms: int
) -> tuple[tuple[float, ...], ...]:
    """Approximates a smooth function between 0 and (count - 1)·step with a small absolute error.

    Returns:
        The coefficients of each power of the distance from the middle of a part, k·step, the lowest
        first. The function is exact at 0 and at its end.
    """
    angles = np.pi * (np.arange(2 * terms) + 0.5) / (2 * terms)
    columns = []
    for part in range(count):
        # The first part begins in its middle, the last one ends there.
        beside = 0.501 * step * np.cos(angles)
        beside = np.abs(beside) if part == 0 else -np.abs(beside) if part == count - 1 else beside
        start = [function(part * step)] if part in (0, count - 1) else []
        wanted = np.array([function(part * step + float(each)) for each in beside]) - sum(start)
        powers = np.vander(beside, terms, increasing=True)[:, len(start) :]
        column = np.array([*start, *np.linalg.lstsq(powers, wanted)[0]])
        least = _ROUNDING / (0.501 * step) ** np.arange(terms)
        columns.append(np.rint(column / least) * least)
    return tuple(tuple(float(each) for each in power) for power in zip(*columns, strict=True))


def _centre(function: Callable[[float], float], middle: float) -> float:
    """Returns a float near the middle of a part where the function is almost a float."""
    tried = np.float32(middle) + np.arange(_TRIED) * np.spacing(np.float32(middle))
    values = np.array([function(float(each)) for each in tried])
    rounded = values.astype(np.float32)
    return float(tried[np.argmin(np.abs(values - rounded) / np.spacing(rounded))])


def piecewise(f: Floats, of: PiecewisePolynomial, a: str) -> str:
    """Evaluates the function for 0 ≤ a ≤ its end, on vectors with as many table entries as parts.

    The result for NaN is NaN.
    """
    v = f.v
    # The part's number is in the low bits of the sum.
    magic = f.number(f.format.magic)
    found = f.fma(a, f.number(of.parts_per_one), magic)
    index = f.to_bits(found)
    rest = f.subtract(a, looked_up(v, of.centres, index))
    lowest, *terms = (looked_up(v, column, index) for column in of.coefficients)
    # Pairs of terms, then pairs of these: in order, each term would wait for the one before. The
    # lowest one comes last, so that the rounding errors of the others are small.
    power = rest
    while len(terms) > 1:
        pairs = [f.fma(high, power, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms, power = pairs + terms[2 * len(pairs) :], f.multiply(power, power)
    total = f.fma(terms[0], rest, lowest)
    first = f.multiply(a, f.number(of.slope)) if of.slope != 1 else a
    is_first = v.compare("oeq", f.element, found, magic)
    return f.fma(total, rest, f.select(is_first, first, looked_up(v, of.starts, index)))


def evenly_piecewise(f: Floats, step: float, coefficients: tuple[tuple[float, ...], ...], a: str) -> str:
    """Evaluates the function of `even_pieces` for 0 ≤ a ≤ its end, with a power of two as step.

    The result for NaN is NaN.
    """
    magic = f.number(f.format.magic)
    found = f.fma(a, f.number(1 / step), magic)
    index = f.to_bits(found)
    rest = f.fma(f.subtract(found, magic), f.number(-step), a)
    *lower, total = (looked_up(f.v, column, index) for column in coefficients)
    for each in reversed(lower):
        total = f.fma(total, rest, each)
    return total

"""Piecewise polynomial approximation, for processors with table lookups in registers."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.emit.math.floats import Floats
from neurald.drivers.cpu.emit.math.wide_floats import TABLE_LENGTH, looked_up

#: Number of floats next to a part's middle that are tried as its centre.
_TRIED = 400


class PiecewisePolynomial(Struct, frozen=True, kw_only=True):
    """A function from 0 to an end; see `pieces`.

    With r = a - centre, the function is start + r·slope + r·(a polynomial of r). Each table has an
    entry per part.

    Attributes:
        parts_per_one: number of parts between 0 and 1.
        centres: close to the middles of parts, where the function is almost a float.
        starts: that float.
        slopes: an integer in the first part, 0 elsewhere; it leaves little to the polynomial where
            the function is small.
        coefficients: the coefficients of each power of r, the lowest first.
    """

    parts_per_one: float
    centres: tuple[float, ...]
    starts: tuple[float, ...]
    slopes: tuple[float, ...]
    coefficients: tuple[tuple[float, ...], ...]


def pieces(function: Callable[[float], float], end: float, terms: int) -> PiecewisePolynomial:
    """Approximates a smooth function that is 0 at 0.

    Args:
        function: accurate to many more digits than a float.
        end: end of the range.
        terms: number of terms of the polynomial.
    """
    # The end is in the last part, however it is rounded.
    step = end / (TABLE_LENGTH - 0.51)
    centres = [_centre(function, part * step) if part else 0.0 for part in range(TABLE_LENGTH)]
    starts = [float(np.float32(function(centre))) for centre in centres]
    slopes = [float(np.rint((function(step) - starts[0]) / step)), *(0.0 for _ in centres[1:])]
    # Interpolates at Chebyshev points, which are dense at the ends of a part. The range is slightly
    # wider than the part, since rounding may assign a number to a neighbour.
    points = 0.501 * step * np.cos(np.pi * (np.arange(terms) + 0.5) / terms)
    powers, wanted = [], []
    for part, (centre, start, slope) in enumerate(zip(centres, starts, slopes, strict=True)):
        beside = points + (part * step - centre)
        powers.append(np.vander(beside, increasing=True))
        wanted.append([(function(centre + each) - start) / each - slope for each in beside])
    coefficients = np.linalg.solve(np.array(powers), np.array(wanted)[..., None])[..., 0]
    return PiecewisePolynomial(
        parts_per_one=1 / step,
        centres=tuple(centres),
        starts=tuple(starts),
        slopes=tuple(slopes),
        coefficients=tuple(tuple(float(each) for each in column) for column in coefficients.T),
    )


def _centre(function: Callable[[float], float], middle: float) -> float:
    """Returns a float near the middle of a part where the function is almost a float."""
    tried = np.float32(middle) + np.arange(_TRIED) * np.spacing(np.float32(middle))
    values = np.array([function(float(each)) for each in tried])
    rounded = values.astype(np.float32)
    return float(tried[np.argmin(np.abs(values - rounded) / np.spacing(rounded))])


def piecewise(f: Floats, of: PiecewisePolynomial, a: str) -> str:
    """Evaluates the function for 0 ≤ a ≤ its end, on vectors with `has_wide_floats`.

    The result for NaN is NaN.
    """
    v = f.v
    # The part's number is in the low bits of the sum.
    index = f.to_bits(f.fma(a, f.number(of.parts_per_one), f.number(f.format.magic)))
    rest = f.subtract(a, looked_up(v, of.centres, index))
    *others, total = (looked_up(v, column, index) for column in of.coefficients)
    for each in reversed(others):
        total = f.fma(total, rest, each)
    line = f.fma(rest, looked_up(v, of.slopes, index), looked_up(v, of.starts, index))
    return f.fma(total, rest, line)

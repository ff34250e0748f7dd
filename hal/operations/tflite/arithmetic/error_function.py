"""The complementary error function, which NumPy lacks."""

import math
from functools import cache

import numpy as np

from neurald.hal.operations.machinery.call import Array

#: erfc is below the smallest float64 from here on.
_MAX_ARGUMENT = 26.0
_DEGREE = 26
#: t = 2 / (2 + z) for z from 0 to _MAX_ARGUMENT.
_MIN_T = 2 / (2 + _MAX_ARGUMENT)


def erfc(values: Array) -> Array:
    """Computes erfc of float64 numbers, with a relative error below 1e-12.

    log(erfc(z)) + z² - log(t) is smooth in t = 2 / (2 + z), so a short Chebyshev series
    approximates it.
    """
    # Slow to import, and only needed where the function is computed.
    from numpy.polynomial.chebyshev import chebval

    size = np.minimum(np.abs(values), _MAX_ARGUMENT)
    t = 2 / (2 + size)
    tail = t * np.exp(chebval(_unit(t), _coefficients()) - size * size)
    return np.asarray(np.where(values < 0, 2 - tail, tail))


def _unit(t: Array) -> Array:
    """Maps the range of t to -1 to 1."""
    return (2 * t - (1 + _MIN_T)) / (1 - _MIN_T)


@cache
def _coefficients() -> Array:
    """Computes the coefficients of the polynomial through the function at the Chebyshev points."""
    from numpy.polynomial.chebyshev import chebfit, chebpts1

    unit = chebpts1(_DEGREE + 1)
    t = (unit * (1 - _MIN_T) + 1 + _MIN_T) / 2
    z = 2 / t - 2
    smooth = np.array([math.log(math.erfc(x)) for x in z]) + z * z - np.log(t)
    return np.asarray(chebfit(unit, smooth, _DEGREE))

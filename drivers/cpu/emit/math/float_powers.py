"""Powers of positive floats, in double precision with polynomials that are long enough for floats.

The exponent of a power is y·log2(x), whose absolute error is the relative one of the result, apart
from a factor. It is below 150, so that the logarithm needs 8 bits more than the result.
"""

import math
from typing import Final

from neurald.drivers.cpu.emit.math.floats import LN2, Floats
from neurald.drivers.cpu.emit.vector import Vector

#: log2((1 + s) / (1 - s)) / s in s², for |s| < 0.172, with a relative error of 2^-43; 2^r for
#: |r| ≤ 1/2, with one of 2^-36.
_LOG2: Final = tuple(2 / LN2 / (2 * power + 1) for power in range(8))
_EXP2: Final = tuple(LN2**power / math.factorial(power) for power in range(10))
#: Adding it leaves integers in the low bits.
_MAGIC: Final = 1.5 * 2.0**52
#: Powers of two beyond these are 0 or ∞ as floats.
_MAX_EXPONENT: Final = 200.0
_FRACTION_BITS, _BIAS = 52, 1023


def magnitude(v: Vector, base: str, y: str) -> str:
    """Computes base^y with an error of at most 0.51 ULP.

    Args:
        v: receives the instructions.
        base: a float that has no sign and is not NaN.
        y: a float. If it is 0 or NaN, or infinite where the base is 1, any result is right.
    """
    f = Floats(v, "double")
    wide, exponent = (v.cast("fpext", "float", each, "double") for each in (base, y))
    infinity = f.number(math.inf)
    logarithm = f.select(f.is_("oeq", wide, math.inf), infinity, _log2(f, wide))
    logarithm = f.select(f.is_("oeq", wide, 0.0), f.number(-math.inf), logarithm)
    product = f.cut(f.multiply(exponent, logarithm), -_MAX_EXPONENT, _MAX_EXPONENT)
    nearest = f.add(product, f.number(_MAGIC))
    rest = f.subtract(product, f.subtract(nearest, f.number(_MAGIC)))
    power = f.integers("shl", f.to_bits(nearest), f.whole(_FRACTION_BITS))
    bits = f.integers("add", f.to_bits(v.polynomial("double", rest, _EXP2)), power)
    return v.cast("fptrunc", "double", f.from_bits(bits), "float")


def _log2(f: Floats, x: str) -> str:
    """Computes the binary logarithm of a normal double."""
    # The significand is from √½ to √2, so that nothing cancels near 1.
    one, shift = f.whole(_BIAS << _FRACTION_BITS), f.whole(_FRACTION_BITS)
    below = f.to_bits(f.number(math.sqrt(0.5)))
    bits = f.to_bits(x)
    power = f.integers("lshr", f.integers("add", f.integers("sub", bits, below), one), shift)
    m = f.from_bits(f.integers("add", f.integers("sub", bits, f.integers("shl", power, shift)), one))
    whole = f.from_bits(f.integers("or", power, f.to_bits(f.number(2.0**_FRACTION_BITS))))
    n = f.subtract(whole, f.number(2.0**_FRACTION_BITS + _BIAS))
    t = f.subtract(m, f.number(1))
    s = f.divide(t, f.add(t, f.number(2)))
    return f.fma(s, f.v.polynomial("double", f.multiply(s, s), _LOG2), n)

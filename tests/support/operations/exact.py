"""TFLite's fixed-point products in Python's integers and fractions: slow but simple."""

import math
from fractions import Fraction

_INT32 = (-(2**31), 2**31 - 1)


def multiplier(real: float) -> tuple[int, int]:
    """Converts a positive real number to a mantissa of 31 bits and an exponent."""
    fraction, exponent = math.frexp(real)
    mantissa = math.floor(Fraction(fraction) * 2**31 + Fraction(1, 2))
    return (mantissa // 2, exponent + 1) if mantissa == 2**31 else (mantissa, exponent)


def times(value: int, mantissa: int, exponent: int) -> int:
    """Returns the product, rounded to nearest, and in the right shift away from zero."""
    shifted = min(max(value * 2 ** max(exponent, 0), _INT32[0]), _INT32[1])
    high = math.floor(Fraction(shifted * mantissa, 2**31) + Fraction(1, 2))
    return away_from_zero(Fraction(high, 2 ** max(-exponent, 0)))


def away_from_zero(value: Fraction) -> int:
    """Returns the nearest integer, ties away from zero."""
    magnitude = math.floor(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def cut(value: int, dtype: str) -> int:
    """Clamps a value to the range of a type with a NumPy name, such as "int8"."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    low = 0 if dtype.startswith("u") else -(1 << bits - 1)
    return min(max(value, low), low + (1 << bits) - 1)

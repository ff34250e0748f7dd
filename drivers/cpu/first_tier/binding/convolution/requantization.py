"""Parameters that convert sums to quantised outputs."""

import numpy as np

from neurald.drivers.cpu.first_tier.layout import SCALES
from neurald.hal.operations.arithmetic.fixed_point import Rounding, quantize_multipliers, short_mantissas
from neurald.hal.operations.machinery.call import Array


def requantization(multipliers: Array, rounding: Rounding = Rounding.TWICE) -> tuple[Array, Array]:
    """Returns the mantissas and the `SCALES` other parameters of multipliers.

    A shift to the left by a positive exponent is part of the shift to the right that follows. What
    it makes greater than 32 bits is beyond the limits of the output.

    Args:
        multipliers: the multipliers of the channels.
        rounding: the rounding of the results.
    """
    mantissas, exponents = quantize_multipliers(multipliers)
    parameters = np.zeros((SCALES, len(exponents)), np.int64)
    addends, below_zero, shifts = parameters
    np.subtract(31, exponents, out=shifts)
    np.left_shift(1, shifts - 1, out=addends)
    if not rounding.is_twice:
        if rounding is Rounding.ONCE_AWAY:
            below_zero[...] = -1
        return (short_mantissas(mantissas) if rounding is Rounding.SHORT else mantissas), parameters
    # -1 for shifts to the right, else 0.
    is_right = exponents >> 63
    addends += is_right & (1 << 30)
    if rounding is Rounding.TWICE:
        np.bitwise_and(is_right, -1 << 31, out=below_zero)
    return mantissas, parameters


def single_requantization(mantissa: int, exponent: int) -> tuple[int, ...]:
    """Returns the words of one multiplier: a mantissa, and `SCALES` other parameters.

    Args:
        mantissa, exponent: see `neurald.hal.operations.arithmetic.fixed_point.multiply`.
    """
    shift = 31 - exponent
    if exponent >= 0:
        return mantissa, 1 << (shift - 1), 0, shift
    return mantissa, (1 << 30) + (1 << (shift - 1)), -1 << 31, shift

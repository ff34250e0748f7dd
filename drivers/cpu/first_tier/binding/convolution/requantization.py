"""Parameters that convert sums to quantised outputs."""

import numpy as np

from neurald.hal.model.graph import Operand
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
    shifts = 31 - exponents
    addends = np.int64(1) << (shifts - 1)
    none = np.zeros_like(shifts)
    if rounding in (Rounding.ONCE, Rounding.SHORT):
        if rounding is Rounding.SHORT:
            mantissas = short_mantissas(mantissas)
        return mantissas, np.stack((addends, none, shifts))
    is_right = exponents < 0
    addends += np.where(is_right, 1 << 30, 0)
    below_zero = none if rounding is Rounding.TWICE_UP else np.where(is_right, -1 << 31, none)
    return mantissas, np.stack((addends, below_zero, shifts))


def single_requantization(mantissa: int, exponent: int) -> tuple[int, ...]:
    """Returns the words of one multiplier: a mantissa, and `SCALES` other parameters.

    Args:
        mantissa, exponent: see `neurald.hal.operations.arithmetic.fixed_point.multiply`.
    """
    shift = 31 - exponent
    if exponent >= 0:
        return mantissa, 1 << (shift - 1), 0, shift
    return mantissa, (1 << 30) + (1 << (shift - 1)), -1 << 31, shift


def byte_values(operand: Operand) -> Array:
    """Returns the integers that the 256 bytes of an operand stand for, without its zero point."""
    values = np.arange(256, dtype=np.uint8).view(operand.type.dtype)
    return values.astype(np.int64) - operand.zero_point

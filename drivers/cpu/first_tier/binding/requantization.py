"""Parameters that convert sums to quantised outputs."""

import numpy as np

from neurald.hal.model.types import Operand
from neurald.hal.operations.arithmetic.fixed_point import quantize_multipliers
from neurald.hal.operations.machinery.call import Array


def requantization(multipliers: Array, *, is_twice: bool = True) -> tuple[Array, Array]:
    """Returns the mantissas and the `SCALES` other parameters of multipliers.

    A shift to the left by a positive exponent is part of the shift to the right that follows. What it
    makes greater than 32 bits is beyond the limits of the output.

    Args:
        multipliers: of the channels.
        is_twice: True for `Rounding.TWICE`, else `Rounding.ONCE`.
    """
    mantissas, exponents = quantize_multipliers(multipliers)
    shifts = 31 - exponents
    addends = np.int64(1) << (shifts - 1)
    none = np.zeros_like(shifts)
    if not is_twice:
        return mantissas, np.stack((addends, none, shifts))
    is_right = exponents < 0
    addends += np.where(is_right, 1 << 30, 0)
    return mantissas, np.stack((addends, np.where(is_right, -1 << 31, none), shifts))


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

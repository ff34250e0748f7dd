"""Parameters that convert sums to quantised outputs."""

from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.bound_call import NotBound
from neurald.hal.model.types import Operand
from neurald.hal.operations.arithmetic.fixed_point import quantize_multipliers
from neurald.hal.operations.machinery.call import Array

#: Products of values and mantissas have fewer bits.
_PRODUCT_BITS: Final = 62
_MANTISSA_BITS: Final = 31


def requantization(multipliers: Array, *, is_twice: bool = True) -> tuple[Array, Array]:
    """Returns the mantissas and the `SCALES` other parameters of multipliers.

    Args:
        multipliers: of the channels.
        is_twice: True for `Rounding.TWICE`, else `Rounding.ONCE`.

    Raises:
        NotBound: a multiplier is not below 1.
    """
    mantissas, exponents = quantize_multipliers(multipliers)
    if exponents.max(initial=0) > 0:
        raise NotBound("a multiplier is not below 1")
    return mantissas, _parameters(-exponents, is_twice=is_twice)


def single_requantization(mantissa: int, exponent: int, largest: int) -> tuple[int, ...]:
    """Returns the words of one multiplier: a mantissa, and `SCALES` other parameters.

    Args:
        mantissa, exponent: see `neurald.hal.operations.arithmetic.fixed_point.multiply`.
        largest: the largest magnitude of what is multiplied.

    Raises:
        NotBound: products may have too many bits.
    """
    left = max(0, exponent)
    # What a shift to the left makes greater than 32 bits is beyond the limits of the output.
    if largest.bit_length() + left + _MANTISSA_BITS > _PRODUCT_BITS:
        raise NotBound("the multiplier is too large")
    right = max(0, -exponent)
    second = (1 << 30) << right if right else 0
    return mantissa << left, (1 << 30) + second, -1 << 31 if right else 0, 31 + right


def _parameters(right: Array, *, is_twice: bool) -> Array:
    """Returns what is added, what is added below zero, and the shift."""
    if not is_twice:
        return np.stack((np.int64(1 << 30) << right, np.zeros_like(right), 31 + right))
    addends = np.where(right, (1 << 30) + (np.int64(1 << 30) << right), 1 << 30)
    return np.stack((addends, np.where(right, -1 << 31, 0), 31 + right))


def byte_values(operand: Operand) -> Array:
    """Returns the integers that the 256 bytes of an operand stand for, without its zero point."""
    values = np.arange(256, dtype=np.uint8).view(operand.type.dtype)
    return values.astype(np.int64) - operand.zero_point

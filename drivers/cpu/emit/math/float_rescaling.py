"""Rescales integers of few bits as floats, instead of by products of 64 bits.

Floats from 2^23 to 2^24 are integers. So a number times a factor, plus 1.5 · 2^23, has the nearest
integer in its lower bits. A fixed-point product with a shift by r bits rounds twice: to multiples
of 2^-r, and to integers with ties away from zero. That is as if numbers from half of 2^-r before a
tie on were beyond it, so half of 2^-r is added to the magnitude. With a float near the multiplier
as the factor, the results mostly are the same for every number that occurs, which is tested.
"""

from functools import lru_cache

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.int64_narrowing import bounds_of
from neurald.drivers.cpu.emit.vector import Vector
from neurald.hal.operations.arithmetic.fixed_point import multiply

_INT32 = -(1 << 31), (1 << 31) - 1
_PRODUCTS = (Op.FIXED_POINT, Op.FIXED_POINT_UP)
#: What is added to round, and its bits.
_ROUNDING, _ROUNDING_BITS = 1.5 * 2.0**23, 0x4B400000
#: Maximum number of integers, all of which are tested. Their products are exact as FLOAT64.
_MAX_INTEGERS = 1 << 18
#: Results are below this, so that sums have the exponent of what is added.
_MAX_RESULT = 2.0**21
#: Floats that are tried, in units in the last place above the one next to the multiplier. Larger
#: ones round ties away from zero.
_CANDIDATES = (0, 1, 2, 3, -1, -2)


#: How far products beyond the limits are tested.
_BEYOND = 2


class FloatRescaling(Struct, frozen=True, kw_only=True):
    """A way to compute a fixed-point product with floats.

    Attributes:
        factor: the float in place of the multiplier.
        added: the float that is added to the magnitude of the product.
    """

    factor: float
    added: float


class LimitedRescaling(Struct, frozen=True, kw_only=True):
    """A fixed-point product that is clamped.

    Attributes:
        value: the INT32 that is multiplied.
        how: how floats compute the product, as far as it is not clamped.
        low, high: the limits.
    """

    value: Expression
    how: FloatRescaling
    low: int
    high: int


def limited_rescaling(expression: Apply) -> LimitedRescaling | None:
    """Matches a clamped product that floats compute; None if it is another expression."""
    if expression.op is not Op.MINIMUM or expression.type is not Scalar.INT32:
        return None
    larger, high = expression.arguments
    if not isinstance(larger, Apply) or larger.op is not Op.MAXIMUM or not isinstance(high, Constant):
        return None
    product, low = larger.arguments
    if not isinstance(product, Apply) or product.op not in _PRODUCTS or not isinstance(low, Constant):
        return None
    if product.arguments[0].type is not Scalar.INT32:
        return None
    limits = int(low.value), int(high.value)
    how = float_rescaling(product, limits) if limits[0] <= limits[1] else None
    if how is None:
        return None
    return LimitedRescaling(value=product.arguments[0], how=how, low=limits[0], high=limits[1])


def float_rescaling(expression: Apply, limits: tuple[int, int] = _INT32) -> FloatRescaling | None:
    """Returns how floats equal a FIXED_POINT or FIXED_POINT_UP; None if no way is known.

    Args:
        expression: the product.
        limits: those between which all larger and smaller products become equal.
    """
    value, mantissa, exponent = expression.arguments
    if not isinstance(mantissa, Constant) or not isinstance(exponent, Constant):
        return None
    numbers = int(mantissa.value), int(exponent.value)
    return _found(bounds_of(value), numbers, limits, ties_up=expression.op is Op.FIXED_POINT_UP)


def clamped_product(v: Vector, of: LimitedRescaling, value: str) -> str:
    """Returns clamped products of i32, as i32."""
    product = v.call("llvm.smax", "i32", rescaled(v, value, of.how), v.number("i32", of.low))
    return v.call("llvm.smin", "i32", product, v.number("i32", of.high))


def rescaled(v: Vector, value: str, how: FloatRescaling) -> str:
    """Returns the products of i32 as i32."""
    real, factor = v.cast("sitofp", "i32", value, "float"), v.number("float", how.factor)
    rounding = v.number("float", _ROUNDING)
    if how.added:
        sign = v.binary("and", "i32", value, v.number("i32", -(1 << 31)))
        bits = int(np.float32(how.added).view(np.int32))
        added = v.bitcast("i32", v.binary("or", "i32", sign, v.number("i32", bits)), "float")
        rounded = v.binary("fadd", "float", v.fma("float", real, factor, added), rounding)
    else:
        rounded = v.fma("float", real, factor, rounding)
    return v.binary("sub", "i32", v.bitcast("float", rounded, "i32"), v.number("i32", _ROUNDING_BITS))


@lru_cache(maxsize=64)
def _found(
    bounds: tuple[int, int], multiplier: tuple[int, int], limits: tuple[int, int], *, ties_up: bool
) -> FloatRescaling | None:
    low, high = bounds
    mantissa, exponent = multiplier
    exact = mantissa * 2.0 ** (exponent - 31)
    if exponent > 0 or not exact or max(-low, high) * exact > _MAX_RESULT:
        return None
    # Products of larger numbers are clamped either way, since none decreases.
    last = int((max(map(abs, limits)) + _BEYOND) / exact)
    low, high = max(low, -last), min(high, last)
    if high - low >= _MAX_INTEGERS:
        return None
    values = np.arange(low, high + 1)
    wanted = np.clip(multiply(values, mantissa, exponent, ties_up=ties_up), *limits)
    nearest = np.float32(exact).view(np.int32)
    for added in (0.0, 2.0 ** (exponent - 1)):
        for distance in _CANDIDATES:
            factor = float((nearest + np.int32(distance)).view(np.float32))
            products = values * factor
            if added:
                products = (products + np.copysign(added, products)).astype(np.float32)
            if np.array_equal(np.clip(np.rint(products), *limits), wanted):
                return FloatRescaling(factor=factor, added=added)
    return None

"""Divides floats by a known number, rounds and clamps, as quantisation does, without a division.

With y the rounded inverse of the divisor c, q = x·y is almost x / c, and q + (x - q·c)·y is almost
always x / c correctly rounded. Only quotients halfway between two integers could differ; those are
tested for each divisor.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.integers import resized
from neurald.drivers.cpu.emit.math.rounding import BELOW_HALF
from neurald.drivers.cpu.emit.vector import Vector

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
_Doubles = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

#: Maximum number of integers that are tested.
_MAX_INTEGERS = 1024
#: Floats tested on either side of a rounding boundary.
_BESIDE = 6
#: Larger divisors use division, so that nothing overflows and no denormals occur.
_MAX_DIVISOR = 2.0**60


class Quotient(Struct, frozen=True, kw_only=True):
    """dividend / divisor as FLOAT32, rounded with ties away from zero and clamped; 0 for NaN.

    Attributes:
        low, high: integral bounds of the result.
        type: integer type that the result is converted to.
    """

    dividend: Expression
    divisor: float
    low: float
    high: float
    type: Scalar


def quotient_of(expression: Apply) -> Quotient | None:
    """Matches an expression for which `quotient` is exact; None if it does not match."""
    if expression.op is not Op.CONVERT or not expression.type.is_integer or expression.type is Scalar.INDEX:
        return None
    low, high = -np.inf, np.inf
    value: Expression = expression.arguments[0]
    while isinstance(value, Apply) and value.op in (Op.MINIMUM, Op.MAXIMUM) and value.type is Scalar.FLOAT32:
        limit = value.arguments[1]
        if not isinstance(limit, Constant):
            return None
        known = float(np.float32(limit.value))
        if value.op is Op.MINIMUM:
            high = min(high, max(low, known))
        else:
            low = max(low, min(high, known))
        value = value.arguments[0]
    if not isinstance(value, Apply) or value.op is not Op.ROUND_AWAY or value.type is not Scalar.FLOAT32:
        return None
    division = value.arguments[0]
    if not isinstance(division, Apply) or division.op is not Op.DIVIDE:
        return None
    dividend, divisor = division.arguments
    if not isinstance(divisor, Constant) or not high - low <= _MAX_INTEGERS:
        return None
    known = float(np.float32(divisor.value))
    info = np.iinfo(expression.type.dtype.name)
    if low < info.min or high > info.max or not _is_same(known, low, high):
        return None
    return Quotient(dividend=dividend, divisor=known, low=low, high=high, type=expression.type)


def quotient(v: Vector, of: Quotient, x: str) -> str:
    """Computes the quotient on processors with `has_fma`, in LLVM's type for `of.type`."""
    x = clamped(v, of, x)
    inverse = v.number("float", 1 / of.divisor)
    near = v.binary("fmul", "float", x, inverse)
    left = v.fma("float", near, v.number("float", -of.divisor), x)
    near = v.fma("float", left, inverse, near)
    half = v.call("llvm.copysign", "float", v.number("float", BELOW_HALF["float"]), x)
    whole = v.cast("fptosi", "float", v.binary("fadd", "float", near, half), "i32")
    whole = v.select(v.compare("ord", "float", x, x), "i32", whole, v.number("i32", 0))
    return resized(v, ("i32", whole), f"i{8 * of.type.size_bytes}")


def clamped(v: Vector, of: Quotient, x: str) -> str:
    """Clamps a dividend to those whose quotients are the bounds; NaN stays what it is."""
    for limit, condition in ((of.low, "ogt"), (of.high, "olt")):
        bound = v.number("float", limit * of.divisor)
        x = v.select(v.compare(condition, "float", bound, x), "float", bound, x)
    return x


@lru_cache(maxsize=256)
def _is_same(divisor: float, low: float, high: float) -> bool:
    """Returns True if `quotient` equals a division for every float."""
    if not 1 / _MAX_DIVISOR < divisor < _MAX_DIVISOR or low != round(low) or high != round(high):
        return False
    c = np.float32(divisor)
    inverse = (1 / c.astype(np.float64)).astype(np.float32)

    def rounded(x: Floats) -> Floats:
        near = x * inverse
        return _rounded(fused(fused(near, -c, x), inverse, near))

    return is_same_for(divisor, low, high, rounded)


def is_same_for(divisor: float, low: float, high: float, rounded: Callable[[Floats], Floats]) -> bool:
    """Returns True if a way to divide and round equals a division where results change.

    Args:
        divisor: the divisor, a float.
        low, high: integral bounds of the results.
        rounded: divides clamped dividends and rounds the quotients. It must not decrease.
    """
    c = np.float32(divisor)
    limits = np.array([low, high]) * float(c)
    between = (np.arange(low - 1, high + 1) + 0.5) * float(c)
    x = np.concatenate([limits, between]).astype(np.float32)
    # Consecutive floats have consecutive bit patterns.
    beside = (x.view(np.int32) + np.arange(-_BESIDE, _BESIDE + 1, dtype=np.int32)[:, None]).view(np.float32)
    x = beside[np.isfinite(beside)]
    wanted = np.clip(_rounded(x / c), low, high)
    return bool(np.array_equal(rounded(np.clip(x, *limits.astype(np.float32))), wanted))


def _rounded(x: Floats) -> Floats:
    half = np.copysign(np.float32(BELOW_HALF["float"]), x)
    rounded: Floats = np.trunc(x + half)
    return rounded


def fused(first: Floats, second: np.float32, third: Floats) -> Floats:
    """Computes first × second + third with one rounding."""
    product: _Doubles = first.astype(np.float64) * np.float64(second)
    other: _Doubles = third.astype(np.float64)
    total = product + other
    # Rounds the exact sum to odd in double precision, so that the final rounding is correct.
    part = total - product
    lost = (product - (total - part)) + (other - part)
    is_even = (total.view(np.int64) & 1) == 0
    towards = np.where(lost > 0, np.inf, -np.inf)
    odd = np.where((lost != 0) & is_even, np.nextafter(total, towards), total)
    result: Floats = odd.astype(np.float32)
    return result

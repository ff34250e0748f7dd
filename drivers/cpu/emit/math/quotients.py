"""Floats divided by a number that is known, rounded and cut to a few integers, as values are quantised: without a division.

With the inverse y of the divisor c, rounded, q = x·y is almost x / c, and q + (x - q·c)·y almost always x / c rounded to the nearest.
Nothing is left of the difference but where x / c lies right between two integers: there it is tried out for the divisor at hand.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.integers import resized
from neurald.drivers.cpu.emit.math.rounding import BELOW_HALF
from neurald.drivers.cpu.emit.vector import Vector

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
_Doubles = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

#: So many integers are tried out.
_MOST = 1024
#: Floats on either side of where another integer is the nearest one.
_BESIDE = 6
#: Divisors beyond that are left to divisions, so that nothing overflows and no denormal number matters.
_LARGEST = 2.0**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """A dividend / divisor as FLOAT32, rounded away from zero at ties, then cut to low and high, which are whole; 0 of NaN.

    Attributes:
        type: what the result is converted to, an integer.
    """

    dividend: Expression
    divisor: float
    low: float
    high: float
    type: Scalar


def quotient_of(expression: Apply) -> Quotient | None:
    """What an expression is such a quotient of; None: it is none for which `quotient` gives the same."""
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
    if not isinstance(divisor, Constant) or not high - low <= _MOST:
        return None
    known = float(np.float32(divisor.value))
    info = np.iinfo(expression.type.dtype.name)
    if low < info.min or high > info.max or not _is_same(known, low, high):
        return None
    return Quotient(dividend=dividend, divisor=known, low=low, high=high, type=expression.type)


def quotient(v: Vector, of: Quotient, x: str) -> str:
    """The quotient for a dividend, for processors with `has_fma`, of LLVM's type for `of.type`."""
    for limit, condition in ((of.low, "ogt"), (of.high, "olt")):
        bound = v.number("float", limit * of.divisor)
        x = v.choose(v.compare(condition, "float", bound, x), "float", bound, x)
    inverse = v.number("float", 1 / of.divisor)
    near = v.two("fmul", "float", x, inverse)
    left = v.fma("float", near, v.number("float", -of.divisor), x)
    near = v.fma("float", left, inverse, near)
    half = v.call("llvm.copysign", "float", v.number("float", BELOW_HALF["float"]), x)
    whole = v.cast("fptosi", "float", v.two("fadd", "float", near, half), "i32")
    whole = v.choose(v.compare("ord", "float", x, x), "i32", whole, v.number("i32", 0))
    return resized(v, ("i32", whole), f"i{8 * of.type.size_bytes}")


@lru_cache(maxsize=256)
def _is_same(divisor: float, low: float, high: float) -> bool:
    """Whether `quotient` gives what a division does, for every float."""
    if not 1 / _LARGEST < divisor < _LARGEST or low != round(low) or high != round(high):
        return False
    c = np.float32(divisor)
    limits = np.array([low, high]) * float(c)
    between = (np.arange(low - 1, high + 1) + 0.5) * float(c)
    x = np.concatenate([limits, between]).astype(np.float32)
    # The next floats are the next integers.
    beside = (x.view(np.int32) + np.arange(-_BESIDE, _BESIDE + 1, dtype=np.int32)[:, None]).view(np.float32)
    x = beside[np.isfinite(beside)]
    wanted = np.clip(_rounded(x / c), low, high)
    x = np.clip(x, *limits.astype(np.float32))
    inverse = (1 / c.astype(np.float64)).astype(np.float32)
    near = x * inverse
    left = _fma(near, -c, x)
    return bool(np.array_equal(_rounded(_fma(left, inverse, near)), wanted))


def _rounded(x: Array) -> Array:
    half = np.copysign(np.float32(BELOW_HALF["float"]), x)
    rounded: Array = np.trunc(x + half)
    return rounded


def _fma(first: Array, second: np.float32, third: Array) -> Array:
    """The sum first × second + third, rounded once."""
    product: _Doubles = first.astype(np.float64) * np.float64(second)
    other: _Doubles = third.astype(np.float64)
    total = product + other
    # What the sum was rounded by; its last bit says whether there is anything, so that the next rounding is right.
    part = total - product
    lost = (product - (total - part)) + (other - part)
    is_even = (total.view(np.int64) & 1) == 0
    towards = np.where(lost > 0, np.inf, -np.inf)
    odd = np.where((lost != 0) & is_even, np.nextafter(total, towards), total)
    result: Array = odd.astype(np.float32)
    return result

"""Products with quantised multipliers in instructions, see `neurald.hal.operations.fixed_point`."""

from collections.abc import Sequence

from neurald.drivers.compiler.expression import Apply, Constant, Expression, Load
from neurald.drivers.compiler.op import Op
from neurald.drivers.cpu.integers import resized
from neurald.drivers.cpu.vector import Vector

_INT32 = (-(2**31), 2**31 - 1)
#: The exponents that quantised multipliers can have.
_EXPONENTS = (-31, 30)


def _exponents(expression: Expression) -> tuple[int, int]:
    """The smallest and the largest exponent that a quantised multiplier can have here."""
    if isinstance(expression, Constant):
        return int(expression.value), int(expression.value)
    if isinstance(expression, Load) and expression.guard is None and expression.value.constant is not None:
        known = expression.value.constant
        if known.size:
            return int(known.min()), int(known.max())
    return _EXPONENTS


def fixed_point(v: Vector, expression: Apply, arguments: Sequence[str], element: str) -> str:
    """What FIXED_POINT or FIXED_POINT_UP gives: one product of 64 bits, what rounds it, and one shift.

    With s = 31 + r, what is added is 2^(s - 1), and if r > 0 also 2^30, or -2^30 where the value is negative.
    """
    value, mantissa, exponent = arguments
    lowest, highest = _exponents(expression.arguments[2])
    zero = v.number("i32", 0)
    if highest > 0:
        value = _shifted_left(v, value, v.call("llvm.smax", "i32", exponent, zero))
    product = v.two("mul", "i64", v.cast("sext", "i32", value, "i64"), v.cast("sext", "i32", mantissa, "i64"))
    if lowest >= 0:
        nudged = v.two("add", "i64", product, v.number("i64", 1 << 30))
        result = v.two("ashr", "i64", nudged, v.number("i64", 31))
        return resized(v, ("i64", result), element)
    if lowest == highest:
        shift, half = v.number("i64", 31 - lowest), v.number("i64", 1 << (30 - lowest))
    else:
        right = v.call("llvm.smax", "i32", v.two("sub", "i32", zero, exponent), zero)
        shift = v.cast("zext", "i32", v.two("add", "i32", right, v.number("i32", 31)), "i64")
        half = v.two("shl", "i64", v.number("i64", 1 << 30), v.cast("zext", "i32", right, "i64"))
    nudge = v.number("i32", 1 << 30)
    if expression.op is Op.FIXED_POINT:
        sign = v.two("or", "i32", v.two("ashr", "i32", value, v.number("i32", 31)), v.number("i32", 1))
        nudge = v.two("shl", "i32", sign, v.number("i32", 30))
    if highest >= 0:
        nudge = v.choose(v.compare("slt", "i32", exponent, zero), "i32", nudge, zero)
    total = v.two("add", "i64", v.two("add", "i64", product, half), v.cast("sext", "i32", nudge, "i64"))
    return resized(v, ("i64", v.two("ashr", "i64", total, shift)), element)


def _shifted_left(v: Vector, value: str, left: str) -> str:
    """A value shifted to the left, cut to the range of an i32."""
    lowest, highest = (v.number("i32", each) for each in _INT32)
    shifted = v.two("shl", "i32", value, left)
    is_large = v.compare("sgt", "i32", value, v.two("ashr", "i32", highest, left))
    is_small = v.compare("slt", "i32", value, v.two("ashr", "i32", lowest, left))
    return v.choose(is_small, "i32", lowest, v.choose(is_large, "i32", highest, shifted))

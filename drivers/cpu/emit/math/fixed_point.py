"""Products with quantised multipliers; see `neurald.hal.operations.arithmetic.fixed_point`."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.emit.int64_narrowing import bounds_of
from neurald.drivers.cpu.emit.math.float_rescaling import float_rescaling, rescaled
from neurald.drivers.cpu.emit.math.integers import resized
from neurald.drivers.cpu.emit.vector import Vector

_INT32 = (-(2**31), 2**31 - 1)
#: Bounds on magnitudes that can be doubled, and on shifts by which an addition can round them.
_MAX_DOUBLED, _MAX_ROUNDED_SHIFT = (1 << 30) - 1, 30
#: Range of the exponents of quantised multipliers.
_EXPONENTS = (-31, 30)


def _exponents(expression: Expression) -> tuple[int, int]:
    """Returns the smallest and largest exponent of a quantised multiplier."""
    if isinstance(expression, Constant):
        return int(expression.value), int(expression.value)
    if isinstance(expression, Load) and expression.guard is None and expression.value.constant is not None:
        known = expression.value.constant
        if known.size:
            return int(known.min()), int(known.max())
    return _EXPONENTS


def fixed_point(v: Vector, expression: Apply, arguments: Sequence[str], element: str) -> str:
    """Computes FIXED_POINT or FIXED_POINT_UP.

    A scalar takes a 64-bit product, a rounding term and one shift. With s = 31 + r, the rounding
    term is 2^(s - 1), plus 2^30 if r > 0, or minus 2^30 if the value is also negative.
    """
    value, mantissa, exponent = arguments
    lowest, highest = _exponents(expression.arguments[2])
    zero = v.number("i32", 0)
    if highest > 0:
        value = _shifted_left(v, value, v.call("llvm.smax", "i32", exponent, zero))
    if v.lanes > 1:
        how = float_rescaling(expression) if v.target.has_fma else None
        if how is not None:
            return resized(v, ("i32", rescaled(v, value, how)), element)
        is_known = lowest == highest and -_MAX_ROUNDED_SHIFT <= lowest < 0
        if v.target.has_fma and highest <= 0 and _is_small(expression.arguments[0]):
            # Processors with FMA also have signed 32-bit products.
            doubled = v.binary("shl", "i32", value, v.number("i32", 1))
            result = rounded_high(v, doubled, mantissa, is_signed=True)
            if is_known:
                is_away = expression.op is Op.FIXED_POINT
                return resized(v, ("i32", _small_shifted(v, result, -lowest, is_away=is_away)), element)
        else:
            result = _high_product(v, value, mantissa)
        if lowest < 0:
            right = v.number("i32", -lowest)
            if lowest != highest:
                right = v.call("llvm.smax", "i32", v.binary("sub", "i32", zero, exponent), zero)
            result = _shifted_right(v, result, right, is_away=expression.op is Op.FIXED_POINT)
        return resized(v, ("i32", result), element)
    product = v.binary(
        "mul", "i64", v.cast("sext", "i32", value, "i64"), v.cast("sext", "i32", mantissa, "i64")
    )
    if lowest >= 0:
        nudged = v.binary("add", "i64", product, v.number("i64", 1 << 30))
        result = v.binary("ashr", "i64", nudged, v.number("i64", 31))
        return resized(v, ("i64", result), element)
    if lowest == highest:
        shift, half = v.number("i64", 31 - lowest), v.number("i64", 1 << (30 - lowest))
    else:
        right = v.call("llvm.smax", "i32", v.binary("sub", "i32", zero, exponent), zero)
        shift = v.cast("zext", "i32", v.binary("add", "i32", right, v.number("i32", 31)), "i64")
        half = v.binary("shl", "i64", v.number("i64", 1 << 30), v.cast("zext", "i32", right, "i64"))
    nudge = v.number("i32", 1 << 30)
    if expression.op is Op.FIXED_POINT:
        sign = v.binary("or", "i32", v.binary("ashr", "i32", value, v.number("i32", 31)), v.number("i32", 1))
        nudge = v.binary("shl", "i32", sign, v.number("i32", 30))
    if highest >= 0:
        nudge = v.select(v.compare("slt", "i32", exponent, zero), "i32", nudge, zero)
    total = v.binary("add", "i64", v.binary("add", "i64", product, half), v.cast("sext", "i32", nudge, "i64"))
    return resized(v, ("i64", v.binary("ashr", "i64", total, shift)), element)


def _shifted_left(v: Vector, value: str, left: str) -> str:
    """Shifts a value left, saturating to i32."""
    lowest, highest = (v.number("i32", each) for each in _INT32)
    shifted = v.binary("shl", "i32", value, left)
    is_large = v.compare("sgt", "i32", value, v.binary("ashr", "i32", highest, left))
    is_small = v.compare("slt", "i32", value, v.binary("ashr", "i32", lowest, left))
    return v.select(is_small, "i32", lowest, v.select(is_large, "i32", highest, shifted))


def _high_product(v: Vector, value: str, mantissa: str) -> str:
    """Computes value × mantissa / 2^31 on vectors of i32, rounded to nearest with ties upwards.

    With the non-negative u = value + 2^31, it is the upper half of 2·mantissa·u + 2^31, less the
    mantissa.
    """
    unsigned = v.binary("xor", "i32", value, v.number("i32", _INT32[0]))
    double = v.binary("shl", "i32", mantissa, v.number("i32", 1))
    return v.binary("sub", "i32", rounded_high(v, unsigned, double), mantissa)


def _is_small(value: Expression) -> bool:
    """Returns True if doubling the value, or adding half a power of 2, cannot overflow."""
    low, high = bounds_of(value)
    return low >= -_MAX_DOUBLED and high <= _MAX_DOUBLED


def rounded_high(v: Vector, first: str, second: str, *, is_signed: bool = False) -> str:
    """Computes (first × second + 2^31) / 2^32 on vectors of i32.

    Processors multiply every other lane to 64 bits.
    """
    wide = Vector(v.code, v.target, v.lanes // 2)
    kind, double = v.type("i32"), wide.type("i64")
    pairs = [v.code.value(f"bitcast {kind} {each} to {double}") for each in (first, second)]
    width, half = wide.number("i64", 32), wide.number("i64", 1 << 31)
    if is_signed:
        even = [wide.binary("ashr", "i64", wide.binary("shl", "i64", each, width), width) for each in pairs]
    else:
        low = wide.number("i64", (1 << 32) - 1)
        even = [wide.binary("and", "i64", each, low) for each in pairs]
    odd = [wide.binary("ashr" if is_signed else "lshr", "i64", each, width) for each in pairs]
    parts = []
    for factors in (even, odd):
        rounded = wide.binary("add", "i64", wide.binary("mul", "i64", *factors), half)
        parts.append(v.code.value(f"bitcast {double} {rounded} to {kind}"))
    upper = ", ".join(f"i32 {lane // 2 * 2 + 1 + lane % 2 * v.lanes}" for lane in range(v.lanes))
    return v.code.value(f"shufflevector {kind} {parts[0]}, {kind} {parts[1]}, <{v.lanes} x i32> <{upper}>")


def _small_shifted(v: Vector, value: str, right: int, *, is_away: bool) -> str:
    """Computes `_shifted_right` for a small value and a constant, non-zero shift."""
    half = v.binary("add", "i32", value, v.number("i32", 1 << (right - 1)))
    if is_away:
        half = v.binary("add", "i32", half, v.binary("ashr", "i32", value, v.number("i32", 31)))
    return v.binary("ashr", "i32", half, v.number("i32", right))


def _shifted_right(v: Vector, value: str, right: str, *, is_away: bool) -> str:
    """Divides by 2^right, rounded to nearest with ties away from zero or upwards."""
    one = v.number("i32", 1)
    mask = v.binary("sub", "i32", v.binary("shl", "i32", one, right), one)
    rest = v.binary("and", "i32", value, mask)
    limit = v.binary("lshr", "i32", mask, one)
    if is_away:
        limit = v.binary("sub", "i32", limit, v.binary("ashr", "i32", value, v.number("i32", 31)))
    more = v.cast("sext", "i1", v.compare("sgt", "i32", rest, limit), "i32")
    return v.binary("sub", "i32", v.binary("ashr", "i32", value, right), more)

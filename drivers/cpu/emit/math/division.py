"""Quotients and remainders: those that vectors have no instructions for, and that must not stop at a divisor of 0."""

from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.emit.math.rounding import rounded
from neurald.drivers.cpu.emit.vector import Vector

#: Quotients of so many bits times a float are exact in a double.
_QUOTIENT_BITS = 28
#: So many bits the quotient of two floats can have.
_FLOAT_QUOTIENT_BITS = 277


def divide(
    v: Vector, element: str, dividend: str, divisor: str, op: Op, *, is_signed: bool, known: int | None = None
) -> str:
    """A quotient or remainder of integers. Never traps; by 0 it gives anything.

    Args:
        v: where instructions go.
        element: the type of all.
        dividend, divisor: the operands.
        op: FLOOR_DIVIDE, MODULO or TRUNCATE_DIVIDE.
        is_signed: whether they may be negative.
        known: the divisor, where it is a constant.
    """
    quotient = _quotient(v, element, dividend, divisor, known, is_signed=is_signed)
    if op is Op.TRUNCATE_DIVIDE or (op is Op.FLOOR_DIVIDE and not is_signed):
        return quotient
    rest = v.two("sub", element, dividend, v.two("mul", element, quotient, divisor))
    if not is_signed:
        return rest
    zero = v.number(element, 0)
    differs = v.compare("slt", element, v.two("xor", element, rest, divisor), zero)
    is_off = v.two("and", "i1", differs, v.compare("ne", element, rest, zero))
    if op is Op.MODULO:
        return v.two("add", element, rest, v.choose(is_off, element, divisor, zero))
    return v.two("add", element, quotient, v.cast("sext", "i1", is_off, element))


def _quotient(
    v: Vector, element: str, dividend: str, divisor: str, known: int | None, *, is_signed: bool
) -> str:
    """Towards zero."""
    operation = "sdiv" if is_signed else "udiv"
    if known is not None and known not in (0, -1):
        return v.two(operation, element, dividend, divisor)
    zero, one = v.number(element, 0), v.number(element, 1)
    is_zero = v.compare("eq", element, divisor, zero)
    if not is_signed:
        return _unsafe(v, element, dividend, v.choose(is_zero, element, one, divisor), is_signed=False)
    # The smallest number by -1 does not fit.
    is_minus = v.compare("eq", element, divisor, v.number(element, -1))
    safe = v.choose(v.two("or", "i1", is_zero, is_minus), element, one, divisor)
    quotient = _unsafe(v, element, dividend, safe, is_signed=True)
    return v.choose(is_minus, element, v.two("sub", element, zero, dividend), quotient)


def _unsafe(v: Vector, element: str, dividend: str, divisor: str, *, is_signed: bool) -> str:
    if v.lanes == 1 or int(element[1:]) > 32:
        return v.two("sdiv" if is_signed else "udiv", element, dividend, divisor)
    # The quotient of doubles is never off by as much as it is away from the next whole number.
    convert, back = ("sitofp", "fptosi") if is_signed else ("uitofp", "fptoui")
    first, second = (v.cast(convert, element, each, "double") for each in (dividend, divisor))
    wide = v.cast(back, "double", v.two("fdiv", "double", first, second), "i32")
    return wide if element == "i32" else v.cast("trunc", "i32", wide, element)


def float_remainder(v: Vector, element: str, dividend: str, divisor: str) -> str:
    """What a floored quotient of floats leaves, with the divisor's sign. Of floats exactly.

    Of doubles it is exact for quotients below 2^53 that are exact themselves, and an approximation for others.
    """
    x, y = (v.call("llvm.fabs", element, each) for each in (dividend, divisor))
    rest = _float_rest(v, x, y) if element == "float" else _double_rest(v, x, y)
    # Nothing is left of what is smaller than the divisor, which may be infinite.
    rest = v.choose(v.compare("olt", element, x, y), element, x, rest)
    rest = v.call("llvm.copysign", element, rest, dividend)
    zero = v.number(element, 0.0)
    is_below = v.compare("olt", element, rest, zero)
    differs = v.two("xor", "i1", is_below, v.compare("olt", element, divisor, zero))
    is_off = v.two("and", "i1", differs, v.compare("one", element, rest, zero))
    return v.choose(is_off, element, v.two("fadd", element, rest, divisor), rest)


def _float_rest(v: Vector, x: str, y: str) -> str:
    """Of positive floats: a quotient of few bits is exact, and so is what it leaves; from the upper bits to the lower."""
    rest, wide = (v.cast("fpext", "float", each, "double") for each in (x, y))
    zero = v.number("double", 0.0)
    steps = -(-_FLOAT_QUOTIENT_BITS // _QUOTIENT_BITS)
    for step in reversed(range(steps)):
        part = v.two("fmul", "double", wide, v.number("double", 2.0 ** (step * _QUOTIENT_BITS)))
        quotient = rounded(v, "double", v.two("fdiv", "double", rest, part), "trunc")
        rest = v.two("fsub", "double", rest, v.two("fmul", "double", quotient, part))
        # The quotient may have been rounded up to the next whole number.
        corrected = v.two("fadd", "double", rest, part)
        rest = v.choose(v.compare("olt", "double", rest, zero), "double", corrected, rest)
    return v.cast("fptrunc", "double", rest, "float")


def _double_rest(v: Vector, x: str, y: str) -> str:
    quotient = rounded(v, "double", v.two("fdiv", "double", x, y), "trunc")
    rest = v.fma("double", v.negate("double", quotient), y, x)
    corrected = v.two("fadd", "double", rest, y)
    return v.choose(v.compare("olt", "double", rest, v.number("double", 0.0)), "double", corrected, rest)

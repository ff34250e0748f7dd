"""Quotients and remainders: vectorised, and without traps on a divisor of 0."""

from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.emit.math.rounding import rounded
from neurald.drivers.cpu.emit.vector import Vector

#: Bits of a quotient whose product with a float is exact in a double.
_QUOTIENT_BITS = 28
#: Bits of integers that doubles contain, and whose quotients they contain after truncation.
_EXACT_BITS = 52
#: Size of the smallest vectors with instructions that convert integers of 64 bits, in bytes.
_MIN_CONVERSION_BYTES = 64
#: Maximum bits of the quotient of two floats.
_FLOAT_QUOTIENT_BITS = 277


def divide(
    v: Vector, element: str, dividend: str, divisor: str, op: Op, *, is_signed: bool, known: int | None = None
) -> str:
    """Computes a quotient or remainder of integers. Never traps; division by 0 yields any number.

    Args:
        v: receives the instructions.
        element: the type of operands and result.
        dividend, divisor: the operands.
        op: FLOOR_DIVIDE, MODULO or TRUNCATE_DIVIDE.
        is_signed: True if the operands are signed.
        known: the divisor, if it is constant.
    """
    quotient = _quotient(v, element, dividend, divisor, known, is_signed=is_signed)
    if op is Op.TRUNCATE_DIVIDE or (op is Op.FLOOR_DIVIDE and not is_signed):
        return quotient
    rest = v.binary("sub", element, dividend, v.binary("mul", element, quotient, divisor))
    if not is_signed:
        return rest
    zero = v.number(element, 0)
    differs = v.compare("slt", element, v.binary("xor", element, rest, divisor), zero)
    is_off = v.binary("and", "i1", differs, v.compare("ne", element, rest, zero))
    if op is Op.MODULO:
        return v.binary("add", element, rest, v.select(is_off, element, divisor, zero))
    return v.binary("add", element, quotient, v.cast("sext", "i1", is_off, element))


def _quotient(
    v: Vector, element: str, dividend: str, divisor: str, known: int | None, *, is_signed: bool
) -> str:
    """Computes a truncated quotient."""
    operation = "sdiv" if is_signed else "udiv"
    if known is not None and known not in (0, -1):
        return v.binary(operation, element, dividend, divisor)
    zero, one = v.number(element, 0), v.number(element, 1)
    is_zero = v.compare("eq", element, divisor, zero)
    if not is_signed:
        return _unsafe(v, element, dividend, v.select(is_zero, element, one, divisor), is_signed=False)
    # Dividing the smallest number by -1 overflows.
    is_minus = v.compare("eq", element, divisor, v.number(element, -1))
    safe = v.select(v.binary("or", "i1", is_zero, is_minus), element, one, divisor)
    quotient = _unsafe(v, element, dividend, safe, is_signed=True)
    return v.select(is_minus, element, v.binary("sub", element, zero, dividend), quotient)


def _unsafe(v: Vector, element: str, dividend: str, divisor: str, *, is_signed: bool) -> str:
    is_long = int(element[1:]) > 32
    if is_long and v.lanes > 1 and v.target.vector_bytes >= _MIN_CONVERSION_BYTES:
        return _long_quotient(v, element, dividend, divisor, is_signed=is_signed)
    if v.lanes == 1 or is_long:
        return v.binary("sdiv" if is_signed else "udiv", element, dividend, divisor)
    # The error of a double quotient is smaller than its distance to the next integer.
    convert, back = ("sitofp", "fptosi") if is_signed else ("uitofp", "fptoui")
    first, second = (v.cast(convert, element, each, "double") for each in (dividend, divisor))
    wide = v.cast(back, "double", v.binary("fdiv", "double", first, second), "i32")
    return wide if element == "i32" else v.cast("trunc", "i32", wide, element)


def _long_quotient(v: Vector, element: str, dividend: str, divisor: str, *, is_signed: bool) -> str:
    """Computes a quotient in doubles, unless a lane has a large number."""
    bias, limit = v.number(element, 1 << _EXACT_BITS), v.number(element, 1 << (_EXACT_BITS + 1))
    convert, back = ("sitofp", "fptosi") if is_signed else ("uitofp", "fptoui")
    large: list[str] = []
    reals: list[str] = []
    for each in (dividend, divisor):
        shifted = v.binary("add", element, each, bias) if is_signed else each
        large.append(v.compare("ugt", element, shifted, limit if is_signed else bias))
        reals.append(v.cast(convert, element, each, "double"))
    quotient = v.cast(back, "double", v.binary("fdiv", "double", *reals), element)
    iterations = v.code.value(f"zext i1 {v.any_lane(v.binary('or', 'i1', *large))} to i64")
    # A loop of at most one iteration acts as a branch, since numbers are rarely so large. It
    # carries the dividend, without which the quotient would be computed before it.
    kind = v.type(element)
    with v.code.loop("0", iterations, [(kind, quotient), (kind, dividend)], may_be_empty=True) as loop:
        _, carried = loop.carried
        loop.results = [
            v.binary("sdiv" if is_signed else "udiv", element, carried, divisor),
            carried,
        ]
    return loop.results[0]


def floor_quotient(v: Vector, element: str, dividend: str, divisor: str) -> str:
    """Computes the floored quotient of floats, or of doubles."""
    first, second = (
        v.cast("fpext", element, each, "double") if element == "float" else each
        for each in (dividend, divisor)
    )
    whole = rounded(v, "double", v.binary("fdiv", "double", first, second), "floor")
    return v.cast("fptrunc", "double", whole, "float") if element == "float" else whole


def float_remainder(v: Vector, element: str, dividend: str, divisor: str) -> str:
    """Computes the remainder of a floored quotient, with the divisor's sign.

    It is exact for floats. For doubles it is exact if the quotient is below 2^53 and exact itself,
    and an approximation otherwise.
    """
    x, y = (v.call("llvm.fabs", element, each) for each in (dividend, divisor))
    rest = _float_rest(v, x, y) if element == "float" else _double_rest(v, x, y)
    # Handles dividends smaller than the divisor, which may be infinite.
    rest = v.select(v.compare("olt", element, x, y), element, x, rest)
    rest = v.call("llvm.copysign", element, rest, dividend)
    zero = v.number(element, 0.0)
    is_below = v.compare("olt", element, rest, zero)
    differs = v.binary("xor", "i1", is_below, v.compare("olt", element, divisor, zero))
    is_off = v.binary("and", "i1", differs, v.compare("one", element, rest, zero))
    return v.select(is_off, element, v.binary("fadd", element, rest, divisor), rest)


def _float_rest(v: Vector, x: str, y: str) -> str:
    """Returns the remainder of positive floats by long division.

    Each step takes so few bits of the quotient that its product with the divisor is exact.
    """
    rest, wide = (v.cast("fpext", "float", each, "double") for each in (x, y))
    limit = _scaled(v, wide, _QUOTIENT_BITS)
    iterations = v.code.value(f"zext i1 {v.any_lane(v.compare('oge', 'double', rest, limit))} to i64")
    # A loop of at most one iteration acts as a branch, since quotients are rarely so large.
    with v.code.loop("0", iterations, [(v.type("double"), rest)], may_be_empty=True) as loop:
        (left,) = loop.carried
        steps = -(-_FLOAT_QUOTIENT_BITS // _QUOTIENT_BITS)
        for step in reversed(range(1, steps)):
            left = _step(v, left, _scaled(v, wide, step * _QUOTIENT_BITS))
        loop.results = [left]
    return v.cast("fptrunc", "double", _step(v, loop.results[0], wide), "float")


def _scaled(v: Vector, value: str, bits: int) -> str:
    return v.binary("fmul", "double", value, v.number("double", 2.0**bits))


def _step(v: Vector, rest: str, part: str) -> str:
    """Returns the remainder of positive doubles whose quotient has few bits."""
    quotient = rounded(v, "double", v.binary("fdiv", "double", rest, part), "trunc")
    rest = v.binary("fsub", "double", rest, v.binary("fmul", "double", quotient, part))
    # The quotient may have been rounded up to the next integer.
    corrected = v.binary("fadd", "double", rest, part)
    is_below = v.compare("olt", "double", rest, v.number("double", 0.0))
    return v.select(is_below, "double", corrected, rest)


def _double_rest(v: Vector, x: str, y: str) -> str:
    quotient = rounded(v, "double", v.binary("fdiv", "double", x, y), "trunc")
    rest = v.fma("double", v.negate("double", quotient), y, x)
    corrected = v.binary("fadd", "double", rest, y)
    return v.select(v.compare("olt", "double", rest, v.number("double", 0.0)), "double", corrected, rest)

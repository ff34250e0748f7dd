"""Vectorised math functions as polynomials, without external calls.

Errors stated below and in `angles` are the largest found against float64 over dense samples of
FLOAT32, in units in the last place (ULP) of the result unless stated otherwise. FLOAT64 uses the
same methods with longer polynomials, within 1e-13 of the result.

Infinities, NaN, zeros and denormals behave as in IEEE 754 and C.
"""

import math

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.float_powers import magnitude
from neurald.drivers.cpu.emit.math.float_tables import looked_up
from neurald.drivers.cpu.emit.math.floats import FLOAT, LN2, Floats
from neurald.drivers.cpu.emit.math.inverse_roots import has_inverse_roots, refined_inverse_root
from neurald.drivers.cpu.emit.math.rounding import rounded
from neurald.drivers.cpu.emit.math.wide_floats import (
    exponent_of,
    has_wide_floats,
    inverse_root,
    scaled,
    significand,
)
from neurald.drivers.cpu.emit.vector import Vector

#: Least limit of `weight`: e^x is a normal number.
MIN_WEIGHT_EXPONENT = -87.0
#: 2^(k/16), and the terms of r² and r³ of e^r for |r| < 0.0218, with an error of 1.6e-9.
_SIXTEENTHS = tuple(2.0 ** (k / 16) for k in range(16))
_SMALL_POWER = (0.50001626, 0.16667033)
#: (e^r - 1) / r for |r| < 0.348, with an error of 0.8 ULP of e^r.
_WEIGHT = (0.999999702, 0.499991417, 0.166676462, 0.0418991633, 0.00829008687)


def exp(v: Vector, element: str, x: str, is_zero: str = "") -> str:
    """Computes e^x with an error of at most 1.1 ULP, or 0 if that is below the normal numbers.

    Numbers below these take many processors over a hundred cycles.

    Args:
        v: receives the instructions.
        element: the type of the operand.
        x: the operand.
        is_zero: an i1, true where the result is 0, at least where it is below the normal numbers;
            empty for only these.
    """
    f = Floats(v, element)
    is_zero = is_zero or f.is_("olt", x, f.format.smallest_exp)
    if has_wide_floats(v, element):
        # Masked elements of a softmax are far below.
        limited = f.cut(x, math.floor(f.format.smallest_exp), math.ceil(f.format.largest_exp))
        return f.select(is_zero, f.number(0), scaled(v, *tabled_power(v, limited, 1.0)))
    _, power, r = f.reduced(x)
    power = f.integers("shl", power, f.whole(f.format.fraction_bits))
    below_two = f.to_bits(f.add(f.exp_below_one(r), f.number(1)))
    result = f.from_bits(f.integers("add", below_two, power))
    # Infinite, or NaN.
    other = f.multiply(x, f.number(math.inf))
    result = f.select(f.is_("ugt", x, f.format.largest_exp), other, result)
    return f.select(is_zero, f.number(0), result)


def tabled_power(v: Vector, x: str, factor: float) -> tuple[str, str]:
    """Returns p and n for which e^(factor·x) = p·2^⌊n⌋, with 1 ≤ p ≤ 2; see `scaled`.

    A table of 2^(k/16) leaves so small an exponent that two terms follow 1 + r.

    Args:
        v: has wide floats.
        x: the operand.
        factor: what x is multiplied with; see `Floats.less_multiple`.
    """
    f = Floats(v, FLOAT.element)
    # The low bits of the sum are the number of the sixteenth.
    magic = f.number(f.format.magic / len(_SIXTEENTHS))
    found = f.fma(x, f.number(factor / LN2), magic)
    n, root = f.subtract(found, magic), looked_up(v, _SIXTEENTHS, f.to_bits(found))
    rest = f.less_multiple(x, n, factor)
    square, cube = (term * factor**power for power, term in enumerate(_SMALL_POWER, start=2))
    slope = f.fma(f.fma(rest, f.number(cube), f.number(square)), rest, f.number(factor))
    return f.fma(f.multiply(root, rest), slope, root), n


def weight(v: Vector, x: str, limit: float) -> str:
    """Computes e^x in FLOAT32 for x of at most 0 or NaN; 0 for x below a limit.

    The error is at most 2.5 ULP for x ≥ -20, and 5 for smaller ones.

    Args:
        v: receives the instructions.
        x: the operand.
        limit: at least `MIN_WEIGHT_EXPONENT`.
    """
    f = Floats(v, FLOAT.element)
    is_kept = f.is_("uge", x, limit)
    # Powers below the normal numbers would take many processors over a hundred cycles.
    x = f.select(f.is_("olt", x, limit), f.number(limit), x)
    n, scale = f.whole_power(x, 1 / LN2)
    if v.target.has_fma:
        r = f.fma(n, f.number(-LN2), x)
    else:
        r = f.fma(n, f.number(-FLOAT.ln2_low), f.fma(n, f.number(-FLOAT.ln2_high), x))
    rest = v.polynomial(FLOAT.element, r, _WEIGHT)
    if has_wide_floats(v, FLOAT.element):
        result = scaled(v, f.fma(rest, r, f.number(1)), n)
    else:
        result = f.fma(f.multiply(r, scale), rest, scale)
    return f.select(is_kept, result, f.number(0))


def limited_exponent(expression: Apply) -> tuple[Expression, Expression, float] | None:
    """Matches a FLOAT32 exponential that is 0 below a limit.

    Returns:
        The condition under which it is 0, the exponent, and the limit; None if it does not match.
    """
    if expression.op is not Op.EXP or expression.type is not Scalar.FLOAT32:
        return None
    (chosen,) = expression.arguments
    if not isinstance(chosen, Apply) or chosen.op is not Op.SELECT:
        return None
    is_below, other, exponent = chosen.arguments
    if not isinstance(is_below, Apply) or is_below.op is not Op.LESS or is_below.arguments[0] is not exponent:
        return None
    limit, smallest = is_below.arguments[1], FLOAT.smallest_exp
    if not isinstance(limit, Constant) or not isinstance(other, Constant):
        return None
    is_exact = float(limit.value) >= smallest > float(other.value)
    return (is_below, exponent, float(limit.value)) if is_exact else None


def expm1(v: Vector, element: str, x: str) -> str:
    """Computes e^x - 1 with an error of at most 1.8 ULP."""
    f = Floats(v, element)
    n, power, r = f.reduced(
        f.cut(x, -45.0 if element == "double" else -20.0, math.ceil(f.format.largest_exp))
    )
    if has_wide_floats(v, element):
        half = scaled(v, f.number(0.5), n)
    else:
        half = f.power_of_two(f.integers("sub", power, f.whole(1)))
    result = f.fma(half, f.exp_below_one(r), f.subtract(half, f.number(0.5)))
    return f.with_sign(f.multiply(result, f.number(2)), x)


def expm1_below_zero(v: Vector, element: str, x: str) -> str:
    """Computes e^x - 1 of an x of at most 0 or NaN with an error of at most 1.1 ULP."""
    f = Floats(v, element)
    n, power, r = f.reduced(f.at_least(x, -45.0 if element == "double" else -20.0))
    scale = scaled(v, f.number(1), n) if has_wide_floats(v, element) else f.power_of_two(power)
    result = f.fma(scale, f.exp_below_one(r), f.subtract(scale, f.number(1)))
    return f.with_sign(result, x)


def _split(f: Floats, x: str) -> tuple[str, str]:
    """Returns n (a float) and m near 1 with x = m·2^n, for 0 < x < ∞."""
    v, form = f.v, f.format
    is_small = f.is_("olt", x, form.smallest_normal)
    large = f.select(is_small, f.multiply(x, f.number(2.0**form.fraction_bits)), x)
    bits = f.to_bits(large)
    root = f.to_bits(f.number(math.sqrt(0.5)))
    shift = f.whole(form.fraction_bits)
    exponent = f.integers("ashr", f.integers("sub", bits, root), shift)
    m = f.from_bits(f.integers("sub", bits, f.integers("shl", exponent, shift)))
    lowered = f.integers("sub", exponent, shift)
    exponent = v.select(is_small, form.integer, lowered, exponent)
    return v.cast("sitofp", form.integer, exponent, f.element), m


def _log(f: Floats, x: str) -> str:
    """Computes the logarithm for 0 < x < ∞; with wide floats, for every x."""
    v, form = f.v, f.format
    if has_wide_floats(v, f.element):
        m = significand(v, x)
        n = f.subtract(exponent_of(v, x), exponent_of(v, m))
    else:
        n, m = _split(f, x)
    t = f.subtract(m, f.number(1))
    s = f.divide(t, f.add(t, f.number(2)))
    z = f.multiply(s, s)
    rest = f.multiply(z, v.polynomial(f.element, z, form.log))
    # ln(1 + t) = t - s·(t - rest): the term added to t is small.
    small = f.fma(f.subtract(rest, t), s, f.multiply(n, f.number(form.ln2_low)))
    return f.fma(n, f.number(form.ln2_high), f.add(t, small))


def _is_finite_above(f: Floats, x: str) -> str:
    """Returns an i1 that is true for 0 < x < ∞."""
    return f.v.binary("and", "i1", f.is_("ogt", x, 0.0), f.is_("olt", x, math.inf))


def _log_of_others(f: Floats, x: str) -> str:
    """Returns the logarithm of 0, ∞, NaN and negative numbers."""
    other = f.select(f.is_("olt", x, 0.0), f.number(math.nan), x)
    return f.select(f.is_("oeq", x, 0.0), f.number(-math.inf), other)


def log(v: Vector, element: str, x: str) -> str:
    """Computes the natural logarithm with an error of at most 1 ULP."""
    f = Floats(v, element)
    if has_wide_floats(v, element):
        return _log(f, x)
    return f.select(_is_finite_above(f, x), _log(f, x), _log_of_others(f, x))


def log1p(v: Vector, element: str, x: str) -> str:
    """Computes the natural logarithm of 1 + x with an error of at most 1.6 ULP."""
    f = Floats(v, element)
    one = f.number(1)
    whole = f.add(x, one)
    # Rounding error of 1 + x.
    lost = f.subtract(x, f.subtract(whole, one))
    result = f.add(_log(f, whole), f.divide(lost, whole))
    result = f.with_sign(result, x)
    return f.select(_is_finite_above(f, whole), result, _log_of_others(f, whole))


def rsqrt(v: Vector, element: str, x: str) -> str:
    """Computes 1 / √x with an error of at most 1.5 ULP."""
    if has_wide_floats(v, element):
        return inverse_root(v, x)
    if has_inverse_roots(v, element):
        return refined_inverse_root(v, x)
    return v.binary("fdiv", element, v.number(element, 1.0), v.call("llvm.sqrt", element, x))


def power(v: Vector, element: str, x: str, y: str) -> str:
    """Computes x^y in double precision; the error of a float is at most 0.6 ULP."""
    f = Floats(v, element)
    base = f.absolute(x)
    if element == "float":
        result = magnitude(v, base, y)
    else:
        result = exp(v, element, f.multiply(y, log(v, element, base)))
    is_one = v.binary("or", "i1", f.is_("oeq", base, 1.0), f.is_("oeq", y, 0.0))
    result = f.select(is_one, f.number(1), result)
    half = f.multiply(y, f.number(0.5))
    is_whole = v.compare("oeq", element, rounded(v, element, y, "trunc"), y)
    is_odd = v.compare("one", element, rounded(v, element, half, "trunc"), half)
    is_odd = v.binary("and", "i1", is_odd, is_whole)
    is_negative = v.compare("slt", f.format.integer, f.to_bits(x), f.whole(0))
    negative = f.select(is_odd, v.negate(element, result), result)
    is_undefined = v.binary("and", "i1", f.is_("one", base, math.inf), f.is_("one", base, 0.0))
    is_undefined = v.binary("and", "i1", is_undefined, v.binary("xor", "i1", is_whole, v.number("i1", 1)))
    negative = f.select(is_undefined, f.number(math.nan), negative)
    result = f.select(is_negative, negative, result)
    is_nan = v.compare("uno", element, x, y)
    is_certain = v.binary("or", "i1", f.is_("oeq", x, 1.0), f.is_("oeq", y, 0.0))
    result = f.select(is_nan, f.add(x, y), result)
    return f.select(is_certain, f.number(1), result)


def integer_power(v: Vector, element: str, x: str, y: str) -> str:
    """Computes x^y for integers modulo 2^bits; 1 for negative y."""
    zero, one = v.number(element, 0), v.number(element, 1)
    result = one
    for bit in range(int(element[1:]) - 1):
        mask = v.binary("and", element, y, v.number(element, 1 << bit))
        is_set = v.compare("ne", element, mask, zero)
        result = v.select(is_set, element, v.binary("mul", element, result, x), result)
        x = v.binary("mul", element, x, x)
    return v.select(v.compare("slt", element, y, zero), element, one, result)

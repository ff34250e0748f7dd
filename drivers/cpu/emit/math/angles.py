"""Vectorised sine, cosine, tangent and atan2; see `neurald.drivers.cpu.emit.math.vector_math`.

Floats of any size are reduced exactly: small ones as floats, larger ones as doubles, and the
largest with a table. Doubles above 2^28 are not: their results are as good as for an argument that
is off by some units in the last place.
"""

import math
from functools import cache

from neurald.drivers.cpu.emit.math.floats import FLOAT, Floats
from neurald.drivers.cpu.emit.vector import Vector, literal
from neurald.drivers.cpu.emit.vector_memory import gather
from neurald.drivers.cpu.target.routine import NAME

#: π/2 as a sum; products of the first part with small integers are exact in a double.
_HALF_PI_HIGH = 1.57079631090164184570
_HALF_PI_LOW = 1.58932547735281966916e-08
#: π/2 as a sum of floats.
_HALF_PI_PARTS = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
#: Below this a float can be reduced as such: its multiple of π/2 has few enough bits to be exact.
_SMALL = 1000.0
#: (sin r - r) / r³ in r² for |r| ≤ π/2, with an error of 6e-9 of the sine.
_SINE = (-0.166666595, 0.00833306608, -0.000198095901, 2.60575070e-06)
#: From here on a float is reduced by exact multiples of 2/π.
_LARGE = 2.0**28
#: Table of 2^e·2/π modulo 4 for the exponent of each large float, as a sum of three numbers: two of
#: 29 bits, and the rest.
_TURNS_BITS = 29
_TURNS = f"@{NAME}_turns"


def _inverse_of_half_pi(bits: int) -> int:
    """Returns 2/π × 2^bits, rounded down, with π = 16·arctan(1/5) - 4·arctan(1/239)."""
    guard = 32
    one = 1 << (bits + guard)

    def inverse_tangent(n: int) -> int:
        total, power, divisor, sign = 0, one // n, 1, 1
        while power:
            total += sign * (power // divisor)
            power, divisor, sign = power // (n * n), divisor + 2, -sign
        return total

    pi = 16 * inverse_tangent(5) - 4 * inverse_tangent(239)
    return (2 * one * one // pi) >> guard


@cache
def _turns_table() -> str:
    """Returns the definition of the table `_TURNS`."""
    scale = 256
    ratio = _inverse_of_half_pi(scale)
    first_exponent = int(math.log2(_LARGE)) - FLOAT.fraction_bits
    numbers = []
    for exponent in range(first_exponent, FLOAT.bias - FLOAT.fraction_bits + 1):
        turn = (ratio << exponent) % (4 << scale)
        for bits in (_TURNS_BITS - 2, 2 * _TURNS_BITS - 2):
            part = turn >> (scale - bits)
            numbers.append(math.ldexp(part, -bits))
            turn -= part << (scale - bits)
        numbers.append(math.ldexp(turn, -scale))
    texts = ", ".join(f"double {literal('double', each)}" for each in numbers)
    return f"{_TURNS} = private unnamed_addr constant [{len(numbers)} x double] [{texts}]"


def _large_turns(v: Vector, x: str) -> tuple[str, str]:
    """Reduces a float of at least `_LARGE` to a multiple of π/2.

    Returns the nearest integer, and the remainder as a double.
    """
    if _turns_table() not in v.code.globals:
        v.code.globals.append(_turns_table())
    bits = v.bitcast("float", x, "i32")
    shift = v.number("i32", FLOAT.fraction_bits)
    exponent = v.binary("and", "i32", v.binary("lshr", "i32", bits, shift), v.number("i32", 0xFF))
    first = v.number("i32", int(math.log2(_LARGE)) + FLOAT.bias)
    row = v.call("llvm.smax", "i32", v.binary("sub", "i32", exponent, first), v.number("i32", 0))
    row = v.call("llvm.smin", "i32", row, v.number("i32", FLOAT.bias - int(math.log2(_LARGE))))
    offset = v.binary("mul", "i32", row, v.number("i32", 3))
    fraction = v.binary("and", "i32", bits, v.number("i32", (1 << FLOAT.fraction_bits) - 1))
    whole = v.binary("or", "i32", fraction, v.number("i32", 1 << FLOAT.fraction_bits))
    d = Floats(v, "double")
    m = v.call("llvm.copysign", "double", v.cast("sitofp", "i32", whole, "double"), d.widened(x))
    parts = []
    for column in range(3):
        at = v.binary("add", "i32", offset, v.number("i32", column))
        parts.append(d.multiply(m, gather(v, "double", _TURNS, "i32", at)))
    n, quarters = d.nearest(parts[0], 1.0)
    rest = d.add(d.add(d.subtract(parts[0], n), parts[1]), parts[2])
    more, further = d.nearest(rest, 1.0)
    return d.integers("add", quarters, further), d.subtract(rest, more)


def _reduced_angle(v: Vector, x: str) -> tuple[str, str]:
    """Returns r and n of a float x = n·π/2 + r with |r| ≤ π/4."""
    if not v.target.has_fma:
        return _reduced_as_double(v, x)
    f = Floats(v, "float")
    n, quarter = f.nearest(x, 2 / math.pi)
    remainder = x
    for part in _HALF_PI_PARTS:
        remainder = f.fma(n, f.number(-part), remainder)
    is_far = f.is_("oge", f.absolute(x), _SMALL)
    iterations = v.code.value(f"zext i1 {v.any_lane(is_far)} to i64")
    carried = [(v.type("float"), remainder), (v.type("i32"), quarter), (v.type("float"), x)]
    # A loop of at most one iteration acts as a branch, since angles are rarely so large.
    with v.code.loop("0", iterations, carried, may_be_empty=True) as loop:
        remainder, quarter, far = loop.carried
        is_far = f.is_("oge", f.absolute(far), _SMALL)
        others, quarters = _reduced_as_double(v, far)
        loop.results = [f.select(is_far, others, remainder), v.select(is_far, "i32", quarters, quarter), far]
    return loop.results[0], loop.results[1]


def _reduced_as_double(v: Vector, x: str) -> tuple[str, str]:
    """Reduces a float of any size; see `_reduced_angle`."""
    d = Floats(v, "double")
    remainder, quarter = _near_angle(d, d.widened(x))
    remainder = v.cast("fptrunc", "double", remainder, "float")
    quarter = v.cast("trunc", "i64", quarter, "i32")
    f = Floats(v, "float")
    is_large = v.binary(
        "and", "i1", f.is_("oge", f.absolute(x), _LARGE), f.is_("olt", f.absolute(x), math.inf)
    )
    iterations = v.code.value(f"zext i1 {v.any_lane(is_large)} to i64")
    carried = [(v.type("float"), remainder), (v.type("i32"), quarter), (v.type("float"), x)]
    # A loop of at most one iteration acts as a branch, since large floats are rare.
    with v.code.loop("0", iterations, carried, may_be_empty=True) as loop:
        remainder, quarter, large = loop.carried
        quarters, rest = _large_turns(v, large)
        angle = v.cast("fptrunc", "double", d.multiply(rest, d.number(math.pi / 2)), "float")
        is_large = f.is_("oge", f.absolute(large), _LARGE)
        loop.results = [
            f.select(is_large, angle, remainder),
            v.select(is_large, "i32", v.cast("trunc", "i64", quarters, "i32"), quarter),
            large,
        ]
    remainder, quarter, _ = loop.results
    # Infinities yield NaN.
    return f.select(f.is_("oeq", f.absolute(x), math.inf), f.number(math.nan), remainder), quarter


def _near_angle(d: Floats, x: str) -> tuple[str, str]:
    """Reduces doubles below `_LARGE`; see `_reduced_angle`."""
    n, quarter = d.nearest(x, 2 / math.pi)
    remainder = d.fma(n, d.number(-_HALF_PI_HIGH), x)
    return d.fma(n, d.number(-_HALF_PI_LOW), remainder), quarter


def _quarters(v: Vector, element: str, x: str) -> tuple[str, str, str]:
    """Returns sin r, cos r and n of x = n·π/2 + r with |r| ≤ π/4."""
    f = Floats(v, element)
    return _parts(f, *(_near_angle(f, x) if element == "double" else _reduced_angle(v, x)))


def _parts(f: Floats, reduced: str, quarter: str) -> tuple[str, str, str]:
    """Returns the sine and cosine of a reduced angle, and its quarter."""
    z = f.multiply(reduced, reduced)
    sine = f.fma(f.multiply(z, reduced), f.v.polynomial(f.element, z, f.format.sin), reduced)
    one = f.fma(z, f.number(-0.5), f.number(1))
    cosine = f.fma(f.multiply(z, z), f.v.polynomial(f.element, z, f.format.cos), one)
    return sine, cosine, quarter


def _circular(v: Vector, element: str, x: str, turned: int) -> str:
    """Computes the sine of x + turned·π/2."""
    if element != "float" or not v.target.has_fma:
        return _circular_of_quarters(v, element, _quarters(v, element, x), turned)
    f = Floats(v, element)
    near = _near_sine(f, x, turned)
    is_far = f.is_("oge", f.absolute(x), _SMALL)
    iterations = v.code.value(f"zext i1 {v.any_lane(is_far)} to i64")
    carried = [(v.type("float"), near), (v.type("float"), x)]
    # A loop of at most one iteration acts as a branch, since angles are rarely so large.
    with v.code.loop("0", iterations, carried, may_be_empty=True) as loop:
        near, far = loop.carried
        is_far = f.is_("oge", f.absolute(far), _SMALL)
        parts = _parts(f, *_reduced_as_double(v, far))
        loop.results = [f.select(is_far, _circular_of_quarters(v, element, parts, turned), near), far]
    return loop.results[0]


def _near_sine(f: Floats, x: str, turned: int) -> str:
    """Computes the sine of x + turned·π/2 for a float x below `_SMALL`.

    Half turns only change the sign of a sine. With r = x - n·π/2 for the nearest n that is even, or
    odd for a cosine, a single polynomial is enough.
    """
    v, magic = f.v, f.number(f.format.magic)
    if turned:
        found = f.add(f.fma(x, f.number(1 / math.pi), f.number(-0.5)), magic)
        n = f.add(f.subtract(found, magic), f.number(0.5))
    else:
        found = f.fma(x, f.number(1 / math.pi), magic)
        n = f.subtract(found, magic)
    r = x
    for part in _HALF_PI_PARTS:
        r = f.fma(n, f.number(-2 * part), r)
    z = f.multiply(r, r)
    sine = f.fma(f.multiply(z, r), v.polynomial(f.element, z, _SINE), r)
    # With n + 1/2 half turns, a cosine is the sine of r with the other sign.
    bits = f.integers("add", f.to_bits(found), f.whole(1)) if turned else f.to_bits(found)
    sign = f.integers("shl", bits, f.whole(31))
    return f.from_bits(f.integers("xor", f.to_bits(sine), sign))


def _circular_of_quarters(v: Vector, element: str, parts: tuple[str, str, str], turned: int) -> str:
    """Computes the sine of x + turned·π/2 from what `_quarters` returns."""
    f = Floats(v, element)
    sine, cosine, quarter = parts
    quarter = f.integers("add", quarter, f.whole(turned)) if turned else quarter
    is_odd = v.compare("ne", f.format.integer, f.integers("and", quarter, f.whole(1)), f.whole(0))
    is_negative = v.compare("ne", f.format.integer, f.integers("and", quarter, f.whole(2)), f.whole(0))
    result = f.select(is_odd, cosine, sine)
    return f.select(is_negative, v.negate(element, result), result)


def sin(v: Vector, element: str, x: str) -> str:
    """Computes the sine with an error of at most 1.8 ULP."""
    return _circular(v, element, x, 0)


def cos(v: Vector, element: str, x: str) -> str:
    """Computes the cosine with an error of at most 1.8 ULP."""
    return _circular(v, element, x, 1)


def tan(v: Vector, element: str, x: str) -> str:
    """Computes the tangent with an error of at most 4 ULP."""
    f = Floats(v, element)
    sine, cosine, quarter = _quarters(v, element, x)
    is_odd = v.compare("ne", f.format.integer, f.integers("and", quarter, f.whole(1)), f.whole(0))
    above = f.select(is_odd, v.negate(element, cosine), sine)
    return f.divide(above, f.select(is_odd, sine, cosine))


def atan2(v: Vector, element: str, y: str, x: str) -> str:
    """Computes the angle of the point (x, y) with an error of at most 1.7 ULP."""
    f = Floats(v, element)
    height, width = f.absolute(y), f.absolute(x)
    is_steep = v.compare("ogt", element, height, width)
    large, small = f.select(is_steep, height, width), f.select(is_steep, width, height)
    # 0/0 counts as 0 and ∞/∞ as 1; NaN is handled at the end.
    ratio = f.divide(small, f.select(f.is_("oeq", large, 0.0), f.number(1), large))
    ratio = f.select(f.is_("oeq", small, math.inf), f.number(1), ratio)
    angle = _atan(f, ratio)
    angle = f.select(is_steep, f.subtract(f.number(math.pi / 2), angle), angle)
    sign = v.compare("slt", f.format.integer, f.to_bits(x), f.whole(0))
    angle = f.select(sign, f.subtract(f.number(math.pi), angle), angle)
    is_nan = v.compare("uno", element, x, y)
    return f.select(is_nan, f.add(x, y), f.with_sign(angle, y))


def _atan(f: Floats, a: str) -> str:
    """Computes the arctangent for 0 ≤ a ≤ 1."""
    moved = a
    is_moved = f.is_("ogt", a, f.format.atan_end)
    if f.format.atan_end < 1:
        other = f.divide(f.subtract(a, f.number(1)), f.add(a, f.number(1)))
        moved = f.select(is_moved, other, a)
    z = f.multiply(moved, moved)
    angle = f.fma(f.multiply(z, moved), f.v.polynomial(f.element, z, f.format.atan), moved)
    if f.format.atan_end < 1:
        angle = f.select(is_moved, f.add(angle, f.number(math.pi / 4)), angle)
    return angle

"""LOGISTIC, TANH, ERF, and the sums of the latter with 1 that activations multiply with.

Errors are stated as in `vector_math`. Those of sums with 1 are absolute: near -1 the function
itself is only known within the last place of 1.
"""

import math
from functools import cache

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.cpu.emit.math.float_tables import table_length
from neurald.drivers.cpu.emit.math.floats import FLOAT, LN2, Floats
from neurald.drivers.cpu.emit.math.piecewise_polynomial import (
    PiecewisePolynomial,
    even_pieces,
    evenly_piecewise,
    pieces,
    piecewise,
)
from neurald.drivers.cpu.emit.math.vector_math import exp, tabled_power
from neurald.drivers.cpu.emit.math.wide_floats import has_wide_floats, scaled
from neurald.drivers.cpu.emit.vector import Vector

#: Number of terms of the polynomials for the error function, by the number of parts.
_ERF_TERMS = {16: 6, 4: 9}
#: erf(x) for |x| up to `_ERF_END` is x times the quotient of these polynomials of x², within 3.8e-7
#: if products are added without rounding. At the end it is exactly 1.
_ERF_ABOVE = (1.12837899, 0.196247071, 0.053467229, 0.00400356669, 0.000288040086, 1.97484837e-06)
_ERF_BELOW = (1.0, 0.507250607, 0.116475642, 0.0154442601, 0.00121634174, 3.74809861e-05)
_ERF_END = 4.0
#: Length and terms of the parts of a table of 16, with which 1 + erf(x) is within 2.4e-7. The last
#: part is around 3.75, where erf is 1 - 1.1e-7.
_RISEN_STEP, _RISEN_TERMS, _RISEN_PARTS = 0.25, 5, 16
#: tanh(x) of a float16 likewise, within 3e-8 of it. At the end it rounds to 1 in float16.
_TANH_HALF_ABOVE = (1.0, 0.12587075, 0.0025482669, 5.434656e-06)
_TANH_HALF_BELOW = (1.0, 0.45920378, 0.022283394, 0.00017389821)
_TANH_HALF_END = 4.6
#: tanh(x) is 1 from here on, in double precision, too.
_TANH_END = 20.0
#: Gates have factors up to this and from its inverse on, whose powers are ordinary floats.
_MAX_GATE_FACTOR = 64.0


def logistic(v: Vector, element: str, x: str) -> str:
    """Computes 1 / (1 + e^-x) with an error of at most 2.5 ULP, or 0 for x below -88."""
    f = Floats(v, element)
    return f.divide(f.number(1), _one_and_power(f, x, -1.0))


def tanh(v: Vector, element: str, x: str) -> str:
    """Computes the hyperbolic tangent with an error of at most 2.7 ULP.

    With x = n·ln 2 / 2 + r it is (a + b) / (1 + a·b), where b = tanh(r) is a polynomial, and
    a = (2^n - 1) / (2^n + 1).
    """
    f = Floats(v, element)
    x = f.cut(x, -_TANH_END, _TANH_END)
    n, scale = f.whole_power(x, 2 / LN2)
    # For floats n is small enough that ln 2 need not be split.
    r, is_whole = x, element == "float" and v.target.has_fma
    for part in (LN2,) if is_whole else (f.format.ln2_high, f.format.ln2_low):
        r = f.fma(n, f.number(-part / 2), r)
    if has_wide_floats(v, element):
        scale = scaled(v, f.number(1), n)
    small = f.multiply(r, v.polynomial(element, f.multiply(r, r), (1, *f.format.tanh)))
    # The negated difference keeps the sign of 0.
    total, difference = f.add(scale, f.number(1)), v.negate(element, f.subtract(f.number(1), scale))
    return f.divide(f.fma(small, total, difference), f.fma(small, difference, total))


def tanh_of_half(expression: Apply) -> Expression | None:
    """Matches TANH of a float16 in FLOAT32, rounded to float16; returns the number, or None."""
    if expression.op is not Op.CONVERT or expression.type is not Scalar.FLOAT16:
        return None
    (curve,) = expression.arguments
    if not isinstance(curve, Apply) or curve.op is not Op.TANH or curve.type is not Scalar.FLOAT32:
        return None
    (number,) = curve.arguments
    is_half = isinstance(number, Apply) and number.op is Op.CONVERT
    return number if is_half and number.operands[0].type is Scalar.FLOAT16 else None


def tanh_for_half(v: Vector, x: str) -> str:
    """Computes the hyperbolic tangent of a float16 in FLOAT32, exact enough to round to it."""
    f = Floats(v, FLOAT.element)
    x = f.cut(x, -_TANH_HALF_END, _TANH_HALF_END)
    square = f.multiply(x, x)
    above = f.multiply(x, v.polynomial(f.element, square, _TANH_HALF_ABOVE))
    return f.divide(above, v.polynomial(f.element, square, _TANH_HALF_BELOW))


def erf(v: Vector, element: str, x: str) -> str:
    """Computes the error function with an error of at most 1.5 ULP."""
    f = Floats(v, element)
    a = f.at_most(f.absolute(x), f.format.erfc_end)
    parts = table_length(v, element)
    if parts:
        return f.with_sign(piecewise(f, _erf_pieces(parts), a), x)
    near = f.fma(a, v.polynomial(element, f.multiply(a, a), f.format.erf), a)
    power = v.polynomial(element, a, f.format.erfc)
    far = f.subtract(f.number(1), exp(v, element, v.negate(element, power)))
    return f.with_sign(f.select(f.is_("ogt", a, 1.0), far, near), x)


def risen(expression: Apply) -> Apply | None:
    """Matches the sum of 1 and TANH or ERF in FLOAT32; returns the latter, or None."""
    if expression.op is not Op.ADD or expression.type is not Scalar.FLOAT32:
        return None
    for curve, one in (expression.arguments, expression.arguments[::-1]):
        is_one = isinstance(one, Constant) and one.value == 1
        if is_one and isinstance(curve, Apply) and curve.op in (Op.TANH, Op.ERF):
            return curve
    return None


def has_risen(v: Vector) -> bool:
    """Returns True if `risen_curve` is faster than the sum."""
    return v.target.has_fma


def risen_curve(v: Vector, op: Op, x: str) -> str:
    """Computes 1 + tanh(x) within 5 ULP, or 1 + erf(x) within 4e-7, in FLOAT32."""
    f = Floats(v, FLOAT.element)
    if op is Op.TANH:
        return f.divide(f.number(2), _one_and_power(f, x, -2.0))
    if table_length(v, FLOAT.element) == _RISEN_PARTS:
        # Faster than a division, and than `erf`, which has more digits near 0.
        a = f.at_most(f.absolute(x), _RISEN_STEP * (_RISEN_PARTS - 1))
        return f.add(f.with_sign(evenly_piecewise(f, _RISEN_STEP, _risen_pieces(), a), x), f.number(1))
    x = f.cut(x, -_ERF_END, _ERF_END)
    square = f.multiply(x, x)
    above = f.multiply(x, v.polynomial(f.element, square, _ERF_ABOVE))
    return f.add(f.divide(above, v.polynomial(f.element, square, _ERF_BELOW)), f.number(1))


class Gate(Struct, frozen=True, kw_only=True):
    """multiple·number / (1 + e^(factor·argument))."""

    number: Expression
    multiple: float
    argument: Expression
    factor: float


def gate(expression: Apply) -> Gate | None:
    """Matches a FLOAT32 times LOGISTIC or 1 + TANH of a function of it, as in SWISH and GELU.

    Those of other numbers may be multiplied with several, which would take a division each. A
    multiple above 1 could be infinite times the number, and the product with a gate of 0 is not.
    """
    if expression.op is not Op.MULTIPLY or expression.type is not Scalar.FLOAT32:
        return None
    for number, other in (expression.arguments, expression.arguments[::-1]):
        if not isinstance(other, Apply):
            continue
        curve = other if other.op is Op.LOGISTIC else risen(other)
        if curve is None or curve.op is Op.ERF:
            continue
        number, multiple = _factored(number)
        if number not in walk(curve):
            continue
        (argument,), factor = curve.arguments, -1.0
        if curve.op is Op.TANH:
            argument, factor = _factored(argument)
            multiple, factor = 2 * multiple, -2 * factor
        if 1 / _MAX_GATE_FACTOR <= -factor <= _MAX_GATE_FACTOR and abs(multiple) <= 1:
            return Gate(number=number, multiple=multiple, argument=argument, factor=factor)
    return None


def gated(v: Vector, of: Gate, number: str, argument: str) -> str:
    """Computes a gated number as a quotient, which saves a product and its rounding."""
    f = Floats(v, FLOAT.element)
    above = f.multiply(number, f.number(of.multiple)) if of.multiple != 1 else number
    return f.divide(above, _one_and_power(f, argument, of.factor))


def _factored(expression: Expression) -> tuple[Expression, float]:
    """Splits a product with a constant into the other factor and the constant, which may be 1."""
    if isinstance(expression, Apply) and expression.op is Op.MULTIPLY:
        for other, factor in (expression.arguments, expression.arguments[::-1]):
            if isinstance(factor, Constant):
                return other, float(factor.value)
    return expression, 1.0


def tanh_of_log(expression: Apply) -> Expression | None:
    """Matches TANH(LOG(e^y + c)) in FLOAT32, as in MISH; returns the sum, or None."""
    if expression.op is not Op.TANH or expression.type is not Scalar.FLOAT32:
        return None
    (log,) = expression.arguments
    if not isinstance(log, Apply) or log.op is not Op.LOG:
        return None
    (total,) = log.arguments
    if not isinstance(total, Apply) or total.op is not Op.ADD:
        return None
    for power, other in (total.arguments, total.arguments[::-1]):
        is_positive = isinstance(other, Constant) and other.value > 0
        if is_positive and isinstance(power, Apply) and power.op is Op.EXP:
            return total
    return None


def tanh_of_log_curve(v: Vector, x: str) -> str:
    """Computes tanh(ln x) = (x - 1)·(x + 1) / (x² + 1) of a positive x within 3 ULP."""
    f = Floats(v, FLOAT.element)
    # The result is 1 long before the square is infinite.
    x = f.at_most(x, 2.0**40)
    above = f.multiply(f.subtract(x, f.number(1)), f.add(x, f.number(1)))
    return f.divide(above, f.fma(x, x, f.number(1)))


@cache
def _erf_pieces(count: int) -> PiecewisePolynomial:
    return pieces(math.erf, FLOAT.erfc_end, count, _ERF_TERMS[count])


@cache
def _risen_pieces() -> tuple[tuple[float, ...], ...]:
    end = _RISEN_STEP * (_RISEN_PARTS - 1)
    return even_pieces(lambda x: 1.0 if x == end else math.erf(x), _RISEN_STEP, _RISEN_PARTS, _RISEN_TERMS)


def _one_and_power(f: Floats, x: str, factor: float) -> str:
    """Returns 1 + e^(factor·x) for a factor below 0, which is infinite from about 2^127.5 on.

    For powers of two as factors, ln 2 is split. With others, x is a rounded number, whose error has
    more effect.
    """
    # At the ends, the scale is infinite, or the power too small to matter.
    x = f.cut(x, math.ceil(f.format.largest_exp) / factor, math.ceil(f.format.smallest_exp) / factor)
    if has_wide_floats(f.v, f.element):
        return f.add(scaled(f.v, *tabled_power(f.v, x, factor)), f.number(1))
    # factor·x = n·ln 2 + factor·rest; e^(factor·x) = scale·e^(factor·rest).
    n, scale = f.whole_power(x, factor / LN2)
    rest = f.less_multiple(x, n, factor)
    terms = [each * factor**k for k, each in enumerate((1, 1, *f.format.exp))]
    return f.fma(f.v.polynomial(f.element, rest, terms), scale, f.number(1))

"""Operation table: LLVM types and instructions for the compiler's types and operations."""

from collections.abc import Callable, Sequence

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.op import EXACT_ON_FLOAT16, Number, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math import angles, sigmoids, vector_math
from neurald.drivers.cpu.emit.math.conversion import converted
from neurald.drivers.cpu.emit.math.division import divide, float_remainder, floor_quotient
from neurald.drivers.cpu.emit.math.fixed_point import fixed_point
from neurald.drivers.cpu.emit.math.integers import is_signed, resized
from neurald.drivers.cpu.emit.math.roots import root
from neurald.drivers.cpu.emit.math.rounding import float_to_half, half_to_float, round_away, rounded
from neurald.drivers.cpu.emit.math.short_products import is_short_product, short_product
from neurald.drivers.cpu.emit.vector import Vector

#: An operand: its LLVM type, and its name or literal.
Typed = tuple[str, str]

_STORED = {
    Scalar.BOOL: "i8",
    Scalar.INT8: "i8",
    Scalar.UINT8: "i8",
    Scalar.INT16: "i16",
    Scalar.UINT16: "i16",
    Scalar.INT32: "i32",
    Scalar.UINT32: "i32",
    Scalar.INT64: "i64",
    Scalar.UINT64: "i64",
    Scalar.FLOAT16: "i16",
    Scalar.FLOAT32: "float",
    Scalar.FLOAT64: "double",
}
#: FLOAT16 is computed as float with float16 precision, since few processors have its arithmetic.
_COMPUTED = {**_STORED, Scalar.BOOL: "i1", Scalar.FLOAT16: "float"}

_INT32 = (-(2**31), 2**31 - 1)


def stored(kind: Scalar) -> str:
    """Returns the LLVM type of an element in memory; FLOAT16 is i16."""
    return _STORED[kind]


def computed(expression: Expression, lanes: int) -> str:
    """Returns the LLVM type that computes with an expression.

    An INDEX is an i64; in vectors it is an i32 if its bounds allow, which is twice as fast.
    """
    if expression.type is not Scalar.INDEX:
        return _COMPUTED[expression.type]
    # An i64 is right for all open lengths, so that only an i32 asks for a guard.
    low, high = expression.low, expression.high
    may_be_short = lanes > 1 and estimate(low) >= _INT32[0] and estimate(high) <= _INT32[1]
    is_short = may_be_short and low >= _INT32[0] and high <= _INT32[1]
    return "i32" if is_short else "i64"


def constant_text(v: Vector, value: Number, kind: Scalar, element: str) -> str:
    """Returns a constant in every lane."""
    if kind is Scalar.FLOAT16:
        with np.errstate(over="ignore"):
            value = float(np.float16(value))
    return v.number(element, value)


def from_stored(v: Vector, kind: Scalar, value: str) -> str:
    """Converts a loaded element to its computed form."""
    if kind is Scalar.BOOL:
        return v.compare("ne", "i8", value, v.number("i8", 0))
    return half_to_float(v, value) if kind is Scalar.FLOAT16 else value


def to_stored(v: Vector, kind: Scalar, value: str) -> str:
    """Converts a computed number to its stored form."""
    if kind is Scalar.BOOL:
        return v.cast("zext", "i1", value, "i8")
    return float_to_half(v, value) if kind is Scalar.FLOAT16 else value


def apply_value(v: Vector, expression: Apply, arguments: Sequence[Typed]) -> str:
    """Applies an operation; the result has the type `computed(expression, v.lanes)`.

    Args:
        v: receives the instructions; as wide as the operands.
        expression: the operation.
        arguments: its operands; INDEX ones have either width.
    """
    element = computed(expression, v.lanes)
    if expression.op is Op.CONVERT:
        return converted(v, expression, arguments[0], element)
    if expression.op in (Op.FIXED_POINT, Op.FIXED_POINT_UP):
        return fixed_point(v, expression, [resized(v, each, "i32") for each in arguments], element)
    texts = [text for _, text in arguments]
    source = arguments[-1][0]
    if expression.arguments[-1].type is Scalar.INDEX:
        # Uses a width that fits all operands and the result.
        widths = [kind for kind, _ in arguments if kind != "i1"]
        widths += [element] if expression.type is Scalar.INDEX else []
        source = max(widths, key=lambda kind: int(kind[1:]))
        texts = [text if kind == "i1" else resized(v, (kind, text), source) for kind, text in arguments]
    text = _OPERATIONS[expression.op](v, expression, source, texts)
    if expression.type is Scalar.INDEX:
        return resized(v, (source, text), element)
    if expression.type is Scalar.FLOAT16 and expression.op not in _EXACT:
        return half_to_float(v, float_to_half(v, text))
    return text


#: Operations whose result for float16 operands need not be rounded.
_EXACT = EXACT_ON_FLOAT16 | {Op.MODULO, Op.REINTERPRET}

_Operation = Callable[[Vector, Apply, str, list[str]], str]


def _arithmetic(on_integers: str, on_floats: str) -> _Operation:
    def write(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
        operation = on_floats if expression.type.is_float else on_integers
        return v.binary(operation, element, values[0], values[1])

    return write


def _extreme(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    operands = list(zip(expression.arguments, values, strict=True))
    # A known number is not NaN; as the last operand it saves a comparison.
    operands.sort(key=lambda pair: isinstance(pair[0], Constant))
    (_, first), (limit, second) = operands
    is_number = isinstance(limit, Constant) and limit.value == limit.value
    return extreme(
        v,
        expression.type,
        element,
        first,
        second,
        is_minimum=expression.op is Op.MINIMUM,
        second_is_number=is_number,
    )


def extreme(
    v: Vector,
    kind: Scalar,
    element: str,
    first: str,
    second: str,
    *,
    is_minimum: bool,
    second_is_number: bool = False,
) -> str:
    """Returns the smaller or larger of two numbers; NaN if either is NaN.

    Args:
        v: receives the instructions.
        kind, element: the type of both.
        first, second: the numbers.
        is_minimum: True for the smaller one.
        second_is_number: True if the second is known not to be NaN.
    """
    if kind is Scalar.BOOL:
        return v.binary("and" if is_minimum else "or", element, first, second)
    if not kind.is_float:
        sign = "s" if is_signed(kind) else "u"
        return v.call(f"llvm.{sign}{'min' if is_minimum else 'max'}", element, first, second)
    # Processors' instructions yield the last operand if either is NaN.
    is_second = v.compare("olt" if is_minimum else "ogt", element, second, first)
    result = v.select(is_second, element, second, first)
    if second_is_number:
        return result
    return v.select(v.compare("uno", element, second, second), element, second, result)


def _comparison(signed: str, unsigned: str, ordered: str) -> _Operation:
    def write(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
        kind = expression.arguments[0].type
        condition = ordered if kind.is_float else signed if is_signed(kind) else unsigned
        return v.compare(condition, element, values[0], values[1])

    return write


def _product(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    if is_short_product(v, expression):
        return short_product(v, values)
    return v.binary("fmul" if expression.type.is_float else "mul", element, values[0], values[1])


def _division(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    kind = expression.type
    if kind.is_float and expression.op is Op.MODULO:
        return float_remainder(v, element, values[0], values[1])
    if kind.is_float:
        return floor_quotient(v, element, values[0], values[1])
    dividend, divisor = expression.arguments
    is_whole = kind is Scalar.INDEX and dividend.low >= 0 and divisor.low > 0
    known = None
    if isinstance(divisor, Constant) and not isinstance(divisor.value, Extent):
        known = int(divisor.value)
    return divide(
        v,
        element,
        values[0],
        values[1],
        expression.op,
        is_signed=is_signed(kind) and not is_whole,
        known=known,
    )


def _power(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    if expression.type.is_float:
        return vector_math.power(v, element, values[0], values[1])
    return vector_math.integer_power(v, element, values[0], values[1])


def _negated(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    if expression.type.is_float:
        return v.negate(element, values[0])
    return v.binary("sub", element, v.number(element, 0), values[0])


def _absolute(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    if expression.type.is_float:
        return v.call("llvm.fabs", element, values[0])
    if not is_signed(expression.type):
        return values[0]
    return v.call("llvm.abs", element, values[0], flags=", i1 false")


def _inverted(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    return v.binary("xor", element, values[0], v.number(element, 1 if element == "i1" else -1))


def _shift_right(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    return v.binary("ashr" if is_signed(expression.type) else "lshr", element, values[0], values[1])


def _sign(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    x, zero, one = values[0], v.number(element, 0), v.number(element, 1)
    if not expression.type.is_float:
        if not is_signed(expression.type):
            return v.call("llvm.umin", element, x, one)
        high = v.call("llvm.smin", element, x, one)
        return v.call("llvm.smax", element, high, v.number(element, -1))
    above = v.select(v.compare("ogt", element, x, zero), element, one, x)
    below = v.select(v.compare("olt", element, x, zero), element, v.number(element, -1), above)
    return v.select(v.compare("oeq", element, x, zero), element, zero, below)


def _is_nan(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    if not expression.arguments[0].type.is_float:
        return v.number("i1", 0)
    return v.compare("uno", element, values[0], values[0])


def _reinterpreted(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    source, kind = expression.arguments[0].type, expression.type
    whole = to_stored(v, source, values[0])
    if stored(source) != stored(kind):
        whole = v.bitcast(stored(source), whole, stored(kind))
    return from_stored(v, kind, whole)


def _function(write: Callable[[Vector, str, str], str]) -> _Operation:
    return lambda v, expression, element, values: write(v, element, values[0])


def _tanh(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    if expression.type is Scalar.FLOAT16:
        return sigmoids.tanh_for_half(v, values[0])
    return sigmoids.tanh(v, element, values[0])


def _expm1(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    (operand,) = expression.arguments
    limits = operand.arguments if isinstance(operand, Apply) and operand.op is Op.MINIMUM else ()
    is_limited = any(isinstance(each, Constant) and each.value <= 0 for each in limits)
    function = vector_math.expm1_below_zero if is_limited else vector_math.expm1
    return function(v, element, values[0])


def _rounding(name: str) -> _Operation:
    def write(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
        return rounded(v, element, values[0], name) if expression.type.is_float else values[0]

    return write


def _round_away(v: Vector, expression: Apply, element: str, values: list[str]) -> str:
    return round_away(v, element, values[0]) if expression.type.is_float else values[0]


_OPERATIONS: dict[Op, _Operation] = {
    Op.ADD: _arithmetic("add", "fadd"),
    Op.SUBTRACT: _arithmetic("sub", "fsub"),
    Op.MULTIPLY: _product,
    Op.DIVIDE: _arithmetic("sdiv", "fdiv"),
    Op.FLOOR_DIVIDE: _division,
    Op.MODULO: _division,
    Op.TRUNCATE_DIVIDE: _division,
    Op.MINIMUM: _extreme,
    Op.MAXIMUM: _extreme,
    Op.POWER: _power,
    Op.ATAN2: lambda v, _, element, values: angles.atan2(v, element, values[0], values[1]),
    Op.AND: _arithmetic("and", "and"),
    Op.OR: _arithmetic("or", "or"),
    Op.XOR: _arithmetic("xor", "xor"),
    Op.SHIFT_LEFT: _arithmetic("shl", "shl"),
    Op.SHIFT_RIGHT: _shift_right,
    Op.EQUAL: _comparison("eq", "eq", "oeq"),
    Op.NOT_EQUAL: _comparison("ne", "ne", "une"),
    Op.LESS: _comparison("slt", "ult", "olt"),
    Op.LESS_EQUAL: _comparison("sle", "ule", "ole"),
    Op.NEGATE: _negated,
    Op.ABSOLUTE: _absolute,
    Op.NOT: _inverted,
    Op.SQRT: _function(root),
    Op.RSQRT: _function(vector_math.rsqrt),
    Op.EXP: _function(vector_math.exp),
    Op.EXPM1: _expm1,
    Op.LOG: _function(vector_math.log),
    Op.LOG1P: _function(vector_math.log1p),
    Op.SIN: _function(angles.sin),
    Op.COS: _function(angles.cos),
    Op.TAN: _function(angles.tan),
    Op.TANH: _tanh,
    Op.LOGISTIC: _function(sigmoids.logistic),
    Op.ERF: _function(sigmoids.erf),
    Op.FLOOR: _rounding("floor"),
    Op.CEIL: _rounding("ceil"),
    Op.ROUND_EVEN: _rounding("rint"),
    Op.ROUND_AWAY: _round_away,
    Op.SIGN: _sign,
    Op.IS_NAN: _is_nan,
    Op.REINTERPRET: _reinterpreted,
    Op.SELECT: lambda v, _, element, values: v.select(values[0], element, values[1], values[2]),
}

"""Writes functions of elements, whose operands broadcast."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Constant,
    Expression,
    apply,
    clamp,
    load,
    maximum,
    minimum,
    select,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.byte_tables import ENTRIES, is_permuted, permuted, permuted_lanes
from neurald.drivers.cpu.emit.math.rounding import round_away
from neurald.drivers.cpu.emit.op_table import (
    apply_value,
    computed,
    constant_text,
    from_stored,
    stored,
    to_stored,
)
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.convolution.epilogue import (
    limited_by_words,
    requantized_by_words,
    rescaled_by_words,
    short_requantized_by_words,
    short_rescaled_by_words,
)
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_elements
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import stored_integer
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.first_tier.layout import (
    LOW_DIGIT,
    SCALES,
    SHORT_SHIFT,
    ByteAddend,
    ByteOperand,
    NearSum,
)
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Computes an element from those of the operands, and from parameters.
Function = Callable[..., Expression]

_FLOAT, _WORD, _BOOL, _LONG = Scalar.FLOAT32, Scalar.INT32, Scalar.BOOL, Scalar.INT64
_SHORT_INTEGERS: Final = (Scalar.INT8, Scalar.UINT8, Scalar.INT16, Scalar.UINT16)
_POINTERS: Final = ("input", "other", "third")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Elementwise:
    """A function of elements.

    Attributes:
        operands: their types.
        function: computes an element.
        parameters: number of the floats among the words that are further arguments.
        is_clamped: True if two more of them are limits of the result.
        divides: True if a second operand of 0 is an error.
    """

    operands: tuple[Scalar, ...]
    function: Function
    parameters: int = 0
    is_clamped: bool = False
    divides: bool = False


def _floats(count: int, function: Function, parameters: int = 0, *, divides: bool = False) -> _Elementwise:
    return _Elementwise(
        operands=(_FLOAT,) * count,
        function=function,
        parameters=parameters,
        is_clamped=True,
        divides=divides,
    )


def _gelu(x: Expression) -> Expression:
    return x * 0.5 * (apply(Op.ERF, x * math.sqrt(0.5)) + 1.0)


def _approximate_gelu(x: Expression) -> Expression:
    inner = x + x * x * x * 0.044715
    return x * 0.5 * (apply(Op.TANH, inner * math.sqrt(2 / math.pi)) + 1.0)


def _nearest_step(
    x: Expression, low: Expression, high: Expression, inverse: Expression, scale: Expression
) -> Expression:
    """Returns the nearest of the values from `low` to `high` at multiples of `scale`."""
    return apply(Op.ROUND_AWAY, (clamp(x, low, high) - low) * inverse) * scale + low


def _unary(op: Op) -> _Elementwise:
    return _floats(1, lambda x: apply(op, x))


_FUNCTIONS: Final[Mapping[str, _Elementwise]] = {
    "clamp": _floats(1, lambda x: x),
    "absolute": _unary(Op.ABSOLUTE),
    "ceil": _unary(Op.CEIL),
    "cosine": _unary(Op.COS),
    "exp": _unary(Op.EXP),
    "floor": _unary(Op.FLOOR),
    "log": _unary(Op.LOG),
    "logistic": _unary(Op.LOGISTIC),
    "negative": _unary(Op.NEGATE),
    "round": _unary(Op.ROUND_EVEN),
    "rsqrt": _unary(Op.RSQRT),
    "sign": _unary(Op.SIGN),
    "sine": _unary(Op.SIN),
    "sqrt": _unary(Op.SQRT),
    "tanh": _unary(Op.TANH),
    "square": _floats(1, lambda x: x * x),
    "gelu": _floats(1, _gelu),
    "approximate_gelu": _floats(1, _approximate_gelu),
    "hard_swish": _floats(1, lambda x: x * clamp(x + 3.0, 0.0, 6.0) / 6.0),
    "elu": _floats(1, lambda x, alpha: select(x < 0.0, apply(Op.EXPM1, minimum(x, 0.0)) * alpha, x), 1),
    "leaky_relu": _floats(1, lambda x, alpha: select(x > 0.0, x, x * alpha), 1),
    "nearest_step": _floats(1, _nearest_step, 4),
    "add": _floats(2, lambda x, y: x + y),
    "subtract": _floats(2, lambda x, y: x - y),
    "multiply": _floats(2, lambda x, y: x * y),
    "divide": _floats(2, lambda x, y: x / y),
    "squared_difference": _floats(2, lambda x, y: (x - y) * (x - y)),
    "prelu": _floats(2, lambda x, slope: select(x < 0.0, x * slope, x)),
    "maximum": _floats(2, maximum),
    "minimum": _floats(2, minimum),
    # TFLite takes the second number if either is NaN.
    "larger": _floats(2, lambda x, y: select(x > y, x, y)),
    "smaller": _floats(2, lambda x, y: select(x < y, x, y)),
    "power": _floats(2, lambda x, y: apply(Op.POWER, x, y)),
    "angle": _floats(2, lambda y, x: apply(Op.ATAN2, y, x)),
    "floor_divide": _floats(2, lambda x, y: apply(Op.FLOOR_DIVIDE, x, y), divides=True),
    "remainder": _floats(2, lambda x, y: apply(Op.MODULO, x, y)),
    **{
        f"{name}_{suffix}": _Elementwise(
            operands=(kind, kind), function=function, divides=name in ("floor_divide", "remainder")
        )
        for name, function in (
            ("add", lambda x, y: x + y),
            ("subtract", lambda x, y: x - y),
            ("multiply", lambda x, y: x * y),
            ("maximum", maximum),
            ("minimum", minimum),
            ("floor_divide", lambda x, y: apply(Op.FLOOR_DIVIDE, x, y)),
            ("remainder", lambda x, y: apply(Op.MODULO, x, y)),
        )
        for suffix, kind in (("word", _WORD), ("long", _LONG))
    },
    "divide_word": _Elementwise(
        operands=(_WORD, _WORD), function=lambda x, y: apply(Op.TRUNCATE_DIVIDE, x, y), divides=True
    ),
    # Of Android: it rounds down, and a divisor of 0 gives 0.
    "quotient_word": _Elementwise(
        operands=(_WORD, _WORD), function=lambda x, y: select(y.equals(0), 0, x // y)
    ),
    "squared_difference_word": _Elementwise(operands=(_WORD, _WORD), function=lambda x, y: (x - y) * (x - y)),
    **{
        f"{name}_word": _Elementwise(operands=(_WORD,), function=function)
        for name, function in (
            ("absolute", lambda x: apply(Op.ABSOLUTE, x)),
            ("negative", lambda x: -x),
            ("square", lambda x: x * x),
            ("sign", lambda x: apply(Op.SIGN, x)),
        )
    },
    **{
        f"{name}_{suffix}": _Elementwise(operands=(kind, kind), function=function)
        for name, function in (
            ("equal", lambda x, y: x.equals(y)),
            ("differs", lambda x, y: x.differs(y)),
            ("greater", lambda x, y: x > y),
            ("greater_equal", lambda x, y: x >= y),
            ("less", lambda x, y: x < y),
            ("less_equal", lambda x, y: x <= y),
        )
        for suffix, kind in (("float", _FLOAT), ("word", _WORD), ("long", _LONG))
    },
    "equal_bool": _Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x.equals(y)),
    "differs_bool": _Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x.differs(y)),
    "and": _Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x & y),
    "or": _Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x | y),
    "not": _Elementwise(operands=(_BOOL,), function=lambda x: ~x),
    **{
        f"differing_bits_{kind.size_bytes}": _Elementwise(operands=(kind, kind), function=lambda x, y: x ^ y)
        for kind in (Scalar.INT8, Scalar.INT16, _WORD)
    },
    **{
        f"shift_right_{suffix}": _Elementwise(
            operands=(kind, kind), function=lambda x, y: x >> clamp(y, 0, 8 * x.type.size_bytes - 1)
        )
        for suffix, kind in (
            ("signed", Scalar.INT8),
            ("unsigned", Scalar.UINT8),
            ("short", Scalar.INT16),
            ("word", _WORD),
        )
    },
    **{
        f"select_{kind.size_bytes}": _Elementwise(operands=(_BOOL, kind, kind), function=select)
        for kind in (Scalar.INT8, Scalar.INT16, _WORD, _LONG)
    },
    **{
        f"cast_{source.value}_{target.value}": _Elementwise(
            operands=(source,), function=lambda x, target=target: x.to(target)
        )
        for source, targets in (
            (_FLOAT, (_BOOL, _WORD, _LONG)),
            (_WORD, (_BOOL, _FLOAT, _LONG)),
            (_LONG, (_BOOL, _FLOAT, _WORD)),
            (_BOOL, (_FLOAT, _WORD, _LONG)),
            *((kind, (_FLOAT, _WORD, _LONG)) for kind in (*_SHORT_INTEGERS, Scalar.UINT32)),
            # Integers of a size have the same bits.
            (_WORD, (Scalar.INT8, Scalar.INT16)),
            (_LONG, (Scalar.INT8, Scalar.INT16)),
            (_FLOAT, (Scalar.FLOAT16, Scalar.FLOAT64)),
            (_WORD, (Scalar.FLOAT64,)),
            (_LONG, (Scalar.FLOAT64,)),
            (Scalar.FLOAT16, (_FLOAT,)),
            (Scalar.FLOAT64, (_FLOAT,)),
        )
        for target in targets
    },
    # TFLite makes NaN the largest integer.
    **{
        f"cast_or_largest_{target.value}": _Elementwise(
            operands=(_FLOAT,),
            function=lambda x, target=target: select(
                apply(Op.IS_NAN, x), int(np.iinfo(target.dtype.name).max), x.to(target)
            ),
        )
        for target in (_WORD, _LONG, *_SHORT_INTEGERS, Scalar.UINT32)
    },
    **{
        f"{name}_{sign}": _Elementwise(operands=(kind, kind), function=function)
        for sign, kind in (("signed", Scalar.INT8), ("unsigned", Scalar.UINT8), ("short", Scalar.INT16))
        for name, function in (("maximum", maximum), ("minimum", minimum))
    },
}


def element_units(target: Target) -> list[Unit]:
    """Returns the units of all functions of elements."""
    return [
        *(_function(target, name, each) for name, each in _FUNCTIONS.items()),
        *(_lookup(target, *each) for each in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4))),
        *(_of_bytes(target, name) for name in ("sum", "product", "square", "prelu")),
        *(_of_shorts(target, name) for name in ("sum", "difference", "product")),
        *(_quantize(target, *each) for each in (("signed", "i8"), ("unsigned", "i8"), ("short", "i16"))),
        _dequantize(target, "signed", "sext", "i8"),
        _dequantize(target, "unsigned", "zext", "i8"),
        _dequantize(target, "short", "sext", "i16"),
    ]


def _function(target: Target, name: str, of: _Elementwise) -> Unit:
    """Writes a function. Words: those of the nest, then parameters, then limits."""
    count = len(of.operands)
    kernel = KernelWriter(target, f"first_{name}", ("out", *_POINTERS[:count]))
    leaves = [load(Value(shape=(), type=kind), ()) for kind in (*of.operands, *[_FLOAT] * of.parameters)]
    expression = of.function(*leaves)
    first = words_of_nest(count)
    parameters = [kernel.word(first + number, "float") for number in range(of.parameters)]
    limits = [kernel.word(first + of.parameters + n, "float") for n in range(2)] if of.is_clamped else []

    def compute(v: Vector, values: list[str]) -> str:
        given = [from_stored(v, kind, value) for kind, value in zip(of.operands, values, strict=True)]
        if of.divides:
            element = computed(leaves[1], v.lanes)
            zero = constant_text(v, 0, of.operands[1], element)
            is_zero = v.compare("oeq" if of.operands[1].is_float else "eq", element, given[1], zero)
            with kernel.code.when(v.any_lane(is_zero)):
                kernel.code.effect(f"store i32 1, ptr %status, align {WORD_BYTES}")
        given += [v.splat("float", each) for each in parameters]
        known: dict[Expression, str] = dict(zip(leaves, given, strict=True))
        result = _evaluated(v, expression, known)
        if limits:
            return clamped(v, result, *limits)
        return to_stored(v, expression.type, result)

    operands = [(f"%{_POINTERS[n]}", stored(kind)) for n, kind in enumerate(of.operands)]
    write_elements(kernel, kernel.vector, operands, stored(expression.type), compute)
    return kernel.unit()


def _evaluated(v: Vector, expression: Expression, known: dict[Expression, str]) -> str:
    """Returns the value of an expression, which is not deep.

    Args:
        v: writes vectors of the width of the operands.
        expression: the expression.
        known: the values of loads; takes those of all parts.
    """
    found = known.get(expression)
    if found is not None:
        return found
    element = computed(expression, v.lanes)
    if isinstance(expression, Constant):
        return constant_text(v, expression.value, expression.type, element)
    assert isinstance(expression, Apply), expression  # noqa: S101 - the functions have no others
    arguments = [(computed(each, v.lanes), _evaluated(v, each, known)) for each in expression.arguments]
    known[expression] = apply_value(v, expression, arguments)
    return known[expression]


def curve(v: Vector, op: Op, value: str) -> str:
    """Returns a function of floats."""
    leaf = load(Value(shape=(), type=_FLOAT), ())
    return _evaluated(v, apply(op, leaf), {leaf: value})


def _lookup(target: Target, size: int, result_size: int) -> Unit:
    """Writes a function of bytes, given by its 256 results, or of 16-bit integers, given by 65,536.

    Words: elements. A work item is a block of them.

    Args:
        target: the target of the code.
        size, result_size: the sizes of elements and of results in bytes.
    """
    # Processors that permute bytes have the library of those that do not; see `built_library`.
    target = replace(target, has_byte_permutes=False)
    kernel = KernelWriter(target, f"first_lookup_{size}_{result_size}", ("out", "input", "lookup"))
    code, element, result = kernel.code, f"i{8 * size}", f"i{8 * result_size}"
    first, last = kernel.blocks()
    if element == "i8" and is_permuted(target, result, ENTRIES * result_size):
        v = Vector(code, target, permuted_lanes(target))
        middle = kernel.sum(
            first, multiple(code, kernel.split(kernel.difference(last, first), str(v.lanes))[0], v.lanes)
        )
        with code.loop(first, middle, step=v.lanes, may_be_empty=True) as loop:
            places = v.cast("zext", "i8", kernel.element(v, "i8", "%input", loop.index), "i16")
            store(v, result, permuted(v, result, "%lookup", places), "%out", loop.index)
        first = middle
    with code.loop(first, last, may_be_empty=True) as loop:
        value = kernel.element(kernel.single, element, "%input", loop.index)
        entry = code.value(f"zext {element} {value} to i64")
        found = kernel.element(kernel.single, result, "%lookup", entry)
        store(kernel.single, result, found, "%out", loop.index)
    return kernel.unit()


def _of_bytes(target: Target, operation: str) -> Unit:
    """Writes an operation on two bytes.

    `square` squares the sum; `prelu` multiplies what is below 0. Words: those of the nest;
    `ByteOperand`s; of sums and squares, the `ByteAddend`s; of `sum`, a `NearSum`; the mantissa and
    the other parameters of requantisation, of `prelu` from 0 on and below; the zero point, and the
    limits.
    """
    kernel = KernelWriter(target, f"first_byte_{operation}", ("out", "input", "other"))
    first = words_of_nest(2)
    addends = first + 2 * len(ByteOperand._fields)
    near = addends + (2 * len(ByteAddend._fields) if operation in ("sum", "square") else 0)
    rescale = near + (len(NearSum._fields) if operation == "sum" else 0)

    def number(v: Vector, at: int, kind: str = "i32") -> str:
        return v.splat(kind, kernel.word(at, kind))

    def bytes_of(v: Vector, values: list[str]) -> list[str]:
        """Returns bytes as the numbers from 0 on, in the order of their values."""
        return [
            v.cast(
                "zext",
                "i8",
                v.binary("xor", "i8", value, number(v, first + each * len(ByteOperand._fields), "i8")),
                "i32",
            )
            for each, value in enumerate(values)
        ]

    def factors(v: Vector, values: list[str]) -> list[str]:
        return [
            v.binary("sub", "i32", value, number(v, first + 1 + each * len(ByteOperand._fields)))
            for each, value in enumerate(bytes_of(v, values))
        ]

    def exact(v: Vector, values: list[str]) -> str:
        given = factors(v, values)
        if operation == "product":
            return short_requantized_by_words(kernel, v, v.binary("mul", "i32", *given), rescale)
        if operation == "prelu":
            below = rescale + 1 + SCALES
            value = v.select(
                v.compare("sge", "i32", given[0], v.number("i32", 0)),
                "i32",
                short_rescaled_by_words(kernel, v, given[0], rescale),
                short_rescaled_by_words(kernel, v, v.binary("mul", "i32", *given), below),
            )
            return limited_by_words(kernel, v, value, below + 1 + SCALES)
        total = v.binary(
            "add",
            "i32",
            *(_addend(kernel, v, d, addends + n * len(ByteAddend._fields)) for n, d in enumerate(given)),
        )
        if operation == "square":
            total = v.binary("mul", "i32", total, total)
        return short_requantized_by_words(kernel, v, total, rescale)

    def near_sum(v: Vector, values: list[str]) -> str:
        one, other = (
            v.binary("mul", "i32", value, number(v, near + each))
            for each, value in enumerate(bytes_of(v, values))
        )
        return v.binary("add", "i32", v.binary("add", "i32", one, other), number(v, near + 2))

    def rounded(v: Vector, values: list[str]) -> str:
        value = v.binary("ashr", "i32", near_sum(v, values), number(v, near + 4))
        return limited_by_words(kernel, v, value, rescale + 1 + SCALES)

    def is_near_half(v: Vector, values: list[str]) -> str:
        fraction = v.binary("and", "i32", near_sum(v, values), number(v, near + 3))
        return v.any_lane(v.compare("eq", "i32", fraction, v.number("i32", 0)))

    operands = [("%input", "i8"), ("%other", "i8")]
    if operation == "sum":
        write_elements(kernel, kernel.vector, operands, "i8", rounded, (is_near_half, exact))
    else:
        write_elements(kernel, kernel.vector, operands, "i8", exact)
    return kernel.unit()


def _addend(kernel: KernelWriter, v: Vector, value: str, first: int) -> str:
    """Returns bytes, without their zero point, rescaled and rounded like `rescaled`.

    Args:
        kernel: the function.
        v: writes vectors of the width of the values.
        value: the integers.
        first: number of the first of the words of a `ByteAddend`.
    """
    high, low, high_addend, low_addend, below_zero, shift, sign = (
        v.splat("i32", kernel.word(first + n, "i32")) for n in range(len(ByteAddend._fields))
    )
    lower = v.binary("add", "i32", v.binary("mul", "i32", value, low), low_addend)
    upper = v.binary("add", "i32", v.binary("mul", "i32", value, high), high_addend)
    is_below = v.binary("ashr", "i32", value, v.number("i32", 31))
    upper = v.binary("add", "i32", upper, v.binary("and", "i32", is_below, below_zero))
    upper = v.binary("add", "i32", upper, v.binary("ashr", "i32", lower, v.number("i32", LOW_DIGIT)))
    return v.binary("mul", "i32", v.binary("ashr", "i32", upper, shift), sign)


def _of_shorts(target: Target, operation: str) -> Unit:
    """Writes an operation on two 16-bit integers, whose zero points are 0.

    Words: those of the nest; the parameters that rescale each addend, except of `product`; and
        those
    that requantise the result, with the zero point and the limits.
    """
    kernel = KernelWriter(target, f"first_short_{operation}", ("out", "input", "other"))
    first = words_of_nest(2)

    def compute(v: Vector, values: list[str]) -> str:
        given = [v.cast("sext", "i16", each, "i32") for each in values]
        if operation == "product":
            return requantized_by_words(kernel, v, v.binary("mul", "i32", *given), first, "i16")
        addends = []
        for number, each in enumerate(given):
            shifted = v.binary("shl", "i32", each, v.number("i32", SHORT_SHIFT))
            wide = rescaled_by_words(kernel, v, shifted, first + number * (1 + SCALES))
            addends.append(v.cast("trunc", "i64", wide, "i32"))
        total = v.binary("add" if operation == "sum" else "sub", "i32", *addends)
        return requantized_by_words(kernel, v, total, first + 2 * (1 + SCALES), "i16")

    write_elements(kernel, kernel.vector, [("%input", "i16"), ("%other", "i16")], "i16", compute)
    return kernel.unit()


def _quantize(target: Target, sign: str, element: str) -> Unit:
    """Writes the quantisation of floats.

    Words: those of the nest, the scale, zero point and limits.
    """
    kernel = KernelWriter(target, f"first_quantize_{sign}", ("out", "input"))
    first = words_of_nest(1)
    scale = kernel.word(first, "float")

    def compute(v: Vector, values: list[str]) -> str:
        x = v.binary("fdiv", "float", values[0], v.splat("float", scale))
        return stored_integer(kernel, v, round_away(v, "float", x), first + 1, result=element)

    write_elements(kernel, kernel.vector, [("%input", "float")], element, compute)
    return kernel.unit()


def _dequantize(target: Target, sign: str, extension: str, element: str) -> Unit:
    """Writes the conversion of integers to floats.

    Words: those of the nest, the zero point, the scale.
    """
    kernel = KernelWriter(target, f"first_dequantize_{sign}", ("out", "input"))
    first = words_of_nest(1)
    zero_point, scale = kernel.word(first, "i32"), kernel.word(first + 1, "float")

    def compute(v: Vector, values: list[str]) -> str:
        value = v.cast(extension, element, values[0], "i32")
        value = v.binary("sub", "i32", value, v.splat("i32", zero_point))
        return v.binary("fmul", "float", v.cast("sitofp", "i32", value, "float"), v.splat("float", scale))

    write_elements(kernel, kernel.vector, [("%input", element)], "float", compute)
    return kernel.unit()

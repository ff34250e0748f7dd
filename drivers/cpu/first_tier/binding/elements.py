"""Binds functions of elements."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution.requantization import (
    single_requantization,
)
from neurald.drivers.cpu.first_tier.binding.nest import nest, nest_of_elements, strides_of
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    MAX_INT32,
    SHORT,
    SIGNED,
    UNLIMITED,
    UNSIGNED,
    Bind,
    BindingScope,
    bits,
    count_of,
    integer_of,
    limits,
    output_shape,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import (
    BLOCK,
    LOW_DIGIT,
    SHORT_SHIFT,
    ByteAddend,
    ByteOperand,
    NearSum,
)
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace

_WORD, _BOOL = OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8
#: The largest difference of a byte from a zero point.
_MAX_BYTE: Final = 255
#: Shift with which no byte that is multiplied by a mantissa is rounded to another number than 0.
_MAX_DIGITS: Final = 30

#: Kernels of functions of one float, and the limits of their results.
_UNARY: Final = {
    "RELU": ("clamp", (0.0, np.inf)),
    "RELU1": ("clamp", (-1.0, 1.0)),
    "RELU6": ("clamp", (0.0, 6.0)),
    "TFLITE_RELU": ("clamp", (0.0, np.inf)),
    "TFLITE_RELU6": ("clamp", (0.0, 6.0)),
    "TFLITE_RELU_N1_TO_1": ("clamp", (-1.0, 1.0)),
    "TFLITE_RELU_0_TO_1": ("clamp", (0.0, 1.0)),
    **{
        name: (function, None)
        for name, function in {
            "ABS": "absolute",
            "TFLITE_ABS": "absolute",
            "EXP": "exp",
            "TFLITE_EXP": "exp",
            "FLOOR": "floor",
            "TFLITE_FLOOR": "floor",
            "TFLITE_CEIL": "ceil",
            "TFLITE_ROUND": "round",
            "LOG": "log",
            "TFLITE_LOG": "log",
            "NEG": "negative",
            "TFLITE_NEG": "negative",
            "RSQRT": "rsqrt",
            "TFLITE_RSQRT": "rsqrt",
            "SQRT": "sqrt",
            "TFLITE_SQRT": "sqrt",
            "TFLITE_SIGN": "sign",
            "SIN": "sine",
            "TFLITE_COS": "cosine",
            "TFLITE_SQUARE": "square",
            "LOGISTIC": "logistic",
            "TFLITE_LOGISTIC": "logistic",
            "TANH": "tanh",
            "TFLITE_TANH": "tanh",
            "HARD_SWISH": "hard_swish",
            "TFLITE_GELU": "gelu",
            "ELU": "elu",
            "TFLITE_ELU": "elu",
            "TFLITE_LEAKY_RELU": "leaky_relu",
        }.items()
    },
}
#: Kernels of functions of two operands, without the suffix of their type.
_BINARY: Final = {
    "ADD": "add",
    "SUB": "subtract",
    "MUL": "multiply",
    "DIV": "divide",
    "TFLITE_ADD": "add",
    "TFLITE_SUB": "subtract",
    "TFLITE_MUL": "multiply",
    "TFLITE_DIV": "divide",
    "TFLITE_SQUARED_DIFFERENCE": "squared_difference",
    "PRELU": "prelu",
    "TFLITE_PRELU": "prelu",
    "MAXIMUM": "maximum",
    "MINIMUM": "minimum",
    "TFLITE_MAXIMUM": "maximum",
    "TFLITE_MINIMUM": "minimum",
    "POW": "power",
    "TFLITE_POW": "power",
    "TFLITE_ATAN2": "angle",
    "TFLITE_FLOOR_DIV": "floor_divide",
    "TFLITE_FLOOR_MOD": "remainder",
}
#: Kernels of functions of two floats that treat NaN in another way than others of their name.
_OF_FLOATS: Final = {"TFLITE_MAXIMUM": "larger", "TFLITE_MINIMUM": "smaller"}
#: Functions of two integers that round, and treat 0, in another way than others of their name.
_OF_INTEGERS: Final = {"DIV": "quotient"}
_COMPARED: Final = {
    "EQUAL": "equal",
    "NOT_EQUAL": "differs",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
}
#: Functions of integers, and of one 32-bit integer.
_OF_WORDS: Final = frozenset(
    ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "remainder")
)
#: Functions of 32-bit integers only.
_OF_SHORT_WORDS: Final = frozenset(("divide", "quotient", "squared_difference"))
_OF_ONE_WORD: Final = frozenset(("absolute", "negative", "square", "sign"))
#: The names of integers in the names of functions.
_INTEGERS: Final = {_WORD: "word", OperandType.TENSOR_INT64: "long"}
#: The names of types in the names of functions of bits, for which zero points do not matter.
_SHIFTED: Final = {SIGNED: "signed", UNSIGNED: "unsigned", SHORT: "short", _WORD: "word"}
_CAST: Final = {
    FLOAT: "float32",
    _WORD: "int32",
    OperandType.TENSOR_INT64: "int64",
    _BOOL: "bool",
    OperandType.TENSOR_FLOAT16: "float16",
    OperandType.TENSOR_FLOAT64: "float64",
    SIGNED: "int8",
    UNSIGNED: "uint8",
    SHORT: "int16",
    OperandType.TENSOR_QUANT16_ASYMM: "uint16",
    OperandType.TENSOR_UINT32: "uint32",
}
#: Types of which CAST of Android has the nearest number to one that is too large.
_SATURATED: Final = frozenset(("int8", "uint8", "int16", "uint16"))
#: Types between any two of which there are kernels.
_OFTEN_CAST: Final = frozenset(("float32", "int32", "int64", "bool"))
#: Pairs of types that have kernels, apart from those with results that NaN does not have.
_CASTS: Final = frozenset(
    (
        *((source, target) for source in _OFTEN_CAST for target in _OFTEN_CAST if source != target),
        *(
            (source, target)
            for source in ("int8", "uint8", "int16", "uint16", "uint32")
            for target in ("float32", "int32", "int64")
        ),
        *((source, target) for source in ("int32", "int64") for target in ("int8", "int16", "float64")),
        *(pair for each in ("float16", "float64") for pair in (("float32", each), (each, "float32"))),
    )
)
#: Pairs of types of the same size, of which one becomes the other by copying.
_SAME_BITS: Final = ({"int8", "uint8"}, {"int16", "uint16"}, {"int32", "uint32"})
#: Type → another type that has all its numbers, and conversions to more types.
_WITH_ALL: Final = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "bool"), "int32"),
    "float16": "float32",
    "uint32": "int64",
}


def element_call(
    scope: BindingScope,
    call: Call,
    function: str,
    names: tuple[str, ...],
    words: tuple[int, ...] = (),
    extra: tuple[BoundConstant, ...] = (),
    messages: tuple[str, ...] = (),
) -> list[BoundCall]:
    """Returns the call of a function of elements, with operands repeated to the output's shape.

    Args:
        scope: the scope of the operation.
        call: the operation.
        function: name of the kernel without its prefix.
        names: the names of inputs.
        words: after those of the nest.
        extra: further constants.
        messages: see `BoundCall`.
    """
    shape = output_shape(call)
    count = 1
    for length in shape:
        count *= length
    if not count:
        return []
    nested, work_items = nest_of_elements(shape, tuple([call.shape(name) for name in names]))
    return [
        BoundCall(
            function=f"first_{function}",
            arguments=(call.index("output"), *map(call.index, names), *extra),
            words=(*nested, *words),
            work_items=work_items,
            cost_ns=count / ELEMENTS_PER_NS / 4,
            messages=messages,
        )
    ]


def bind_sum(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds ADD_N: adds one input after another."""
    output, shape = call.operand("output"), output_shape(call)
    total, *addends = call.indexes("inputs")
    size = math.prod(shape) * output.type.dtype.itemsize
    if any(scope.operands[index].dimensions != shape for index in (total, *addends)):
        raise NotBound("the addends have other shapes than the output")
    if not addends:
        from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import copying_call

        return [copying_call(call.index("output"), total, size)]
    nested, work_items = nest(shape, [strides_of(shape)] * 2)
    function, words = ("first_add", UNLIMITED) if output.type is FLOAT else ("first_add_word", ())
    sums: list[int | BoundTemporary] = [BoundTemporary(size_bytes=size) for _ in addends[1:]]
    sums.append(call.index("output"))
    return [
        BoundCall(
            function=function,
            arguments=(result, before, addend),
            words=(*nested, *words),
            work_items=work_items,
            cost_ns=math.prod(shape) / ELEMENTS_PER_NS / 4,
        )
        for result, before, addend in zip(sums, (total, *sums), addends, strict=False)
    ]


def bind_unary(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds functions of one element."""
    (name,) = (each for each in call.binding.inputs if call.operand(each).type.is_tensor)
    operand, output = call.operand(name), call.operand("output")
    if _has_table(operand, output):
        return _by_table(scope, call, name)
    function, ends = _UNARY[call.binding.type.name]
    if operand.type is output.type is _WORD and function in _OF_ONE_WORD:
        return element_call(scope, call, f"{function}_word", (name,))
    if not operand.type is output.type is FLOAT:
        raise NotBound("the types have no kernel")
    words: tuple[int, ...] = UNLIMITED if ends is None else (bits(ends[0]), bits(ends[1]))
    if "alpha" in call.binding.inputs:
        words = (bits(float(call.scalar("alpha"))), *words)
    if function == "gelu" and call.scalar("approximate"):
        function = "approximate_gelu"
    return element_call(scope, call, function, (name,), words)


def _has_table(operand: Operand, output: Operand) -> bool:
    """Returns True if a table has the results of a function of an operand."""
    return {operand.type, output.type} <= {*BYTES, SHORT}


def _by_table(scope: BindingScope, call: Call, name: str) -> list[BoundCall]:
    """Binds a function of bytes or 16-bit integers, whose table the operation's reference fills."""
    operand, output, index = call.operand(name), call.operand("output"), call.index(name)
    unsigned, result = (np.dtype(f"u{each.type.dtype.itemsize}") for each in (operand, output))
    given = np.arange(1 << 8 * unsigned.itemsize, dtype=unsigned).view(operand.type.dtype)

    def make() -> BoundConstant:
        known = Call(
            call.binding,
            scope.operands,
            lambda number: given.shape if number == index else scope.operands[number].dimensions,
            lambda number: given if number == index else scope.value(number),
        )
        (results,) = DEFINITIONS[call.binding.type].reference(known)
        return BoundConstant.of(results.reshape(-1).view(result))

    others = tuple(
        value.tobytes()
        for each in call.binding.inputs
        if each != name and (value := scope.value(call.index(each))) is not None
    )
    key = (
        call.binding.type,
        *((each.type, each.scale, each.zero_point) for each in (operand, output)),
        others,
    )
    function = f"lookup_{unsigned.itemsize}_{result.itemsize}"
    return [_lookup(call.index("output"), index, function, scope.shared(key, make), count_of(call, name))]


def bind_binary(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds functions of two elements."""
    one, other, *_ = call.binding.inputs
    operands, output = [call.operand(name) for name in (one, other)], call.operand("output")
    function, kinds = _BINARY[call.binding.type.name], {each.type for each in operands}
    messages: tuple[str, ...] = ()
    if output.type in _INTEGERS:
        function = _OF_INTEGERS.get(call.binding.type.name, function)
    if function in ("floor_divide", "remainder") or (function == "divide" and output.type is _WORD):
        messages = (f"{call.name(other)} contains 0; non-zero divisors are expected",)
    if kinds == {FLOAT} and output.type is FLOAT:
        function = _OF_FLOATS.get(call.binding.type.name, function)
        return element_call(scope, call, function, (one, other), limits(call), messages=messages)
    functions = _OF_WORDS | _OF_SHORT_WORDS if output.type is _WORD else _OF_WORDS
    if kinds == {output.type} and output.type in _INTEGERS and function in functions:
        if "activation" in call.binding.inputs and call.activation:
            raise NotBound("the activation has no kernel for integers")
        name = f"{function}_{_INTEGERS[output.type]}"
        return element_call(scope, call, name, (one, other), messages=messages)
    if not ({*kinds, output.type} <= BYTES or {*kinds, output.type} == {SHORT}):
        raise NotBound("the types have no kernel")
    if function in ("maximum", "minimum"):
        if len({(each.type, each.scale, each.zero_point) for each in (*operands, output)}) > 1:
            raise NotBound("the scales differ")
        return element_call(scope, call, f"{function}_{integer_of(output)}", (one, other))
    return (_of_shorts if output.type is SHORT else _of_bytes)(scope, call, function)


def _of_shorts(scope: BindingScope, call: Call, function: str) -> list[BoundCall]:
    """Binds arithmetic on 16-bit integers."""
    first, second, output = (call.operand(name) for name in ("input1", "input2", "output"))
    if any(each.zero_point for each in (first, second, output)):
        raise NotBound("16-bit integers have zero points")
    activation = call.activation if "activation" in call.binding.inputs else FusedActivation.NONE
    ends = (output.zero_point, *quantized_limits(output, activation))
    if function == "multiply":
        rescale = single_requantization(
            *quantize_multiplier(single_ratio(first.scale, second.scale, output.scale))
        )
        return element_call(scope, call, "short_product", ("input1", "input2"), (*rescale, *ends))
    if function not in ("add", "subtract"):
        raise NotBound("the types have no kernel")
    from neurald.hal.operations.elementwise.arithmetic import addend_shift

    shifts = None
    if "power_of_two_scales" in call.binding.inputs:
        from neurald.hal.operations.tflite.elementwise.arithmetic import sum_shifts

        shifts = sum_shifts(call)
    if shifts is not None or addend_shift(output) != SHORT_SHIFT:
        raise NotBound("addends are shifted")
    unit = 2.0 * max(first.scale, second.scale)
    multipliers = first.scale / unit, second.scale / unit, unit / ((1 << SHORT_SHIFT) * output.scale)
    words = [word for each in multipliers for word in single_requantization(*quantize_multiplier(each))]
    kernel = "short_sum" if function == "add" else "short_difference"
    return element_call(scope, call, kernel, ("input1", "input2"), (*words, *ends))


def _of_bytes(scope: BindingScope, call: Call, function: str) -> list[BoundCall]:
    """Binds arithmetic on bytes."""
    one, other, *_ = call.binding.inputs
    first, second, output = (call.operand(name) for name in (one, other, "output"))
    activation = call.activation if "activation" in call.binding.inputs else FusedActivation.NONE
    words = [*_byte_operand(first), *_byte_operand(second)]
    unit = 2.0 * max(first.scale, second.scale)
    if function == "multiply":
        kernel, rescale = "byte_product", single_ratio(first.scale, second.scale, output.scale)
        largest = _MAX_BYTE * _MAX_BYTE * rescale
    elif function == "squared_difference":
        from neurald.hal.operations.tflite.elementwise.arithmetic import DIFFERENCE_SHIFT as SHIFT

        kernel, rescale = "byte_square", unit * unit / ((1 << 2 * SHIFT) * output.scale)
        words += [*_addend(first, SHIFT, unit, 1), *_addend(second, SHIFT, unit, -1)]
        largest = (_MAX_BYTE * unit) ** 2 / output.scale
    elif function in ("add", "subtract"):
        from neurald.hal.operations.elementwise.arithmetic import addend_shift

        shift, sign = addend_shift(output), 1 if function == "add" else -1
        kernel, rescale = "byte_sum", unit / ((1 << shift) * output.scale)
        words += [*_addend(first, shift, unit, 1), *_addend(second, shift, unit, sign)]
        words += _near_sum(first, second, output, sign, rescale)
        largest = _MAX_BYTE * unit / output.scale
    elif function == "prelu":
        kernel, rescale = "byte_prelu", single_ratio(first.scale, second.scale, output.scale)
        above = single_ratio(first.scale, 1, output.scale)
        words += single_requantization(*quantize_multiplier(above))
        largest = _MAX_BYTE * max(above, _MAX_BYTE * rescale)
    else:
        raise NotBound("the types have no kernel")
    if not largest < MAX_INT32 - _MAX_BYTE:
        raise NotBound("results may exceed 32 bits")
    words += [
        *single_requantization(*quantize_multiplier(rescale)),
        output.zero_point,
        *quantized_limits(output, activation),
    ]
    return element_call(scope, call, kernel, (one, other), tuple(words))


def _byte_operand(operand: Operand) -> ByteOperand:
    if operand.type is UNSIGNED:
        return ByteOperand(flip=0, zero_point=operand.zero_point)
    return ByteOperand(flip=1 << 7, zero_point=operand.zero_point + (1 << 7))


def _addend(operand: Operand, shift: int, unit: float, sign: int) -> ByteAddend:
    """Returns how bytes are rescaled, with the results of `rescaled` for shifted integers.

    Args:
        operand: the type of bytes.
        shift: the shift of what is rescaled to the unit.
        unit: the scale of the sum, at least twice that of the operand.
        sign: the sign of addends.
    """
    mantissa, addend, below_zero, all_bits = single_requantization(*quantize_multiplier(operand.scale / unit))
    # Products, and what is added to them, are multiples of what they are shifted by.
    digits = all_bits - shift - LOW_DIGIT
    if digits >= _MAX_DIGITS:
        # All of them become 0.
        mantissa = addend = below_zero = digits = 0
    high_addend, low_addend = divmod(addend >> shift, 1 << LOW_DIGIT)
    high, low = divmod(mantissa, 1 << LOW_DIGIT)
    return ByteAddend(
        high=high,
        low=low,
        high_addend=high_addend,
        low_addend=low_addend,
        below_zero=below_zero >> shift + LOW_DIGIT,
        shift=digits,
        sign=sign,
    )


def _near_sum(first: Operand, second: Operand, output: Operand, sign: int, rescale: float) -> NearSum:
    """Returns how sums of bytes are computed where they are not nearly between two results.

    Args:
        first, second, output: the types.
        sign: the sign of the second operand.
        rescale: what the sums of rounded addends are multiplied by.
    """
    ratios = first.scale / output.scale, sign * second.scale / output.scale
    largest = _MAX_BYTE * (abs(ratios[0]) + abs(ratios[1])) + 2 * (_MAX_BYTE + 1)
    shift = max(0, 30 - math.frexp(largest)[1])
    unit = 1 << shift
    # Factors have errors of a half, addends and results are rounded, and multipliers have 31 bits.
    error = 1 << math.ceil(_MAX_BYTE + 3 * rescale * unit + 8).bit_length()
    if shift == 0 or not 8 * error < unit:
        return NearSum(first=0, second=0, addend=0, mask=0, shift=0)
    factors = [round(ratio * unit) for ratio in ratios]
    zero_points = [_byte_operand(each).zero_point for each in (first, second)]
    addend = error + (unit >> 1) - sum(x * y for x, y in zip(factors, zero_points, strict=True))
    return NearSum(first=factors[0], second=factors[1], addend=addend, mask=unit - 2 * error, shift=shift)


def bind_comparison(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds comparisons of floats, of integers, of truth values, and of bytes as in TFLite."""
    name, kind = _COMPARED[call.binding.type.name.removeprefix("TFLITE_")], call.operand("input1").type
    if kind is _BOOL and name in ("equal", "differs"):
        return element_call(scope, call, f"{name}_bool", ("input1", "input2"))
    if kind in BYTES and call.binding.type.name.startswith("TFLITE_"):
        return _of_compared_bytes(scope, call, name)
    suffix = {FLOAT: "float", **_INTEGERS}.get(kind)
    if suffix is None:
        raise NotBound("the type has no kernel")
    return element_call(scope, call, f"{name}_{suffix}", ("input1", "input2"))


def _of_compared_bytes(scope: BindingScope, call: Call, name: str) -> list[BoundCall]:
    """Binds a comparison of bytes, as one of the integers that tables have for them."""
    from neurald.hal.operations.tflite.elementwise.comparison import comparable

    calls, given = [], []
    for each in ("input1", "input2"):
        operand, count = call.operand(each), count_of(call, each)
        if operand.type not in BYTES:
            raise NotBound("the types have no kernel")

        def make(operand: Operand = operand) -> BoundConstant:
            values = np.arange(256, dtype=np.uint8).view(operand.type.dtype)
            return BoundConstant.of(comparable(operand, values).astype(np.int32))

        key = "comparable", operand.type, operand.scale, operand.zero_point
        given.append(BoundTemporary(size_bytes=max(1, 4 * count)))
        if count:
            calls.append(_lookup(given[-1], call.index(each), "lookup_1_4", scope.shared(key, make), count))
    compared = element_call(scope, call, f"{name}_word", ("input1", "input2"))
    return [*calls, *(replace(each, arguments=(each.arguments[0], *given)) for each in compared)]


def _lookup(
    output: int | BoundTemporary, given: int, function: str, table: BoundConstant, count: int
) -> BoundCall:
    """Returns the call that takes results from a table."""
    return BoundCall(
        function=f"first_{function}",
        arguments=(output, given, table),
        words=(count,),
        work_items=-(-count // BLOCK),
        cost_ns=count / ELEMENTS_PER_NS / 2,
    )


def bind_logic(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds operations on truth values."""
    name = call.binding.type.name.removeprefix("TFLITE_").removeprefix("LOGICAL_").lower()
    inputs = tuple(call.binding.inputs)
    if any(call.operand(each).type is not _BOOL for each in inputs):
        raise NotBound("the type has no kernel")
    return element_call(scope, call, name, inputs)


def bind_bits(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds BITWISE_XOR, and RIGHT_SHIFT of all types but unsigned words."""
    kind = call.operand("output").type
    if call.binding.type is OperationType.TFLITE_BITWISE_XOR:
        function = f"differing_bits_{kind.dtype.itemsize}"
    elif kind in _SHIFTED:
        function = f"shift_right_{_SHIFTED[kind]}"
    else:
        raise NotBound("the type has no kernel")
    return element_call(scope, call, function, ("input1", "input2"))


def bind_fake_quantize(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds FAKE_QUANT, whose range is constant."""
    from neurald.hal.operations.tflite.elementwise.quantization import nudged_range

    low, high, scale = nudged_range(call)
    words = [bits(float(each)) for each in (low, high, np.float32(1) / scale, scale)]
    return element_call(scope, call, "nearest_step", ("input",), (*words, *UNLIMITED))


def bind_selection(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SELECT and SELECT_V2 of elements that are copied."""
    first, second, output = (call.operand(name) for name in ("input1", "input2", "output"))
    size = output.type.dtype.itemsize
    if len({(each.type, each.scale, each.zero_point) for each in (first, second, output)}) > 1:
        raise NotBound("the types differ")
    if output.type is OperandType.TENSOR_STRING or size not in (1, 2, 4, 8):
        raise NotBound("the type has no kernel")
    is_plain = call.binding.type is OperationType.TFLITE_SELECT and call.shape("condition")
    if is_plain and call.shape("condition") != output_shape(call):
        raise NotBound("the condition selects along the first axis")
    return element_call(scope, call, f"select_{size}", ("condition", "input1", "input2"))


def bind_cast(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CAST between numbers, directly or by way of another type that has all of them."""
    operand, output = call.operand("input"), call.operand("output")
    if operand.type not in _CAST or output.type not in _CAST:
        raise NotBound("the types have no kernel")
    source, target = _CAST[operand.type], _CAST[output.type]
    is_tflite = call.binding.type is OperationType.TFLITE_CAST
    if source == target or (is_tflite and {source, target} in _SAME_BITS):
        from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import copying_call

        size = count_of(call, "input") * output.type.dtype.itemsize
        return [copying_call(call.index("output"), call.index("input"), size)]
    direct = _casting(source, target, is_tflite=is_tflite)
    if direct is not None:
        return element_call(scope, call, direct, ("input",))
    between = _WITH_ALL.get(source, "")
    if between == "int32" and target.startswith("float"):
        between = "float32"
    first, second = (_casting(*pair, is_tflite=is_tflite) for pair in ((source, between), (between, target)))
    if first is None or second is None:
        raise NotBound("the types have no kernel")
    itemsize = np.dtype(between).itemsize
    numbers = BoundTemporary(size_bytes=max(1, itemsize * count_of(call, "input")))
    one, other = (element_call(scope, call, function, ("input",)) for function in (first, second))
    return [
        *(replace(each, arguments=(numbers, *each.arguments[1:])) for each in one),
        *(replace(each, arguments=(each.arguments[0], numbers)) for each in other),
    ]


def _casting(source: str, target: str, *, is_tflite: bool) -> str | None:
    """Returns the kernel that converts between two types, without its prefix; None without one."""
    if target in _SATURATED and not is_tflite:
        return None
    if source == "float32" and target.startswith(("int", "uint")) and is_tflite:
        return f"cast_or_largest_{target}"
    if not source.startswith("float"):
        # Integers wrap around, so that those of a size have the same bits.
        target = target.removeprefix("u")
    if source == "uint32" and target != "int64" and not target.startswith("float"):
        source = "int32"
    return f"cast_{source}_{target}" if (source, target) in _CASTS else None


def bind_quantize(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds QUANTIZE of floats, and of bytes with another scale."""
    operand, output = call.operand("input"), call.operand("output")
    if _has_table(operand, output):
        return _by_table(scope, call, "input")
    if operand.type is not FLOAT:
        raise NotBound("the types have no kernel")
    words = (bits(output.scale), output.zero_point, *quantized_limits(output))
    return element_call(scope, call, f"quantize_{integer_of(output)}", ("input",), words)


def bind_dequantize(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DEQUANTIZE of bytes and of 16-bit integers."""
    operand = call.operand("input")
    if operand.type is OperandType.TENSOR_FLOAT16 and call.operand("output").type is FLOAT:
        return element_call(scope, call, "cast_float16_float32", ("input",))
    if call.operand("output").type is not FLOAT or operand.channel_quant is not None:
        raise NotBound("the types have no kernel")
    words = (operand.zero_point, bits(operand.scale))
    return element_call(scope, call, f"dequantize_{integer_of(operand)}", ("input",), words)


def _known(*names: str) -> list[OperationType]:
    members = OperationType.__members__
    return [members[name] for name in names if name in members]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **dict.fromkeys(_known(*_UNARY), bind_unary),
    **dict.fromkeys(_known(*_BINARY), bind_binary),
    **dict.fromkeys(_known(*_COMPARED, *(f"TFLITE_{name}" for name in _COMPARED)), bind_comparison),
    **dict.fromkeys(_known("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"), bind_logic),
    **dict.fromkeys(_known("SELECT", "TFLITE_SELECT", "TFLITE_SELECT_V2"), bind_selection),
    **dict.fromkeys(_known("TFLITE_ADD_N"), bind_sum),
    **dict.fromkeys(_known("TFLITE_BITWISE_XOR", "TFLITE_RIGHT_SHIFT"), bind_bits),
    **dict.fromkeys(_known("TFLITE_FAKE_QUANT"), bind_fake_quantize),
    **dict.fromkeys(_known("CAST", "TFLITE_CAST"), bind_cast),
    **dict.fromkeys(_known("QUANTIZE", "TFLITE_QUANTIZE"), bind_quantize),
    **dict.fromkeys(_known("DEQUANTIZE", "TFLITE_DEQUANTIZE"), bind_dequantize),
}

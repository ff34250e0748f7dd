"""Binds functions of two elements, and sums of several."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import INTEGERS, element_call
from neurald.drivers.cpu.first_tier.binding.nest import nest, strides_of
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    SHORT,
    UNLIMITED,
    WORD,
    Bind,
    BindingScope,
    bound_by,
    integer_of,
    limits,
    output_shape,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundTemporary, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

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
#: Functions of two integers of 32 or 64 bits.
_OF_WORDS: Final = frozenset(
    ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "remainder")
)
#: Functions of two integers of 32 bits only.
_OF_SHORT_WORDS: Final = frozenset(("divide", "quotient", "squared_difference", "power"))


def bind_binary(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds functions of two elements."""
    one, other, *_ = call.binding.inputs
    operands, output = [call.operand(name) for name in (one, other)], call.operand("output")
    function, kinds = _BINARY[call.binding.type.name], {each.type for each in operands}
    messages: tuple[str, ...] = ()
    if output.type in INTEGERS:
        function = _OF_INTEGERS.get(call.binding.type.name, function)
    if function in ("floor_divide", "remainder") or (function == "divide" and output.type is WORD):
        messages = (f"{call.name(other)} contains 0; non-zero divisors are expected",)
    if function == "power" and output.type is WORD:
        messages = ("an integer exponent is negative; at least 0 is expected",)
    if kinds == {FLOAT} and output.type is FLOAT:
        function = _OF_FLOATS.get(call.binding.type.name, function)
        return element_call(call, function, (one, other), limits(call), messages=messages)
    functions = _OF_WORDS | _OF_SHORT_WORDS if output.type is WORD else _OF_WORDS
    if kinds == {output.type} and output.type in INTEGERS and function in functions:
        if "activation" in call.binding.inputs and call.activation:
            raise NotBound("the activation has no kernel for integers")
        name = f"{function}_{INTEGERS[output.type]}"
        return element_call(call, name, (one, other), messages=messages)
    if not ({*kinds, output.type} <= BYTES or {*kinds, output.type} == {SHORT}):
        raise NotBound("the types have no kernel")
    if function in ("maximum", "minimum"):
        if len({(each.type, each.scale, each.zero_point) for each in (*operands, output)}) > 1:
            raise NotBound("the scales differ")
        return element_call(call, f"{function}_{integer_of(output)}", (one, other))
    # Models of floats need neither.
    if output.type is SHORT:
        from neurald.drivers.cpu.first_tier.binding.elementwise.short_arithmetic import short_arithmetic_calls

        return short_arithmetic_calls(call, function)
    from neurald.drivers.cpu.first_tier.binding.elementwise.byte_arithmetic import byte_arithmetic_calls

    return byte_arithmetic_calls(call, function)


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


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_binary, *_BINARY),
    **bound_by(bind_sum, "TFLITE_ADD_N"),
}

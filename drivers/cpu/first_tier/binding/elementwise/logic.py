"""Binds operations on truth values and on bits, and selections."""

from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import element_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    BOOL,
    SHORT,
    SIGNED,
    UNSIGNED,
    WORD,
    Bind,
    BindingScope,
    bound_by,
    output_shape,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

#: The names of types in the names of functions of bits, for which zero points do not matter.
_SHIFTED: Final = {SIGNED: "signed", UNSIGNED: "unsigned", SHORT: "short", WORD: "word"}


def bind_logic(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds operations on truth values."""
    name = call.binding.type.name.removeprefix("TFLITE_").removeprefix("LOGICAL_").lower()
    inputs = tuple(call.binding.inputs)
    if any(call.operand(each).type is not BOOL for each in inputs):
        raise NotBound("the type has no kernel")
    return element_call(call, name, inputs)


def bind_bits(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds BITWISE_XOR, and RIGHT_SHIFT of all types but unsigned words."""
    kind = call.operand("output").type
    if call.binding.type is OperationType.TFLITE_BITWISE_XOR:
        function = f"differing_bits_{kind.dtype.itemsize}"
    elif kind in _SHIFTED:
        function = f"shift_right_{_SHIFTED[kind]}"
    else:
        raise NotBound("the type has no kernel")
    return element_call(call, function, ("input1", "input2"))


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
    return element_call(call, f"select_{size}", ("condition", "input1", "input2"))


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_logic, "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"),
    **bound_by(bind_bits, "TFLITE_BITWISE_XOR", "TFLITE_RIGHT_SHIFT"),
    **bound_by(bind_selection, "SELECT", "TFLITE_SELECT", "TFLITE_SELECT_V2"),
}

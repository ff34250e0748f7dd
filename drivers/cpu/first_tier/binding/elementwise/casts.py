"""Binds CAST."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import element_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    BOOL,
    FLOAT,
    SHORT,
    SIGNED,
    UNSIGNED,
    WORD,
    Bind,
    BindingScope,
    bound_by,
    count_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundTemporary, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace

_CAST: Final = {
    FLOAT: "float32",
    WORD: "int32",
    OperandType.TENSOR_INT64: "int64",
    BOOL: "bool",
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
        return element_call(call, direct, ("input",))
    between = _WITH_ALL.get(source, "")
    if between == "int32" and target.startswith("float"):
        between = "float32"
    first, second = (_casting(*pair, is_tflite=is_tflite) for pair in ((source, between), (between, target)))
    if first is None or second is None:
        raise NotBound("the types have no kernel")
    itemsize = np.dtype(between).itemsize
    numbers = BoundTemporary(size_bytes=max(1, itemsize * count_of(call, "input")))
    one, other = (element_call(call, function, ("input",)) for function in (first, second))
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


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_cast, "CAST", "TFLITE_CAST"),
}

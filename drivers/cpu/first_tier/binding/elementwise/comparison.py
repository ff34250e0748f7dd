"""Binds comparisons."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import INTEGERS, element_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    BOOL,
    BYTES,
    FLOAT,
    Bind,
    BindingScope,
    bound_by,
    count_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace

_COMPARED: Final = {
    "EQUAL": "equal",
    "NOT_EQUAL": "differs",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
}


def bind_comparison(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds comparisons of floats, of integers, of truth values, and of bytes as in TFLite."""
    name, kind = _COMPARED[call.binding.type.name.removeprefix("TFLITE_")], call.operand("input1").type
    if kind is BOOL and name in ("equal", "differs"):
        return element_call(call, f"{name}_bool", ("input1", "input2"))
    if kind in BYTES and call.binding.type.name.startswith("TFLITE_"):
        return _of_bytes(scope, call, name)
    suffix = {FLOAT: "float", **INTEGERS}.get(kind)
    if suffix is None:
        raise NotBound("the type has no kernel")
    return element_call(call, f"{name}_{suffix}", ("input1", "input2"))


def _of_bytes(scope: BindingScope, call: Call, name: str) -> list[BoundCall]:
    """Binds a comparison of bytes, as one of the integers that tables have for them."""
    from neurald.drivers.cpu.first_tier.binding.elementwise.tables import lookup_call  # few models
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
            calls.append(
                lookup_call(given[-1], call.index(each), "lookup_1_4", scope.shared(key, make), count)
            )
    compared = element_call(call, f"{name}_word", ("input1", "input2"))
    return [*calls, *(replace(each, arguments=(each.arguments[0], *given)) for each in compared)]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_comparison, *_COMPARED, *(f"TFLITE_{name}" for name in _COMPARED)),
}

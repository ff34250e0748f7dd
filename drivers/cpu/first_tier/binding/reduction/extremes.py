"""Binds the search for the position of the largest or smallest element."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    FLOAT,
    SIGNED,
    UNSIGNED,
    Bind,
    BindingScope,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis

#: The names of element types in the names of functions.
ELEMENTS: Final = {
    FLOAT: "float",
    OperandType.TENSOR_INT32: "word",
    SIGNED: "signed",
    UNSIGNED: "unsigned",
}
POSITIONS: Final = {OperandType.TENSOR_INT32: "i32", OperandType.TENSOR_INT64: "i64"}
MAX_LENGTH: Final = (1 << 31) - 1


def bind_extreme(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds ARGMAX and ARGMIN along any axis."""
    shape = call.shape("input")
    axis = resolve_axis(int(call.scalar("axis")), len(shape), "axis")
    element, position = (
        ELEMENTS.get(call.operand("input").type),
        POSITIONS.get(call.operand("output").type),
    )
    if element is None or position is None or not math.prod(shape) > 0 or shape[axis] > MAX_LENGTH:
        raise NotBound("the types have no kernel")
    outer, columns = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if shape[axis] == 1:
        # There is nothing to search for in any of these rows.
        outer, columns = 1, outer * columns
    is_smallest = "ARGMIN" in call.binding.type.name.replace("_", "")
    return [
        BoundCall(
            function=f"first_extreme_{element}_{'rows' if columns == 1 else 'columns'}_{position}",
            arguments=(call.index("output"), call.index("input")),
            words=(shape[axis], columns, -is_smallest),
            work_items=outer,
            cost_ns=math.prod(shape) / ELEMENTS_PER_NS / 2,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.ARGMAX: bind_extreme,
    OperationType.ARGMIN: bind_extreme,
    OperationType.TFLITE_ARG_MAX: bind_extreme,
    OperationType.TFLITE_ARG_MIN: bind_extreme,
}

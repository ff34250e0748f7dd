"""Binds sums of all elements before one."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.scope import ELEMENTS_PER_NS, FLOAT, Bind, BindingScope
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

_ELEMENTS: Final = {FLOAT: "float", OperandType.TENSOR_INT32: "i32", OperandType.TENSOR_INT64: "i64"}


def bind_cumulative(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CUMSUM."""
    from neurald.hal.operations.tflite.reduction.reduction import cumulative_axis

    kind, shape, axis = call.operand("input").type, call.shape("input"), cumulative_axis(call)
    if kind not in _ELEMENTS or not math.prod(shape):
        raise NotBound("the type has no kernel")
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    first, step = ((length - 1) * inner, -inner) if call.scalar("reverse") else (0, inner)
    return [
        BoundCall(
            function=f"first_cumulative_{_ELEMENTS[kind]}",
            arguments=(call.index("output"), call.index("input")),
            words=(length, inner, first, step, int(bool(call.scalar("exclusive")))),
            work_items=math.prod(shape[:axis]),
            cost_ns=math.prod(shape) / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.TFLITE_CUMSUM: bind_cumulative,
}

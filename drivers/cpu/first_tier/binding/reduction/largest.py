"""Binds the search for the largest elements of rows."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.reduction.extremes import ELEMENTS, MAX_LENGTH, POSITIONS
from neurald.drivers.cpu.first_tier.binding.scope import ELEMENTS_PER_NS, Bind, BindingScope
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundTemporary, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

_MARK_BYTES: Final = 8
#: The names of element types in the names of functions.
_ELEMENTS: Final = {**ELEMENTS, OperandType.TENSOR_INT64: "long"}


def bind_largest(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds TOPK_V2 with a known number of elements."""
    *others, length = call.shape("input")
    rows, count = math.prod(others), int(call.scalar("k"))
    operand = call.operand("input")
    element = _ELEMENTS.get(operand.type)
    position = POSITIONS.get(call.operand("indices").type)
    if element is None or position is None or not rows or not 0 < count <= length <= MAX_LENGTH:
        raise NotBound("the types or sizes have no kernel")
    # Of equal elements, Android's operation has the last one first, TFLite's the first one.
    mask = 0 if call.binding.type is OperationType.TOPK_V2 else -1
    return [
        BoundCall(
            function=f"first_largest_{element}_{position}",
            arguments=(
                call.index("output"),
                call.index("indices"),
                call.index("input"),
                # A mark has twice the bits of a key.
                BoundTemporary(size_bytes=max(_MARK_BYTES, 2 * operand.type.dtype.itemsize) * rows * count),
            ),
            words=(length, count, mask),
            work_items=rows,
            cost_ns=rows * (length + 16 * count) / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.TOPK_V2: bind_largest,
    OperationType.TFLITE_TOPK_V2: bind_largest,
}

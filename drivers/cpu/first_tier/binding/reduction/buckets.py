"""Binds numbers of buckets."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.scope import ELEMENTS_PER_NS, FLOAT, Bind, BindingScope
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

_ELEMENTS: Final = {
    FLOAT: "float",
    OperandType.TENSOR_FLOAT64: "double",
    OperandType.TENSOR_INT32: "i32",
    OperandType.TENSOR_INT64: "i64",
}


def bind_buckets(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds BUCKETIZE, whose boundaries are constant, so that they are sorted."""
    element, count = _ELEMENTS.get(call.operand("input").type), math.prod(call.shape("input"))
    boundaries = len(scope.constant(call, "boundaries"))
    if element is None or not boundaries:
        raise NotBound("the type has no kernel, or there are no boundaries")
    return [
        BoundCall(
            function=f"first_buckets_{element}",
            arguments=(call.index("output"), call.index("input"), call.index("boundaries")),
            words=(count, boundaries),
            work_items=-(-count // BLOCK),
            cost_ns=count * boundaries / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.TFLITE_BUCKETIZE: bind_buckets,
}

"""Binds the normalisation of elements by their neighbours."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.scope import ELEMENTS_PER_NS, FLOAT, Bind, BindingScope, bits
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis


def bind_local_response(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds LOCAL_RESPONSE_NORMALIZATION of floats along the last axis."""
    shape = call.shape("input")
    if not call.operand("input").type is call.operand("output").type is FLOAT or not math.prod(shape):
        raise NotBound("the types have no kernel")
    if resolve_axis(call.scalar("axis"), len(shape), "axis") != len(shape) - 1:
        raise NotBound("the axis has no kernel")
    radius = min(call.scalar_in("radius", 0), shape[-1] - 1)
    bias, alpha, beta = (float(call.scalar(name)) for name in ("bias", "alpha", "beta"))
    # Elsewhere powers of negative and infinite numbers differ from roots.
    is_root = beta == 0.5 and alpha >= 0 and bias > 0
    return [
        BoundCall(
            function="first_local_response_root" if is_root else "first_local_response",
            arguments=(call.index("output"), call.index("input")),
            words=(shape[-1], radius, bits(bias), bits(alpha), bits(-beta)),
            work_items=math.prod(shape[:-1]),
            cost_ns=math.prod(shape) * (2 * radius + 8) / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.LOCAL_RESPONSE_NORMALIZATION: bind_local_response,
}

"""Lowers CAST."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import UNARY_INPUTS, pointwise
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def cast(value: Expression, target: Scalar) -> Expression:
    """Converts a number to another type; integers saturate, as floats always do."""
    if value.type.is_integer and target.is_integer:
        held, wanted = (np.iinfo(kind.dtype.name) for kind in (value.type, target))
        if held.min < wanted.min or held.max > wanted.max:
            value = clamp(value, max(int(held.min), int(wanted.min)), min(int(held.max), int(wanted.max)))
    return value.to(target)


def _cast(call: Call, builder: Builder) -> tuple[Value, ...]:
    target = Scalar.of(call.operand("output").type.dtype)
    return pointwise(call, builder, UNARY_INPUTS, lambda value: cast(value, target))


LOWERINGS = {OperationType.CAST: _cast}

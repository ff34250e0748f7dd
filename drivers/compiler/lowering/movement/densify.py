"""Lowers DENSIFY, which expands a sparse tensor of known structure."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.densify import leaf_positions


def _densify(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers DENSIFY by a table with the leaf position of each element, or -1 for zero."""
    source, (shape,) = builder.value(call, "input"), output_shapes(call)
    indexes = leaf_positions(call)
    table = np.full(shape, -1, np.int32)
    table[indexes] = np.arange(len(indexes[0]))
    which = builder.constant(table)
    zero = constant(call.operand("output").zero_point, source.type)

    def body(*at: Expression) -> Expression:
        if not source.count:
            return zero
        leaf = load(which, at).to(Scalar.INDEX)
        return load(source, (leaf,), leaf >= 0, zero)

    return (builder.compute(shape, body),)


LOWERINGS = {OperationType.DENSIFY: _densify}

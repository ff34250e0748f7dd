"""Lowers TILE, FILL, PACK, EXPAND_DIMS and RANK."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import (
    concatenated,
    constant_results,
    only_element,
    output_shapes,
    reshaped,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.tiling import pack_axis


def tile(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers TILE."""
    source = builder.value(call, "input")

    def body(*at: Expression) -> Expression:
        return load(
            source,
            tuple(
                index % length if length else index for index, length in zip(at, source.shape, strict=True)
            ),
        )

    return (builder.compute(output_shapes(call)[0], body),)


def fill(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers FILL."""
    value = only_element(builder.value(call, "value"))
    return (builder.compute(output_shapes(call)[0], lambda *_: value),)


def pack(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers PACK."""
    axis = pack_axis(call)
    parts = [
        builder.reshape(part, (*part.shape[:axis], 1, *part.shape[axis:]))
        for part in builder.values(call, "inputs")
    ]
    return (concatenated(builder, parts, axis),)


LOWERINGS = {
    OperationType.TILE: tile,
    OperationType.FILL: fill,
    OperationType.PACK: pack,
    OperationType.EXPAND_DIMS: reshaped,
    OperationType.RANK: constant_results,
}

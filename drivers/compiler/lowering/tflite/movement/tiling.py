"""Lowers TILE, BROADCAST_TO, and BROADCAST_ARGS, which computes the broadcast shape."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder, broadcast
from neurald.drivers.compiler.ir.expression import Expression, load, select
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.lowering.movement.tiling import tile
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def _broadcast_to(call: Call, builder: Builder) -> tuple[Value, ...]:
    source = builder.value(call, "input")
    return (builder.compute(output_shapes(call)[0], lambda *at: broadcast(source, at)),)


def _broadcast_args(call: Call, builder: Builder) -> tuple[Value, ...]:
    shapes = builder.value(call, "shape1"), builder.value(call, "shape2")
    ((rank,),) = output_shapes(call)

    def lengths(at: Expression) -> list[Expression]:
        """Returns the lengths of both shapes, aligned at their ends."""
        indexes = [at - (rank - shape.count) for shape in shapes]
        return [load(shape, (index,), index >= 0, 1) for shape, index in zip(shapes, indexes, strict=True)]

    def body(at: Expression) -> Expression:
        one, other = lengths(at)
        return select(one.equals(1), other, one)

    def requirements(at: Expression) -> Sequence[tuple[Expression, str]]:
        one, other = lengths(at)
        holds = one.equals(other) | one.equals(1) | other.equals(1)
        return ((holds, f"{call.name('shape2')} does not broadcast with shape1"),)

    return (builder.compute((rank,), body, requirements),)


LOWERINGS = {
    OperationType.TFLITE_TILE: tile,
    OperationType.TFLITE_BROADCAST_TO: _broadcast_to,
    OperationType.TFLITE_BROADCAST_ARGS: _broadcast_args,
}

"""Lowers GATHER with batches and GATHER_ND, for all types."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, index, load
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.gather import gathered
from neurald.drivers.compiler.lowering.movement.indexing import bounded_index, element, output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.gather import axis_and_batches


def _gather(call: Call, builder: Builder) -> tuple[Value, ...]:
    axis, batches = axis_and_batches(call)
    return (gathered(call, builder, "indices", axis, batches),)


def _gather_nd(call: Call, builder: Builder) -> tuple[Value, ...]:
    values, indices = builder.value(call, "values"), builder.value(call, "indices")
    *outer, depth = indices.shape
    lengths = values.shape[:depth]

    def indexes(at: Sequence[Expression]) -> list[tuple[Expression, Expression]]:
        return [
            bounded_index(element(indices, (*at[: len(outer)], index(axis))), length)
            for axis, length in enumerate(lengths)
        ]

    def body(*at: Expression) -> Expression:
        if not values.count:
            return constant(0, values.type)
        return load(values, (*(coordinate for coordinate, _ in indexes(at)), *at[len(outer) :]))

    def requirements(*at: Expression) -> Sequence[tuple[Expression, str]]:
        message = f"{call.name('indices')}: indexes into {list(lengths)} are expected"
        return tuple((holds, message) for _, holds in indexes(at))

    return (builder.compute(output_shapes(call)[0], body, requirements),)


LOWERINGS = {
    OperationType.TFLITE_GATHER: _gather,
    OperationType.TFLITE_GATHER_ND: _gather_nd,
}

"""Lowers REVERSE_V2 and REVERSE_SEQUENCE."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, load, select
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import as_index, element
from neurald.drivers.compiler.lowering.movement.transpose import backwards
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axes
from neurald.hal.operations.tflite.movement.reverse import sequence_axes


def _reverse(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (backwards(builder, builder.value(call, "input"), resolve_axes(call, "axis")),)


def _reverse_sequence(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, lengths = builder.value(call, "input"), builder.value(call, "lengths")
    along, batch = sequence_axes(call)
    longest = source.shape[along]

    def end(at: Sequence[Expression]) -> Expression:
        return as_index(element(lengths, (at[batch],)), -1, longest + 1)

    def body(*at: Expression) -> Expression:
        step, length = at[along], clamp(end(at), 0, longest)
        index = select(step < length, length - 1 - step, step)
        return load(source, (*at[:along], index, *at[along + 1 :]))

    def requirements(*at: Expression) -> Sequence[tuple[Expression, str]]:
        message = f"{call.name('lengths')}: numbers from 0 to {longest} are expected"
        return (((end(at) >= 0) & (end(at) <= longest), message),)

    return (builder.compute(source.shape, body, requirements),)


LOWERINGS = {
    OperationType.TFLITE_REVERSE_V2: _reverse,
    OperationType.TFLITE_REVERSE_SEQUENCE: _reverse_sequence,
}

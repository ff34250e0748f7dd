"""Lowers TRANSPOSE, CHANNEL_SHUFFLE and REVERSE."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.transpose import reversed_axis, shuffled_groups, transposed_axes


def transpose(call: Call, builder: Builder, *, from_end: bool = False) -> tuple[Value, ...]:
    """Lowers TRANSPOSE; for `from_end` see `transposed_axes`."""
    source, axes = builder.value(call, "input"), transposed_axes(call, from_end=from_end)

    def body(*at: Expression) -> Expression:
        return load(source, tuple(at[axes.index(axis)] for axis in range(len(axes))))

    return (builder.compute(tuple(source.shape[axis] for axis in axes), body),)


def _channel_shuffle(call: Call, builder: Builder) -> tuple[Value, ...]:
    source = builder.value(call, "input")
    axis, groups = shuffled_groups(call)
    each = source.shape[axis] // groups

    def body(*at: Expression) -> Expression:
        index = at[axis] % groups * each + at[axis] // groups
        return load(source, (*at[:axis], index, *at[axis + 1 :]))

    return (builder.compute(source.shape, body),)


def backwards(builder: Builder, source: Value, axes: Sequence[int]) -> Value:
    """Reverses the elements along some axes."""

    def body(*at: Expression) -> Expression:
        return load(
            source,
            tuple(source.shape[axis] - 1 - index if axis in axes else index for axis, index in enumerate(at)),
        )

    return builder.compute(source.shape, body)


def _reverse(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (backwards(builder, builder.value(call, "input"), [reversed_axis(call)]),)


LOWERINGS = {
    OperationType.TRANSPOSE: transpose,
    OperationType.CHANNEL_SHUFFLE: _channel_shuffle,
    OperationType.REVERSE: _reverse,
}

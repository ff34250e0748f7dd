"""Lowers SLICE, STRIDED_SLICE and SPLIT."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement import indexing
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes, sliced
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.slicing import slice_parts, split_parts, strided_parts


def lower_slice(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SLICE."""
    return (sliced(builder, builder.value(call, "input"), slice_parts(call), output_shapes(call)[0]),)


def _strided_slice(call: Call, builder: Builder) -> tuple[Value, ...]:
    parts, shape = strided_parts(call)
    return (sliced(builder, builder.value(call, "input"), parts, shape),)


def lower_split(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SPLIT into equal parts."""
    axis, parts = split_parts(call)
    source = builder.value(call, "input")
    return indexing.split(builder, source, axis, [source.shape[axis] // parts] * parts)


LOWERINGS = {
    OperationType.SLICE: lower_slice,
    OperationType.STRIDED_SLICE: _strided_slice,
    OperationType.SPLIT: lower_split,
}

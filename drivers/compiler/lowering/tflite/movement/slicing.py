"""Lowers SLICE, SPLIT, SPLIT_V, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, index, load
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.reduced_axes import filled
from neurald.drivers.compiler.lowering.movement import indexing
from neurald.drivers.compiler.lowering.movement.indexing import as_index, element, output_shapes, sliced
from neurald.drivers.compiler.lowering.movement.slicing import lower_slice, lower_split
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.slicing import split_sizes, strided_parts


def _split_v(call: Call, builder: Builder) -> tuple[Value, ...]:
    axis, sizes = split_sizes(call)
    return indexing.split(builder, builder.value(call, "input"), axis, sizes)


def _strided_slice(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, (parts, _), (shape,) = builder.value(call, "input"), strided_parts(call), output_shapes(call)
    if 0 in source.shape:
        # Elements exist only if an axis without any was removed; LiteRT does not write them.
        return (filled(builder, shape, 0, source.type),)
    return (sliced(builder, source, parts, shape),)


def _dynamic_update_slice(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers DYNAMIC_UPDATE_SLICE. The start is clamped so that the update stays in the input."""
    source, update, start = (builder.value(call, name) for name in ("input", "update", "start"))
    if not update.count:
        return (source,)

    def body(*at: Expression) -> Expression:
        indexes = []
        for axis, (coordinate, length, size) in enumerate(zip(at, source.shape, update.shape, strict=True)):
            last = length - size
            begin = as_index(element(start, (index(axis),)), 0, last)
            indexes.append(coordinate - clamp(begin, 0, last))
        return load(update, tuple(indexes), inside(indexes, update.shape), load(source, at))

    return (builder.compute(source.shape, body),)


LOWERINGS = {
    OperationType.TFLITE_SLICE: lower_slice,
    OperationType.TFLITE_SPLIT: lower_split,
    OperationType.TFLITE_SPLIT_V: _split_v,
    OperationType.TFLITE_STRIDED_SLICE: _strided_slice,
    OperationType.TFLITE_DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
}

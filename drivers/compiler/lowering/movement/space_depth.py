"""Lowers DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND."""

from collections.abc import Callable, Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, load
from neurald.drivers.compiler.ir.graph import delinearize, inside, linearize
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw, shape_to_nhwc
from neurald.hal.operations.movement.padding import paddings
from neurald.hal.operations.movement.space_depth import block_lengths

#: Computes the output from the input and the output's shape, all NHWC.
ImageRearrangement = Callable[[Call, Builder, Value, Shape], Value]


def batch_to_space(
    builder: Builder, source: Value, block: Sequence[int], crops: Sequence[int], shape: Shape
) -> Value:
    """Rearranges images of the batch into blocks of larger images.

    Args:
        builder: the builder of the operation.
        source: (batches, image lengths …, channels).
        block: its lengths.
        crops: elements removed at the start of each axis.
        shape: the shape of the result.
    """

    def body(*at: Expression) -> Expression:
        batch, *image, channel = at
        indexes = [index + cut for index, cut in zip(image, crops, strict=True)]
        within = [index % length for index, length in zip(indexes, block, strict=True)]
        blocks = [index // length for index, length in zip(indexes, block, strict=True)]
        return load(source, (linearize((*within, batch), (*block, shape[0])), *blocks, channel))

    return builder.compute(shape, body)


def space_to_batch(
    builder: Builder, source: Value, block: Sequence[int], before: Sequence[int], shape: Shape, value: int
) -> Value:
    """Rearranges the elements of blocks into images of the batch.

    Args:
        builder: the builder of the operation.
        source: (batches, image lengths …, channels).
        block: its lengths.
        before: padding at the start of each axis.
        shape: the shape of the result.
        value: the padding, as stored.
    """
    other = constant(value, source.type)

    def body(*at: Expression) -> Expression:
        if not source.count:
            return other
        images, *image, channel = at
        *within, batch = delinearize(images, (*block, source.shape[0]))
        indexes = [
            index * length + inner - pad
            for index, length, inner, pad in zip(image, block, within, before, strict=True)
        ]
        return load(source, (batch, *indexes, channel), inside(indexes, source.shape[1:-1]), other)

    return builder.compute(shape, body)


def _depth_to_space(call: Call, builder: Builder, source: Value, shape: Shape) -> Value:
    size, depth = call.scalar("block_size"), shape[3]

    def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        index = linearize((y % size, x % size, c), (size, size, depth))
        return load(source, (n, y // size, x // size, index))

    return builder.compute(shape, body)


def _space_to_depth(call: Call, builder: Builder, source: Value, shape: Shape) -> Value:
    size = call.scalar("block_size")

    def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        row, column, channel = delinearize(c, (size, size, source.shape[3]))
        return load(source, (n, y * size + row, x * size + column, channel))

    return builder.compute(shape, body)


def _batch_to_space(call: Call, builder: Builder, source: Value, shape: Shape) -> Value:
    return batch_to_space(builder, source, block_lengths(call), (0, 0), shape)


def _space_to_batch(call: Call, builder: Builder, source: Value, shape: Shape) -> Value:
    before = [before for before, _ in paddings(call, 2)]
    zero = call.operand("input").zero_point
    return space_to_batch(builder, source, block_lengths(call), before, shape, zero)


def _images(rearrange: ImageRearrangement) -> Lowering:
    """Returns the lowering of a rearrangement for both image layouts."""

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
        (shape,) = output_shapes(call)
        result = rearrange(call, builder, source, shape_to_nhwc(shape) if is_nchw(call) else shape)
        return (from_nhwc(builder, result, is_nchw(call)),)

    return lower


#: The TFLite operations only differ in types and share these lowerings.
depth_to_space, space_to_depth = _images(_depth_to_space), _images(_space_to_depth)

LOWERINGS = {
    OperationType.DEPTH_TO_SPACE: depth_to_space,
    OperationType.SPACE_TO_DEPTH: space_to_depth,
    OperationType.BATCH_TO_SPACE_ND: _images(_batch_to_space),
    OperationType.SPACE_TO_BATCH_ND: _images(_space_to_batch),
}

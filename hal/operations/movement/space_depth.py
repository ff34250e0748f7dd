"""Moves blocks of an image to its channels or to the batch, and back.

DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND, SPACE_TO_BATCH_ND. Shapes and arrays are NHWC
here; callers handle the NCHW flag.
"""

from collections.abc import Callable

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.convolution.windowing import Pair
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import (
    from_nhwc,
    is_nchw,
    shape_from_nhwc,
    shape_to_nhwc,
    to_nhwc,
)
from neurald.hal.operations.machinery.rules import data_rows, same_scale
from neurald.hal.operations.machinery.signature import Form, Parameter, layout, scalar, tensor
from neurald.hal.operations.movement.padding import pad, paddings, zero_point_level

#: Infers the shape of the output from that of the input.
ShapeRule = Callable[[Call, Shape], Shape]
#: Computes the output from the input and the output's shape.
Rearrangement = Callable[[Call, Array, Shape], Array]

_BLOCK_SHAPE = tensor("block_shape", OperandType.TENSOR_INT32, rank=1)


def _depth_to_space_shape(call: Call, shape: Shape) -> Shape:
    batches, height, width, depth = shape
    size = call.scalar_in("block_size", 1)
    if depth % size**2:
        raise BadData(f"{call.name('block_size')} is {size}; its square does not divide the depth, {depth}")
    return batches, height * size, width * size, depth // size**2


def _depth_to_space(call: Call, values: Array, result: Shape) -> Array:
    batches, height, width, _ = values.shape
    size = call.scalar("block_size")
    blocks = values.reshape(batches, height, width, size, size, result[3])
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(result)


def _space_to_depth_shape(call: Call, shape: Shape) -> Shape:
    batches, height, width, depth = shape
    size = call.scalar_in("block_size", 1)
    if height % size or width % size:
        raise BadData(
            f"{call.name('block_size')} is {size}; it does not divide height {height} and width {width}"
        )
    return batches, height // size, width // size, depth * size**2


def _space_to_depth(call: Call, values: Array, result: Shape) -> Array:
    batches, height, width, _ = result
    size = call.scalar("block_size")
    blocks = values.reshape(batches, height, size, width, size, values.shape[3])
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(result)


def block_lengths(call: Call) -> Pair:
    """Returns height and width of a block."""
    height, width = (int(length) for length in integers(call, "block_shape", (2,)))
    if min(height, width) < 1:
        raise BadData(f"{call.name('block_shape')} is {[height, width]}; lengths of at least 1 are expected")
    return height, width


def _batch_to_space_shape(call: Call, shape: Shape) -> Shape:
    batches, height, width, depth = shape
    rows, columns = block_lengths(call)
    if batches % (rows * columns):
        raise BadData(
            f"{call.name('block_shape')} is {[rows, columns]}; "
            f"its product does not divide the number of batches, {batches}"
        )
    return batches // (rows * columns), height * rows, width * columns, depth


def _batch_to_space(call: Call, values: Array, result: Shape) -> Array:
    _, height, width, depth = values.shape
    blocks = values.reshape(*block_lengths(call), result[0], height, width, depth)
    return blocks.transpose(2, 3, 0, 4, 1, 5).reshape(result)


def _space_to_batch_shape(call: Call, shape: Shape) -> Shape:
    batches, depth = shape[0], shape[3]
    rows, columns = block_lengths(call)
    height, width = (
        before + length + after for length, (before, after) in zip(shape[1:3], paddings(call, 2), strict=True)
    )
    if height % rows or width % columns:
        raise BadData(
            f"{call.name('block_shape')} is {[rows, columns]}; "
            f"it does not divide the padded height {height} and width {width}"
        )
    return batches * rows * columns, height // rows, width // columns, depth


def _space_to_batch(call: Call, values: Array, result: Shape) -> Array:
    batches, _, _, depth = values.shape
    _, height, width, _ = result
    rows, columns = block_lengths(call)
    padded = pad(values, ((0, 0), *paddings(call, 2), (0, 0)), call.operand("input").zero_point)
    blocks = padded.reshape(batches, height, rows, width, columns, depth)
    return blocks.transpose(2, 4, 0, 1, 3, 5).reshape(result)


def _definition(
    operation_type: OperationType,
    parameters: tuple[Parameter, ...],
    since: FeatureLevel,
    rule: ShapeRule,
    rearrange: Rearrangement,
    level: Callable[[Call], FeatureLevel] | None = None,
) -> Definition:
    def shape(call: Call) -> tuple[Shape, ...]:
        given = call.shape("input")
        if is_nchw(call):
            return (shape_from_nhwc(rule(call, shape_to_nhwc(given))),)
        return (rule(call, given),)

    def reference(call: Call) -> tuple[Array, ...]:
        values = to_nhwc(call.array("input")) if is_nchw(call) else call.array("input")
        result = rearrange(call, values, rule(call, values.shape))
        return (from_nhwc(result) if is_nchw(call) else result,)

    return Definition(
        type=operation_type,
        forms=(
            Form(
                inputs=(tensor("input", rank=4), *parameters, layout()), outputs=(tensor("output", rank=4),)
            ),
        ),
        rows=data_rows(since, quant8=since),
        checks=(same_scale("input"),),
        shape=shape,
        reference=reference,
        arithmetic=frozenset({"input"}),
        level=level,
    )


DEFINITIONS = (
    _definition(
        OperationType.DEPTH_TO_SPACE,
        (scalar("block_size"),),
        FeatureLevel.LEVEL_1,
        _depth_to_space_shape,
        _depth_to_space,
    ),
    _definition(
        OperationType.SPACE_TO_DEPTH,
        (scalar("block_size"),),
        FeatureLevel.LEVEL_1,
        _space_to_depth_shape,
        _space_to_depth,
    ),
    _definition(
        OperationType.BATCH_TO_SPACE_ND,
        (_BLOCK_SHAPE,),
        FeatureLevel.LEVEL_2,
        _batch_to_space_shape,
        _batch_to_space,
    ),
    _definition(
        OperationType.SPACE_TO_BATCH_ND,
        (_BLOCK_SHAPE, tensor("paddings", OperandType.TENSOR_INT32, rank=2)),
        FeatureLevel.LEVEL_2,
        _space_to_batch_shape,
        _space_to_batch,
        zero_point_level,
    ),
)

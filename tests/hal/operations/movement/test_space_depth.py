import itertools
from collections.abc import Callable

import numpy as np
import pytest
from support.operations.random_tensors import PLAIN_TYPES, ZERO_POINT, levels, like, tensor, value
from support.operations.single_operation import (
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue

DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND, SPACE_TO_BATCH_ND = (
    OperationType.DEPTH_TO_SPACE,
    OperationType.SPACE_TO_DEPTH,
    OperationType.BATCH_TO_SPACE_ND,
    OperationType.SPACE_TO_BATCH_ND,
)
FLOAT32, FLOAT16, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, PLAIN_TYPES[2]

#: Maps an output index to the input index, both NHWC; None for padding.
Source = Callable[[tuple[int, ...]], tuple[int, ...] | None]


def pairs(*numbers: tuple[int, int]) -> Given:
    return given(OperandType.TENSOR_INT32, np.array(numbers))


def rearranged(values: Array, shape: tuple[int, ...], source: Source, filling: int = 0) -> Array:
    """Rearranges element by element."""
    result = np.full(shape, filling, values.dtype)
    for index in np.ndindex(shape):
        position = source(index)
        if position is not None:
            result[index] = values[position]
    return result


def check(
    operation: OperationType,
    operand_type: OperandType,
    shape: tuple[int, ...],
    arguments: list[Given],
    result_shape: tuple[int, ...],
    source: Source,
) -> None:
    """Checks both layouts, and the default without the flag."""
    data = tensor(operand_type, *shape)
    filling = ZERO_POINT if operand_type in QUANT8_TYPES else 0
    expected = rearranged(value(data), result_shape, source, filling)
    assert (evaluate(operation, [data, *arguments], like(operand_type)) == expected).all()
    assert (evaluate(operation, [data, *arguments, *scalars(False)], like(operand_type)) == expected).all()
    nchw = given(operand_type, np.moveaxis(value(data), 3, 1), data.operand.scale, data.operand.zero_point)
    result = evaluate(operation, [nchw, *arguments, *scalars(True)], like(operand_type))
    assert (result == np.moveaxis(expected, 3, 1)).all()


SHAPES = [(1, 2, 3, 1), (2, 1, 1, 3), (3, 2, 1, 2), (0, 2, 2, 1), (2, 0, 3, 1), (1, 1, 2, 0)]


@sweep(("shape", "size"), [*itertools.product(SHAPES, [1, 2, 3])])
@sweep("operand_type", PLAIN_TYPES)
def test_depth_and_space(operand_type: OperandType, shape: tuple[int, ...], size: int) -> None:
    batches, height, width, depth = shape
    deep = batches, height, width, depth * size**2
    wide = batches, height * size, width * size, depth

    def in_depth(index: tuple[int, ...]) -> tuple[int, ...]:
        n, y, x, c = index
        return n, y // size, x // size, (y % size * size + x % size) * depth + c

    def in_space(index: tuple[int, ...]) -> tuple[int, ...]:
        n, y, x, c = index
        block = c // depth
        return n, y * size + block // size, x * size + block % size, c % depth

    check(DEPTH_TO_SPACE, operand_type, deep, [*scalars(size)], wide, in_depth)
    check(SPACE_TO_DEPTH, operand_type, wide, [*scalars(size)], deep, in_space)


@sweep(("shape", "block"), [*itertools.product(SHAPES, [(1, 1), (2, 1), (2, 3)])])
@sweep("operand_type", PLAIN_TYPES)
def test_batch_to_space(operand_type: OperandType, shape: tuple[int, ...], block: tuple[int, int]) -> None:
    batches, height, width, depth = shape
    rows, columns = block

    def source(index: tuple[int, ...]) -> tuple[int, ...]:
        n, y, x, c = index
        return (y % rows * columns + x % columns) * batches + n, y // rows, x // columns, c

    stacked = batches * rows * columns, height, width, depth
    check(
        BATCH_TO_SPACE_ND,
        operand_type,
        stacked,
        [ints(*block)],
        (batches, height * rows, width * columns, depth),
        source,
    )


@sweep(
    ("shape", "block", "paddings"),
    [
        ((2, 4, 6, 1), (2, 3), ((0, 0), (0, 0))),
        ((1, 3, 2, 2), (2, 2), ((1, 0), (0, 2))),
        ((3, 1, 5, 2), (3, 1), ((2, 3), (4, 0))),
        ((2, 2, 2, 1), (1, 1), ((1, 2), (3, 0))),
        ((1, 0, 2, 1), (3, 2), ((1, 2), (0, 0))),
        ((0, 2, 2, 1), (2, 2), ((0, 0), (0, 0))),
    ],
)
@sweep("operand_type", PLAIN_TYPES)
def test_space_to_batch(
    operand_type: OperandType,
    shape: tuple[int, ...],
    block: tuple[int, int],
    paddings: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    batches, height, width, depth = shape
    (top, bottom), (left, right) = paddings
    rows, columns = block

    def source(index: tuple[int, ...]) -> tuple[int, ...] | None:
        n, y, x, c = index
        position, batch = divmod(n, batches)
        row, column = y * rows + position // columns - top, x * columns + position % columns - left
        return (batch, row, column, c) if 0 <= row < height and 0 <= column < width else None

    result_shape = (
        batches * rows * columns,
        (top + height + bottom) // rows,
        (left + width + right) // columns,
        depth,
    )
    arguments = [ints(*block), pairs(*paddings)]
    check(SPACE_TO_BATCH_ND, operand_type, shape, arguments, result_shape, source)


@sweep(
    ("operation", "arguments", "message"),
    [
        (
            DEPTH_TO_SPACE,
            scalars(0),
            r"operand 1 \(block_size of DEPTH_TO_SPACE\) is 0; it must be at least 1",
        ),
        (DEPTH_TO_SPACE, scalars(3), "is 3; its square does not divide the depth, 4"),
        (DEPTH_TO_SPACE, scalars(2**31 - 1), "does not divide the depth"),
        (SPACE_TO_DEPTH, scalars(-2), "is -2; it must be at least 1"),
        (
            SPACE_TO_DEPTH,
            scalars(2),
            r"block_size of SPACE_TO_DEPTH\) is 2; it does not divide height 2 and width 3",
        ),
        (BATCH_TO_SPACE_ND, [ints(2, 0)], r"is \[2, 0\]; lengths of at least 1"),
        (BATCH_TO_SPACE_ND, [ints(2, 2)], r"\[2, 2\]; its product does not divide the number of batches, 2"),
        (
            BATCH_TO_SPACE_ND,
            [ints(2)],
            r"block_shape of BATCH_TO_SPACE_ND\) has shape \[1\]; \[2\] is expected",
        ),
        (SPACE_TO_BATCH_ND, [ints(1, 1), pairs((0, -1), (0, 0))], "no number may be negative"),
        (SPACE_TO_BATCH_ND, [ints(-1, 1), pairs((0, 0), (0, 0))], r"is \[-1, 1\]; lengths of at least 1"),
        (
            SPACE_TO_BATCH_ND,
            [ints(2, 2), pairs((1, 0), (0, 0))],
            r"is \[2, 2\]; it does not divide the padded height 3 and width 3",
        ),
        (
            SPACE_TO_BATCH_ND,
            [ints(1, 1), pairs((0, 0))],
            r"paddings .* has shape \[1, 2\]; \[2, 2\] is expected",
        ),
        (
            SPACE_TO_BATCH_ND,
            [ints(1, 1), pairs((2**31 - 1, 2**31 - 1), (2**31 - 1, 2**31 - 1))],
            "more than 2.32 - 1 bytes",
        ),
    ],
)
def test_refuses(operation: OperationType, arguments: list[Given], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(operation, [tensor(FLOAT32, 2, 2, 3, 4), *arguments], like(FLOAT32))


@sweep(
    ("operation", "shape", "arguments"),
    [
        (DEPTH_TO_SPACE, (1, 2, 3, 0), scalars(2**30)),
        (SPACE_TO_DEPTH, (1, 0, 0, 3), scalars(2**30)),
        (BATCH_TO_SPACE_ND, (0, 2, 3, 1), [ints(2**30, 2**30)]),
    ],
)
def test_refuses_huge_blocks_of_empty_images(
    operation: OperationType, shape: tuple[int, ...], arguments: list[Given]
) -> None:
    with pytest.raises(BadData, match=r"more than 2\^32 - 1 bytes"):
        evaluate(operation, [tensor(FLOAT32, *shape), *arguments], like(FLOAT32))


@sweep("operation", [DEPTH_TO_SPACE, SPACE_TO_DEPTH])
def test_refuses_other_ranks_and_scales(operation: OperationType) -> None:
    with pytest.raises(BadData, match=rf"operand 0 \(input of {operation.name}\) has rank 3; rank 4"):
        evaluate(operation, [tensor(FLOAT32, 1, 1, 1), *scalars(1)], like(FLOAT32))
    with pytest.raises(BadData, match=r"has scale 0\.25 and zero point 3"):
        evaluate(operation, [tensor(QUANT8, 1, 1, 1, 1), *scalars(1)], wanted(QUANT8, 0.25, 3))


def test_shapes_are_unknown_without_values() -> None:
    for operation, arguments in (
        (BATCH_TO_SPACE_ND, [unknown(ints(1, 1))]),
        (SPACE_TO_BATCH_ND, [ints(1, 1), unknown(pairs((0, 0), (0, 0)))]),
    ):
        call = call_of(operation, [tensor(FLOAT32, 1, 1, 1, 1), *arguments], like(FLOAT32))
        with pytest.raises(UnknownValue):
            DEFINITIONS[operation].shape(call)


def test_levels() -> None:
    shape = (1, 1, 1, 1)
    block, around = ints(1, 1), pairs((0, 0), (0, 0))
    for operation, arguments, since in (
        (DEPTH_TO_SPACE, scalars(1), FeatureLevel.LEVEL_1),
        (SPACE_TO_DEPTH, scalars(1), FeatureLevel.LEVEL_1),
        (BATCH_TO_SPACE_ND, (block,), FeatureLevel.LEVEL_2),
        (SPACE_TO_BATCH_ND, (block, around), FeatureLevel.LEVEL_2),
    ):
        assert levels(operation, PLAIN_TYPES, shape, *arguments) == {
            FLOAT32: since,
            FLOAT16: FeatureLevel.LEVEL_3,
            QUANT8: since,
            QUANT8_TYPES[1]: FeatureLevel.LEVEL_4,
        }
        assert levels(operation, (FLOAT32,), shape, *arguments, *scalars(False)) == {
            FLOAT32: FeatureLevel.LEVEL_3
        }
    shifted = [tensor(QUANT8, *shape), block]
    assert level_of(SPACE_TO_BATCH_ND, [*shifted, around], like(QUANT8)) == FeatureLevel.LEVEL_3
    assert level_of(BATCH_TO_SPACE_ND, shifted, like(QUANT8)) == FeatureLevel.LEVEL_2

import itertools

import numpy as np
import pytest
from support.operations.random_tensors import INT32_TYPES, PLAIN_TYPES, levels, like, tensor, value
from support.operations.single_operation import (
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    evaluate_all,
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
from neurald.hal.operations.machinery.call import UnknownValue

SLICE, STRIDED_SLICE, SPLIT = OperationType.SLICE, OperationType.STRIDED_SLICE, OperationType.SPLIT
FLOAT32, FLOAT16, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, PLAIN_TYPES[2]


@sweep(
    ("shape", "begin", "size"),
    [
        ((5,), (1,), (3,)),
        ((3, 4), (0, 2), (3, -1)),
        ((2, 3, 4), (1, 0, 3), (-1, 2, 1)),
        ((2, 1, 3, 2, 2), (0, 0, 1, 1, 0), (2, 1, 2, 1, 2)),
        ((3, 2), (3, 0), (0, 2)),
        ((3, 2), (3, 1), (-1, -1)),
        ((0, 3), (0, 1), (-1, 2)),
    ],
)
@sweep("operand_type", INT32_TYPES)
def test_slice(
    operand_type: OperandType, shape: tuple[int, ...], begin: tuple[int, ...], size: tuple[int, ...]
) -> None:
    data = tensor(operand_type, *shape)
    result = evaluate(SLICE, [data, ints(*begin), ints(*size)], like(operand_type))
    lengths = tuple(n - b if s == -1 else s for n, b, s in zip(shape, begin, size, strict=True))
    assert result.shape == lengths
    for index in np.ndindex(lengths):
        assert result[index] == value(data)[tuple(i + b for i, b in zip(index, begin, strict=True))]


@sweep(
    ("begin", "size", "message"),
    [
        (
            (0, 4),
            (1, 1),
            r"operand 1 \(begin of SLICE\) is 4 and size 1 along axis 1; .* inside its length, 3",
        ),
        ((-1, 0), (1, 1), "is -1 and size 1 along axis 0"),
        ((0, 1), (2, 3), "is 1 and size 3 along axis 1"),
        ((0, 0), (-2, 3), "is 0 and size -2 along axis 0"),
        ((0, 4), (2, -1), "is 4 and size -1 along axis 1"),
        ((0, 2**31 - 1), (2, 2**31 - 1), "along axis 1"),
        ((0,), (2, 1), r"begin of SLICE\) has shape \[1\]; \[2\] is expected"),
        ((0, 0), (2, 1, 1), r"size of SLICE\) has shape \[3\]; \[2\] is expected"),
    ],
)
def test_slice_refuses(begin: tuple[int, ...], size: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(SLICE, [tensor(FLOAT32, 2, 3), ints(*begin), ints(*size)], like(FLOAT32))


def walk(length: int, begin: int | None, end: int | None, stride: int) -> list[int]:
    """Returns the indexes along one axis, one step after the other."""
    lowest, highest = (0, length) if stride > 0 else (-1, length - 1)

    def cut(position: int) -> int:
        return min(max(position + length if position < 0 else position, lowest), highest)

    position = (0 if stride > 0 else length - 1) if begin is None else cut(begin)
    stop = (length if stride > 0 else -1) if end is None else cut(end)
    positions = []
    while position < stop if stride > 0 else position > stop:
        positions.append(position)
        position += stride
    return positions


@sweep("stride", [1, 2, 5, -1, -2, -7])
@sweep("length", [0, 1, 4])
def test_strided_slice_of_one_axis(length: int, stride: int) -> None:
    data = tensor(FLOAT32, length)
    positions = [-(2**31), -6, -4, -1, 0, 2, 4, 9, 2**31 - 1]
    for begin, end, mask in itertools.product(positions, positions, (0, 1, 2, 3)):
        masks = scalars(mask & 1, mask >> 1, 0)
        result = evaluate(STRIDED_SLICE, [data, ints(begin), ints(end), ints(stride), *masks], like(FLOAT32))
        expected = walk(length, None if mask & 1 else begin, None if mask & 2 else end, stride)
        assert result.tolist() == value(data)[expected].tolist()


@sweep("operand_type", PLAIN_TYPES)
def test_strided_slice(operand_type: OperandType) -> None:
    generator = np.random.default_rng(11)
    for _ in range(60):
        rank = int(generator.integers(1, 5))
        shape = tuple(int(n) for n in generator.integers(1, 5, rank))
        begin, end = (generator.integers(-6, 7, rank).tolist() for _ in range(2))
        strides = generator.choice([-3, -2, -1, 1, 2, 3], rank).tolist()
        # Bits beyond the rank are ignored, and a mask may be negative.
        begin_mask, end_mask = (int(mask) for mask in generator.integers(-32, 32, 2))
        data = tensor(operand_type, *shape)
        arguments = [ints(*begin), ints(*end), ints(*strides), *scalars(begin_mask, end_mask, 0)]
        result = evaluate(STRIDED_SLICE, [data, *arguments], like(operand_type))
        positions = [
            walk(
                shape[axis],
                None if begin_mask & 1 << axis else begin[axis],
                None if end_mask & 1 << axis else end[axis],
                strides[axis],
            )
            for axis in range(rank)
        ]
        assert (result == value(data)[np.ix_(*positions)]).all()


@sweep(
    ("begin", "end", "strides", "mask", "shape"),
    [
        ((1, 0), (2, 3), (1, 2), 1, (2,)),
        ((0, -1), (2, 9), (1, 1), 2, (2,)),
        ((1, 2), (9, 3), (4, 1), 3, (1,)),
    ],
)
def test_removed_axes(
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...],
    mask: int,
    shape: tuple[int, ...],
) -> None:
    data = tensor(FLOAT32, 2, 3)
    result = evaluate(
        STRIDED_SLICE, [data, ints(*begin), ints(*end), ints(*strides), *scalars(0, 0, mask)], like(FLOAT32)
    )
    positions = [walk(n, b, e, s) for n, b, e, s in zip((2, 3), begin, end, strides, strict=True)]
    assert result.shape == shape
    assert result.ravel().tolist() == value(data)[np.ix_(*positions)].ravel().tolist()


@sweep(
    ("begin", "end", "strides", "mask", "message"),
    [
        ((0, 0), (2, 3), (1, 0), 0, r"operand 3 \(strides of STRIDED_SLICE\) is 0 along axis 1"),
        (
            (0, 0),
            (2, 3),
            (1, 1),
            1,
            r"shrink_axis_mask .* has axis 0, where 2 elements are taken with stride 1",
        ),
        ((1, 0), (0, 3), (-1, 1), 1, "axis 0, where 1 elements are taken with stride -1; exactly one"),
        ((0, 2), (2, 2), (1, 1), 2, "axis 1, where 0 elements are taken"),
        ((0,), (2, 2), (1, 1), 0, r"begin of STRIDED_SLICE\) has shape \[1\]; \[2\] is expected"),
        ((0, 0), (2,), (1, 1), 0, r"end of STRIDED_SLICE\) has shape \[1\]"),
        ((0, 0), (2, 2), (1, 1, 1), 0, r"strides of STRIDED_SLICE\) has shape \[3\]"),
    ],
)
def test_strided_slice_refuses(
    begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...], mask: int, message: str
) -> None:
    arguments = [ints(*begin), ints(*end), ints(*strides), *scalars(0, 0, mask)]
    with pytest.raises(BadData, match=message):
        evaluate(STRIDED_SLICE, [tensor(FLOAT32, 2, 3), *arguments], like(FLOAT32))


@sweep(
    ("shape", "axis", "parts"),
    [
        ((6,), 0, 3),
        ((2, 4), 1, 4),
        ((2, 4), -2, 2),
        ((3, 2, 4, 1), 2, 1),
        ((1, 2, 1, 6, 2), -2, 2),
        ((0, 2), 0, 3),
    ],
)
@sweep("operand_type", INT32_TYPES)
def test_split(operand_type: OperandType, shape: tuple[int, ...], axis: int, parts: int) -> None:
    data = tensor(operand_type, *shape)
    results = evaluate_all(SPLIT, [data, *scalars(axis, parts)], *(like(operand_type),) * parts)
    length = shape[axis] // parts
    for part, result in enumerate(results):
        assert result.shape[axis] == length
        for index in np.ndindex(result.shape):
            source = list(index)
            source[axis] += part * length
            assert result[index] == value(data)[tuple(source)]


@sweep(
    ("arguments", "outputs", "message"),
    [
        ((0, 2), 3, r"operand 2 \(splits of SPLIT\) is 2; SPLIT has 3 outputs"),
        ((1, 2), 2, "is 2; it does not divide the length 3 of axis 1"),
        ((2, 1), 1, r"operand 1 \(axis of SPLIT\) is 2; an axis of rank 2, from -2 to 1"),
        ((0, 0), 1, "is 0; it must be at least 1"),
        ((0, -1), 1, "is -1; it must be at least 1"),
    ],
)
def test_split_refuses(arguments: tuple[int, int], outputs: int, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(SPLIT, [tensor(FLOAT32, 2, 3), *scalars(*arguments)], *(like(FLOAT32),) * outputs)


def test_split_refuses_another_scale() -> None:
    with pytest.raises(BadData, match=r"operand 4 \(outputs\[1\] of SPLIT\) has scale 0.5 and zero point 0"):
        evaluate(SPLIT, [tensor(QUANT8, 2), *scalars(0, 2)], like(QUANT8), wanted(QUANT8, 0.5, 0))


def test_a_wrong_number_of_parts_is_refused_without_a_shape() -> None:
    call = call_of(SPLIT, [unknown(tensor(FLOAT32, 2)), *scalars(0, 2)], like(FLOAT32))
    with pytest.raises(BadData, match="is 2; SPLIT has 1 outputs"):
        DEFINITIONS[SPLIT].shape(call)


@sweep(
    ("operation", "arguments"),
    [
        (SLICE, [unknown(ints(0)), ints(-1)]),
        (SLICE, [ints(0), unknown(ints(1))]),
        (STRIDED_SLICE, [ints(0), unknown(ints(1)), ints(1), *scalars(0, 0, 0)]),
        (SPLIT, [*scalars(0), unknown(scalars(1)[0])]),
    ],
)
def test_shapes_are_unknown_without_values(operation: OperationType, arguments: list[Given]) -> None:
    call = call_of(operation, [tensor(FLOAT32, 2), *arguments], like(FLOAT32))
    with pytest.raises(UnknownValue):
        DEFINITIONS[operation].shape(call)


def test_the_shape_of_a_slice_with_known_sizes() -> None:
    call = call_of(SLICE, [tensor(FLOAT32, 3, 4), unknown(ints(1, 0)), ints(2, 4)], like(FLOAT32))
    assert DEFINITIONS[SLICE].shape(call) == ((2, 4),)
    call = call_of(SLICE, [tensor(FLOAT32, 3, 4), unknown(ints(1, 0)), ints(2, 5)], like(FLOAT32))
    with pytest.raises(BadData, match=r"it exceeds \[3, 4\]"):
        DEFINITIONS[SLICE].shape(call)


def test_levels() -> None:
    for operation, arguments in ((SLICE, [ints(0), ints(1)]), (SPLIT, scalars(0, 1))):
        found = levels(operation, INT32_TYPES, (1,), *arguments)
        assert found.pop(QUANT8_TYPES[1]) == FeatureLevel.LEVEL_4
        assert set(found.values()) == {FeatureLevel.LEVEL_3}
    arguments = [ints(0), ints(1), ints(1), *scalars(0, 0, 0)]
    assert levels(STRIDED_SLICE, PLAIN_TYPES, (1,), *arguments) == {
        FLOAT32: FeatureLevel.LEVEL_2,
        FLOAT16: FeatureLevel.LEVEL_3,
        QUANT8: FeatureLevel.LEVEL_2,
        QUANT8_TYPES[1]: FeatureLevel.LEVEL_4,
    }


def test_refuses_types_and_ranks() -> None:
    arguments = [ints(*(0,) * 5), ints(*(1,) * 5), ints(*(1,) * 5), *scalars(0, 0, 0)]
    with pytest.raises(BadData, match="has rank 5; a rank from 1 to 4 is expected"):
        level_of(STRIDED_SLICE, [tensor(FLOAT32, 1, 1, 1, 1, 1), *arguments], like(FLOAT32))
    data = given(OperandType.TENSOR_BOOL8, [True])
    with pytest.raises(BadData, match="has type TENSOR_BOOL8"):
        level_of(SLICE, [data, ints(0), ints(1)], wanted(OperandType.TENSOR_BOOL8))

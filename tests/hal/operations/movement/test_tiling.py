import numpy as np
import pytest
from support.operations.random_tensors import INT32_TYPES, PLAIN_TYPES, levels, like, tensor, value
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
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue

TILE, FILL, PACK, EXPAND_DIMS, RANK = (
    OperationType.TILE,
    OperationType.FILL,
    OperationType.PACK,
    OperationType.EXPAND_DIMS,
    OperationType.RANK,
)
FLOAT32, FLOAT16, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, PLAIN_TYPES[2]
INT32 = OperandType.TENSOR_INT32
SCALARS = {FLOAT32: OperandType.FLOAT32, FLOAT16: OperandType.FLOAT16, INT32: OperandType.INT32}


@sweep(
    ("shape", "multiples"),
    [
        ((4,), (3,)),
        ((2, 3), (1, 2)),
        ((1, 2, 3), (2, 3, 1)),
        ((2, 1, 2, 1, 3), (1, 2, 2, 3, 2)),
        ((2, 3), (0, 2)),
        ((0, 3), (4, 2)),
    ],
)
@sweep("operand_type", INT32_TYPES)
def test_tile(operand_type: OperandType, shape: tuple[int, ...], multiples: tuple[int, ...]) -> None:
    data = tensor(operand_type, *shape)
    result = evaluate(TILE, [data, ints(*multiples)], like(operand_type))
    assert result.shape == tuple(n * m for n, m in zip(shape, multiples, strict=True))
    for index in np.ndindex(result.shape):
        assert result[index] == value(data)[tuple(i % n for i, n in zip(index, shape, strict=True))]


@sweep(
    ("multiples", "message"),
    [
        (ints(1), r"operand 1 \(multiples of TILE\) has shape \[1\]; \[2\] is expected"),
        (ints(1, -1), r"is \[1, -1\]; no number may be negative"),
        (ints(2**31 - 1, 2), r"output of TILE\) would have shape .* more than 2\^32 - 1 bytes"),
    ],
)
def test_refuses_multiples(multiples: Given, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(TILE, [tensor(FLOAT32, 2, 3), multiples], like(FLOAT32))


@sweep("shape", [(3,), (2, 1, 4), (1, 2, 1, 2, 1, 2), (2, 0, 3), ()])
@sweep("operand_type", SCALARS)
def test_fill(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    number = given(SCALARS[operand_type], -7)
    result = evaluate(FILL, [ints(*shape), number], wanted(operand_type))
    assert result.shape == shape
    assert set(result.ravel().tolist()) <= {-7}


@sweep(
    ("dimensions", "message"),
    [
        (ints(2, -1), r"operand 0 \(dimensions of FILL\) is \[2, -1\]; no number may be negative"),
        (ints(*(1,) * 17), "has 17 numbers; at most 16 are allowed"),
        (ints(2**31 - 1), r"output of FILL\) would have shape \[2147483647\], more than 2\^32 - 1 bytes"),
        (ints(0, 2**31 - 1, 2**31 - 1), "more than"),
    ],
)
def test_refuses_to_fill(dimensions: Given, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(FILL, [dimensions, *scalars(1.0)], wanted(FLOAT32))


def test_fill_requires_a_scalar_of_the_output_type() -> None:
    with pytest.raises(BadData, match="expected with the types of the other operands"):
        evaluate(FILL, [ints(1), *scalars(1)], wanted(FLOAT32))


@sweep("count", [1, 3])
@sweep("shape", [(4,), (2, 3), (1, 2, 1, 3, 2), (2, 0), ()])
@sweep("operand_type", INT32_TYPES)
def test_pack(operand_type: OperandType, shape: tuple[int, ...], count: int) -> None:
    parts = [tensor(operand_type, *shape, seed=seed) for seed in range(count)]
    for axis in range(len(shape) + 1):
        result = evaluate(PACK, [*scalars(axis), *parts], like(operand_type))
        assert result.shape == (*shape[:axis], count, *shape[axis:])
        for index in np.ndindex(result.shape):
            source = index[:axis] + index[axis + 1 :]
            assert result[index] == value(parts[index[axis]])[source]


@sweep(
    ("shapes", "axis", "message"),
    [
        ([(2, 3), (2, 3)], 3, r"operand 0 \(axis of PACK\) is 3; it must be from 0 to 2"),
        ([(2, 3), (2, 3)], -1, "is -1; it must be from 0 to 2"),
        (
            [(2, 3), (2, 3), (3, 2)],
            0,
            r"operand 3 \(inputs\[2\] of PACK\) has shape \[3, 2\]; that of inputs\[0\], \[2, 3\]",
        ),
        ([(1,) * 16], 0, r"output of PACK\) would have rank 17; at most 16"),
    ],
)
def test_refuses_to_pack(shapes: list[tuple[int, ...]], axis: int, message: str) -> None:
    parts = [tensor(FLOAT32, *shape) for shape in shapes]
    with pytest.raises(BadData, match=message):
        evaluate(PACK, [*scalars(axis), *parts], like(FLOAT32))


def test_refuses_to_pack_nothing() -> None:
    with pytest.raises(BadData, match="PACK has 1 input and 1 output; 2 or more inputs and 1 output"):
        evaluate(PACK, scalars(0), like(FLOAT32))


def test_refuses_to_pack_another_scale() -> None:
    parts = [given(QUANT8, [1], 0.5, 3), given(QUANT8, [1], 0.5, 2)]
    with pytest.raises(BadData, match=r"operand 2 \(inputs\[1\] of PACK\) has scale 0.5 and zero point 2"):
        evaluate(PACK, [*scalars(0), *parts], like(QUANT8))


@sweep("shape", [(3,), (2, 3), (2, 1, 3, 1, 2), (0,), ()])
@sweep("operand_type", INT32_TYPES)
def test_expand_dims(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    data = tensor(operand_type, *shape)
    rank = len(shape) + 1
    for axis in range(-rank, rank):
        result = evaluate(EXPAND_DIMS, [data, *scalars(axis)], like(operand_type))
        position = axis % rank
        assert result.shape == (*shape[:position], 1, *shape[position:])
        assert result.ravel().tolist() == value(data).ravel().tolist()


@sweep("axis", [3, -4])
def test_refuses_to_expand(axis: int) -> None:
    message = rf"operand 1 \(axis of EXPAND_DIMS\) is {axis}; an axis of rank 3, from -3 to 2"
    with pytest.raises(BadData, match=message):
        evaluate(EXPAND_DIMS, [tensor(FLOAT32, 2, 3), *scalars(axis)], like(FLOAT32))


def test_refuses_to_expand_beyond_the_maximum_rank() -> None:
    with pytest.raises(BadData, match="would have rank 17"):
        evaluate(EXPAND_DIMS, [tensor(FLOAT32, *(1,) * 16), *scalars(0)], like(FLOAT32))


TENSORS = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT8_SYMM,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    OperandType.TENSOR_QUANT16_ASYMM,
    OperandType.TENSOR_QUANT16_SYMM,
)


@sweep("shape", [(2,), (2, 3, 1), (2, 1, 1, 1, 1, 1, 1, 1), (2, 0)])
@sweep("operand_type", TENSORS)
def test_rank(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    is_channelled = operand_type is OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    quant = ChannelQuant(dimension=0, scales=(0.5, 0.25)) if is_channelled else None
    scale = 0.5 if "QUANT" in operand_type.name and not is_channelled else 0.0
    data = given(operand_type, np.zeros(shape), scale, channel_quant=quant)
    assert evaluate(RANK, [data], wanted(OperandType.INT32, rank=0)).item() == len(shape)


def test_the_shape_of_a_rank_is_always_known() -> None:
    call = call_of(RANK, [unknown(tensor(FLOAT32, 2))], wanted(OperandType.INT32, rank=0))
    assert DEFINITIONS[RANK].shape(call) == ((),)
    with pytest.raises(UnknownValue):
        DEFINITIONS[RANK].reference(call)


@sweep("operation", [TILE, EXPAND_DIMS])
def test_refuses_another_scale(operation: OperationType) -> None:
    argument = ints(1) if operation is TILE else scalars(0)[0]
    with pytest.raises(BadData, match=r"has scale 0\.5 and zero point 0; those of input, 0\.5 and 3"):
        evaluate(operation, [tensor(QUANT8, 1), argument], wanted(QUANT8, 0.5, 0))


@sweep(
    ("operation", "arguments"),
    [(TILE, [tensor(FLOAT32, 2), unknown(ints(1))]), (FILL, [unknown(ints(1)), *scalars(0.0)])],
)
def test_shapes_are_unknown_without_values(operation: OperationType, arguments: list[Given]) -> None:
    with pytest.raises(UnknownValue):
        DEFINITIONS[operation].shape(call_of(operation, arguments, like(FLOAT32)))


def test_levels() -> None:
    for operation, argument in ((TILE, ints(1)), (EXPAND_DIMS, scalars(0)[0])):
        found = levels(operation, INT32_TYPES, (1,), argument)
        assert found.pop(QUANT8_TYPES[1]) == FeatureLevel.LEVEL_4
        assert set(found.values()) == {FeatureLevel.LEVEL_3}
    for operand_type in INT32_TYPES:
        inputs = [*scalars(0), tensor(operand_type, 2)]
        assert level_of(PACK, inputs, like(operand_type)) == FeatureLevel.LEVEL_6
    assert level_of(FILL, [ints(1), *scalars(1)], wanted(INT32, rank=1)) == FeatureLevel.LEVEL_4
    output = wanted(OperandType.INT32, rank=0)
    assert level_of(RANK, [tensor(FLOAT32, 1)], output) == FeatureLevel.LEVEL_4

import numpy as np
import pytest
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    evaluate,
    given,
    level_of,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

CONCATENATION = OperationType.CONCATENATION


def floats(*shapes: tuple[int, ...]) -> list[Given]:
    return [given(OperandType.TENSOR_FLOAT32, np.zeros(shape)) for shape in shapes]


@sweep("operand_type", FLOAT_TYPES)
@sweep(
    ("shape", "axis", "lengths"),
    [((5,), 0, (2, 3, 1)), ((2, 3), 1, (3, 5)), ((2, 3, 4, 5), 2, (4, 0, 7)), ((1, 1, 3), 0, (1, 2, 3, 4))],
)
def test_position_of_every_element(
    operand_type: OperandType, shape: tuple[int, ...], axis: int, lengths: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(4)
    arrays = [
        generator.normal(size=(*shape[:axis], length, *shape[axis + 1 :])).astype(operand_type.dtype)
        for length in lengths
    ]
    result = evaluate(
        CONCATENATION, [*(given(operand_type, a) for a in arrays), *scalars(axis)], wanted(operand_type)
    )
    start = 0
    for array in arrays:
        for index in np.ndindex(array.shape):
            source_index = list(index)
            source_index[axis] += start
            assert result[tuple(source_index)] == array[index]
        start += array.shape[axis]
    assert result.shape[axis] == sum(lengths)


@sweep("operand_type", QUANT8_TYPES)
def test_inputs_are_requantized_to_the_output(operand_type: OperandType) -> None:
    generator = np.random.default_rng(5)
    limits = np.iinfo(operand_type.dtype.name)
    forms = [(0.5, limits.min + 10), (0.125, limits.min + 128), (0.5, limits.min + 4), (0.031, limits.max)]
    arrays = [stored_values(generator, operand_type, (2, length)) for length in (3, 40, 1, 50)]
    inputs = [
        given(operand_type, array, scale, zero_point)
        for array, (scale, zero_point) in zip(arrays, forms, strict=True)
    ]
    output = wanted(operand_type, 0.5, limits.min + 10)
    result = evaluate(CONCATENATION, [*inputs, *scalars(1)], output)
    assert (result[:, :3] == arrays[0]).all()
    start = 0
    for array, (scale, zero_point) in zip(arrays, forms, strict=True):
        part = result[:, start : start + array.shape[1]]
        exact = (array.astype(float) - zero_point) * scale / output.scale + output.zero_point
        assert np.abs(part - np.clip(exact, limits.min, limits.max)).max() <= 0.5 + 1e-4
        start += array.shape[1]


def test_ties_are_rounded_away_from_zero() -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    first = given(operand_type, [100, 101, 99, 97], 0.5, 100)
    result = evaluate(CONCATENATION, [first, *scalars(0)], wanted(operand_type, 1.0, 50))
    assert result.tolist() == [50, 51, 49, 48]


def test_other_scales_need_level_3() -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    inputs = [given(operand_type, [1], 0.5, 3), given(operand_type, [1], 0.5, 4), *scalars(0)]
    assert level_of(CONCATENATION, inputs, wanted(operand_type, 0.5, 3, rank=1)) == FeatureLevel.LEVEL_3
    inputs[1] = inputs[0]
    assert level_of(CONCATENATION, inputs, wanted(operand_type, 0.5, 3, rank=1)) == FeatureLevel.LEVEL_1
    assert level_of(CONCATENATION, inputs, wanted(operand_type, 0.25, 3, rank=1)) == FeatureLevel.LEVEL_3


@sweep(
    ("shapes", "axis", "message"),
    [
        ([(2, 3), (2, 4)], 0, r"operand 1 \(inputs\[1\] of CONCATENATION\) has shape \[2, 4\]"),
        ([(2, 3), (2, 3), (2, 3, 1)], 0, r"operand 2 \(inputs\[2\].* except along axis 0"),
        ([(2, 3), (2, 3)], 2, r"\(axis of CONCATENATION\) is 2; it must be from 0 to 1"),
        ([(2, 3), (2, 3)], -1, r"is -1; it must be from 0 to 1"),
    ],
)
def test_refuses(shapes: list[tuple[int, ...]], axis: int, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(CONCATENATION, [*floats(*shapes), *scalars(axis)], wanted(OperandType.TENSOR_FLOAT32))


def test_refuses_mixed_types() -> None:
    inputs = [*floats((2,)), given(OperandType.TENSOR_FLOAT16, [1.0]), *scalars(0)]
    with pytest.raises(
        BadData, match=r"operand 1 .* TENSOR_FLOAT16; .* expected with the types of the other"
    ):
        evaluate(CONCATENATION, inputs, wanted(OperandType.TENSOR_FLOAT32))


def test_at_least_one_input_is_required() -> None:
    with pytest.raises(BadData, match=r"CONCATENATION has 1 input and 1 output; 2 or more inputs"):
        evaluate(CONCATENATION, scalars(0), wanted(OperandType.TENSOR_FLOAT32))

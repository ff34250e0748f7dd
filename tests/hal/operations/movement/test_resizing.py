import math

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

BILINEAR, NEAREST = OperationType.RESIZE_BILINEAR, OperationType.RESIZE_NEAREST_NEIGHBOR
FLOAT32 = OperandType.TENSOR_FLOAT32
#: align_corners, half_pixel_centers.
FLAGS = [(False, False), (True, False), (False, True)]
#: Shape, height and width of the result.
SIZES = [
    ((1, 2, 2, 1), (3, 3)),
    ((2, 5, 3, 2), (7, 2)),
    ((1, 1, 4, 3), (6, 1)),
    ((1, 8, 8, 1), (4, 4)),
    ((1, 7, 5, 2), (1, 11)),
    ((0, 3, 4, 2), (2, 5)),
]


def position(index: int, length: int, result: int, flags: tuple[bool, bool]) -> float:
    """Returns the coordinate of an output element on the input."""
    align_corners, half_pixel_centers = flags
    if align_corners and result > 1:
        return index * (length - 1) / (result - 1)
    if half_pixel_centers:
        return (index + 0.5) * length / result - 0.5
    return index * length / result


def neighbours(at: float, length: int) -> list[tuple[int, float]]:
    """Returns the two elements around a coordinate, and their weights."""
    at = min(max(at, 0.0), length - 1.0)
    lower = math.floor(at)
    upper = min(lower + 1, length - 1)
    return [(lower, 1 - (at - lower)), (upper, at - lower)]


@sweep("flags", FLAGS)
@sweep(("shape", "size"), SIZES)
@sweep("operand_type", [*FLOAT_TYPES, *QUANT8_TYPES])
def test_bilinear(
    operand_type: OperandType, shape: tuple[int, ...], size: tuple[int, int], flags: tuple[bool, bool]
) -> None:
    generator = np.random.default_rng(20)
    is_float = operand_type in FLOAT_TYPES
    form = (0.0, 0) if is_float else (0.5, 3)
    values = (
        generator.normal(size=shape).astype(operand_type.dtype)
        if is_float
        else stored_values(generator, operand_type, shape)
    )
    height, width = size
    arguments = [given(operand_type, values, *form), *scalars(width, height, False, *flags)]
    result = evaluate(BILINEAR, arguments, wanted(operand_type, *form))
    assert result.shape == (shape[0], height, width, shape[3])
    tolerance = 0.5 + 1e-3 if not is_float else 3e-6 if operand_type is FLOAT32 else 2e-3
    for b, y, x, c in np.ndindex(result.shape):
        exact = sum(
            float(values[b, row, column, c]) * of_row * of_column
            for row, of_row in neighbours(position(y, shape[1], height, flags), shape[1])
            for column, of_column in neighbours(position(x, shape[2], width, flags), shape[2])
        )
        assert abs(result[b, y, x, c] - exact) <= tolerance


@sweep("flags", FLAGS)
@sweep(("shape", "size"), SIZES)
@sweep("operand_type", [*FLOAT_TYPES, *QUANT8_TYPES])
def test_nearest(
    operand_type: OperandType, shape: tuple[int, ...], size: tuple[int, int], flags: tuple[bool, bool]
) -> None:
    form = (0.0, 0) if operand_type in FLOAT_TYPES else (0.5, 3)
    values = np.arange(np.prod(shape)).reshape(shape).astype(operand_type.dtype)
    height, width = size
    arguments = [given(operand_type, values, *form), *scalars(width, height, False, *flags)]
    result = evaluate(NEAREST, arguments, wanted(operand_type, *form))
    for b, y, x, c in np.ndindex(result.shape):
        picked = []
        for index, length, extent in ((y, shape[1], height), (x, shape[2], width)):
            at = position(index, length, extent, flags)
            # With aligned corners it is the nearest element, otherwise the one around the centre.
            at = math.floor(at + 0.5) if flags[0] or flags[1] else math.floor(at)
            picked.append(min(at, length - 1))
        assert result[b, y, x, c] == values[b, picked[0], picked[1], c]


@sweep("flags", FLAGS)
@sweep("operation", [BILINEAR, NEAREST])
def test_nchw(operation: OperationType, flags: tuple[bool, bool]) -> None:
    values = np.random.default_rng(21).normal(size=(2, 3, 4, 5))
    nhwc = evaluate(operation, [given(FLOAT32, values), *scalars(7, 2, False, *flags)], wanted(FLOAT32))
    in_nchw = given(FLOAT32, values.transpose(0, 3, 1, 2))
    nchw = evaluate(operation, [in_nchw, *scalars(7, 2, True, *flags)], wanted(FLOAT32))
    np.testing.assert_array_equal(nchw.transpose(0, 2, 3, 1), nhwc)


@sweep("operand_type", [*FLOAT_TYPES, *QUANT8_TYPES])
@sweep("operation", [BILINEAR, NEAREST])
def test_by_scale(operation: OperationType, operand_type: OperandType) -> None:
    form = (0.0, 0) if operand_type in FLOAT_TYPES else (0.5, 3)
    data = given(operand_type, np.arange(60).reshape(1, 5, 4, 3), *form)
    scale_type = OperandType.FLOAT16 if operand_type is OperandType.TENSOR_FLOAT16 else OperandType.FLOAT32
    factors = [given(scale_type, 1.7), given(scale_type, 0.8)]
    by_scale = evaluate(operation, [data, *factors, *scalars(False)], wanted(operand_type, *form))
    # 4 * 1.7 = 6.8; 5 * 0.8 is 4 in float32, and a little less with a factor in float16.
    height = 4 if scale_type is OperandType.FLOAT32 else 3
    by_size = evaluate(operation, [data, *scalars(6, height, False)], wanted(operand_type, *form))
    np.testing.assert_array_equal(by_scale, by_size)


def floats(*values: float) -> list[Given]:
    return [given(OperandType.FLOAT32, value) for value in values]


def test_bilinear_may_omit_the_layout() -> None:
    data = given(FLOAT32, np.zeros((1, 2, 2, 1)))
    output = wanted(FLOAT32, rank=4)
    assert level_of(BILINEAR, [data, *scalars(3, 3)], output) == FeatureLevel.LEVEL_1
    assert level_of(BILINEAR, [data, *scalars(3, 3, False)], output) == FeatureLevel.LEVEL_3
    assert level_of(BILINEAR, [data, *floats(1.5, 1.5)], output) == FeatureLevel.LEVEL_3
    assert level_of(BILINEAR, [data, *scalars(3, 3, False, True)], output) == FeatureLevel.LEVEL_4
    assert level_of(NEAREST, [data, *scalars(3, 3, False)], output) == FeatureLevel.LEVEL_3
    assert evaluate(BILINEAR, [data, *floats(1.5, 2.5)], output).shape == (1, 5, 3, 1)
    with pytest.raises(BadData, match=r"RESIZE_NEAREST_NEIGHBOR has 3 inputs and 1 output; 4, 5 or 6 inputs"):
        evaluate(NEAREST, [data, *scalars(3, 3)], output)


@sweep(
    ("arguments", "message"),
    [
        (scalars(-1, 3, False), r"operand 1 \(width of RESIZE_.*\) is -1; it must be at least [01]"),
        (scalars(3, -1, False), r"operand 2 \(height of RESIZE_.*\) is -1; it must be at least [01]"),
        (scalars(3, 3, False, True, True), r"align_corners and half_pixel_centers exclude each other"),
        ((*floats(0.4, 1.0), *scalars(False)), r"width_scale .* is 0.4; width 2 becomes 0.8"),
        ((*floats(1.0, -1.0), *scalars(False)), r"height_scale .* is -1"),
        ((*floats(1.0, math.inf), *scalars(False)), r"height_scale .* is inf"),
        ((*floats(math.nan, 1.0), *scalars(False)), r"width_scale .* is nan"),
        ((*floats(1e30, 1.0), *scalars(False)), r"width_scale .* is 1e\+30"),
        ((*scalars(3), *floats(1.0), *scalars(False)), r"operand . .* has type"),
    ],
)
@sweep("operation", [BILINEAR, NEAREST])
def test_refuses_arguments(operation: OperationType, arguments: tuple[Given, ...], message: str) -> None:
    data = given(FLOAT32, np.zeros((1, 2, 2, 1)))
    with pytest.raises(BadData, match=message):
        evaluate(operation, [data, *arguments], wanted(FLOAT32))


@sweep("shape", [(1, 0, 2, 1), (1, 2, 0, 1)])
def test_images_may_not_be_empty(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadData, match=r"operand 0 \(input of RESIZE_BILINEAR\): the .* is 0"):
        evaluate(BILINEAR, [given(FLOAT32, np.zeros(shape)), *scalars(3, 3)], wanted(FLOAT32))


@sweep("operation", [BILINEAR, NEAREST])
def test_batches_and_channels_may_be_empty(operation: OperationType) -> None:
    for shape in ((0, 2, 2, 1), (1, 2, 2, 0)):
        arguments = [given(FLOAT32, np.zeros(shape)), *scalars(3, 4, False)]
        assert evaluate(operation, arguments, wanted(FLOAT32)).shape == (shape[0], 4, 3, shape[3])


def test_only_the_nearest_neighbour_makes_empty_images() -> None:
    for shape in ((1, 2, 2, 1), (1, 0, 2, 1)):
        arguments = [given(FLOAT32, np.zeros(shape)), *scalars(3, 0, False)]
        assert evaluate(NEAREST, arguments, wanted(FLOAT32)).shape == (1, 0, 3, 1)
        with pytest.raises(BadData, match=r"height of RESIZE_BILINEAR.* is 0; it must be at least 1"):
            evaluate(BILINEAR, arguments, wanted(FLOAT32))


def test_keeps_scale_and_zero_point() -> None:
    data = given(QUANT8_TYPES[0], np.zeros((1, 2, 2, 1)), 0.5, 3)
    with pytest.raises(BadData, match=r"those of input, 0.5 and 3, are expected"):
        evaluate(BILINEAR, [data, *scalars(3, 3)], wanted(QUANT8_TYPES[0], 0.25, 3))

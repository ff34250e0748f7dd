import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.operations.exact import away_from_zero
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
from neurald.hal.operations.machinery.call import Array

pytestmark = pytest.mark.quick

AVERAGE, MAXIMUM, NORM = (
    OperationType.AVERAGE_POOL_2D,
    OperationType.MAX_POOL_2D,
    OperationType.L2_POOL_2D,
)
NONE, RELU, RELU1, RELU6 = range(4)
SAME, VALID = 1, 2

Geometry = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int], tuple[int, int]]
#: Shape, padding (left, right, top, bottom), stride (width, height), filter (width, height).
GEOMETRIES: list[Geometry] = [
    ((1, 4, 5, 3), (0, 0, 0, 0), (1, 1), (2, 3)),
    ((2, 5, 7, 1), (1, 2, 0, 1), (2, 3), (3, 2)),
    ((1, 1, 1, 4), (1, 1, 2, 2), (1, 1), (3, 3)),
    ((3, 6, 3, 2), (2, 0, 3, 1), (4, 2), (3, 4)),
    ((1, 7, 7, 2), (0, 0, 0, 0), (1, 1), (7, 7)),
    ((0, 3, 3, 2), (0, 0, 0, 0), (1, 1), (2, 2)),
]


def seen(values: Array, geometry: Geometry) -> list[list[float]]:
    """Returns the elements in the window of each output element, in order."""
    _, (left, right, top, bottom), stride, size = geometry
    batches, height, width, channels = values.shape
    rows = (height + top + bottom - size[1]) // stride[1] + 1
    columns = (width + left + right - size[0]) // stride[0] + 1
    return [
        [
            values[b, y, x, c].item()
            for y in range(row * stride[1] - top, row * stride[1] - top + size[1])
            for x in range(column * stride[0] - left, column * stride[0] - left + size[0])
            if 0 <= y < height and 0 <= x < width
        ]
        for b, row, column, c in np.ndindex(batches, rows, columns, channels)
    ]


def inputs(data: Given, geometry: Geometry, activation: int = NONE, *flags: bool) -> list[Given]:
    _, padding, stride, size = geometry
    return [data, *scalars(*padding, *stride, *size, activation, *flags)]


@sweep("activation", [NONE, RELU, RELU1, RELU6])
@sweep("geometry", GEOMETRIES)
@sweep("operand_type", FLOAT_TYPES)
@sweep("operation", [AVERAGE, MAXIMUM, NORM])
def test_floats(
    operation: OperationType, operand_type: OperandType, geometry: Geometry, activation: int
) -> None:
    values = np.random.default_rng(8).normal(0, 3, geometry[0]).astype(operand_type.dtype)
    result = evaluate(
        operation, inputs(given(operand_type, values), geometry, activation), wanted(operand_type)
    )
    low, high = ((-math.inf, math.inf), (0, math.inf), (-1, 1), (0, 6))[activation]
    folds: dict[OperationType, Callable[[list[float]], float]] = {
        AVERAGE: lambda cell: math.fsum(cell) / len(cell),
        MAXIMUM: max,
        NORM: lambda cell: math.sqrt(math.fsum(x * x for x in cell) / len(cell)),
    }
    expected = [min(max(folds[operation](cell), low), high) for cell in seen(values, geometry)]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=2 * rounding, atol=8 * rounding)


@sweep("activation", [NONE, RELU, RELU1, RELU6])
@sweep("geometry", GEOMETRIES)
@sweep("operand_type", QUANT8_TYPES)
@sweep("operation", [AVERAGE, MAXIMUM])
def test_quantized_values(
    operation: OperationType, operand_type: OperandType, geometry: Geometry, activation: int
) -> None:
    values = stored_values(np.random.default_rng(9), operand_type, geometry[0])
    limits = np.iinfo(operand_type.dtype.name)
    zero_point = limits.min + 100
    form = (0.25, zero_point)
    result = evaluate(
        operation,
        inputs(given(operand_type, values, *form), geometry, activation),
        wanted(operand_type, *form),
    )
    low, high = (
        (limits.min, limits.max),
        (zero_point, limits.max),
        (zero_point - 4, zero_point + 4),
        (zero_point, zero_point + 24),
    )[activation]
    reduce_cell = max if operation is MAXIMUM else lambda cell: away_from_zero(Fraction(sum(cell), len(cell)))
    assert result.ravel().tolist() == [
        min(max(reduce_cell(cell), low), high) for cell in seen(values, geometry)
    ]


@sweep("scheme", [SAME, VALID])
@sweep(
    ("shape", "stride", "size"),
    [((1, 5, 6, 2), (1, 1), (3, 2)), ((2, 5, 7, 1), (2, 3), (3, 4)), ((1, 9, 4, 3), (3, 2), (2, 1))],
)
@sweep("operation", [AVERAGE, MAXIMUM, NORM])
def test_implicit_padding(
    operation: OperationType,
    shape: tuple[int, ...],
    stride: tuple[int, int],
    size: tuple[int, int],
    scheme: int,
) -> None:
    operand_type = OperandType.TENSOR_FLOAT32
    data = given(operand_type, np.random.default_rng(10).normal(size=shape))
    padding: tuple[int, ...] = ()
    for length, step, extent in zip((shape[2], shape[1]), stride, size, strict=True):
        total = max(0, (math.ceil(length / step) - 1) * step + extent - length) if scheme == SAME else 0
        padding += (total // 2, total - total // 2)
    explicit = evaluate(operation, inputs(data, (shape, padding, stride, size)), wanted(operand_type))
    implicit = evaluate(operation, [data, *scalars(scheme, *stride, *size, NONE)], wanted(operand_type))
    np.testing.assert_array_equal(implicit, explicit)
    if scheme == SAME:
        assert implicit.shape[1:3] == (math.ceil(shape[1] / stride[1]), math.ceil(shape[2] / stride[0]))


@sweep("geometry", GEOMETRIES)
@sweep("operation", [AVERAGE, MAXIMUM, NORM])
def test_nchw(operation: OperationType, geometry: Geometry) -> None:
    operand_type = OperandType.TENSOR_FLOAT32
    values = np.random.default_rng(11).normal(size=geometry[0])
    nhwc = evaluate(
        operation, inputs(given(operand_type, values), geometry, NONE, False), wanted(operand_type)
    )
    in_nchw = given(operand_type, values.transpose(0, 3, 1, 2))
    nchw = evaluate(operation, inputs(in_nchw, geometry, NONE, True), wanted(operand_type))
    np.testing.assert_array_equal(nchw.transpose(0, 2, 3, 1), nhwc)


def test_infinities_stay_in_their_windows() -> None:
    values = np.full((1, 1, 4, 1), -np.inf)
    values[0, 0, 3, 0] = 1.0
    geometry = (values.shape, (0, 0, 0, 0), (2, 1), (2, 1))
    data = given(OperandType.TENSOR_FLOAT32, values)
    result = evaluate(MAXIMUM, inputs(data, geometry), wanted(OperandType.TENSOR_FLOAT32))
    assert result.ravel().tolist() == [-np.inf, 1.0]


def test_a_huge_window_needs_no_more_time_than_the_image() -> None:
    data = given(OperandType.TENSOR_FLOAT32, np.arange(6).reshape(1, 2, 3, 1))
    huge = 2**31 - 1
    arguments = [data, *scalars(SAME, 1, 1, huge, huge, NONE)]
    result = evaluate(AVERAGE, arguments, wanted(OperandType.TENSOR_FLOAT32))
    np.testing.assert_array_equal(result, np.full((1, 2, 3, 1), 2.5))


@sweep("operation", [AVERAGE, MAXIMUM, NORM])
def test_a_window_that_does_not_fit_has_no_positions(operation: OperationType) -> None:
    """This holds with implicit padding only."""
    kind = OperandType.TENSOR_FLOAT32
    for shape, scheme, result in (
        ((1, 0, 4, 2), SAME, (1, 0, 2, 2)),
        ((1, 4, 0, 2), VALID, (1, 1, 0, 2)),
        ((1, 2, 4, 2), VALID, (1, 0, 1, 2)),
    ):
        arguments = [given(kind, np.zeros(shape)), *scalars(scheme, 2, 2, 3, 3, NONE)]
        assert evaluate(operation, arguments, wanted(kind)).shape == result


def test_levels() -> None:
    operand_type = OperandType.TENSOR_FLOAT32
    geometry = GEOMETRIES[0]
    data = given(operand_type, np.zeros(geometry[0]))
    output = wanted(operand_type, rank=4)
    assert level_of(MAXIMUM, inputs(data, geometry), output) == FeatureLevel.LEVEL_1
    assert level_of(MAXIMUM, inputs(data, geometry, NONE, True), output) == FeatureLevel.LEVEL_3


@sweep(
    ("padding", "stride", "size", "message"),
    [
        ((2, 0, 0, 0), (1, 1), (2, 2), "padding_left of AVERAGE_POOL_2D.* is 2; it must be from 0 to 1"),
        ((0, 0, 0, -1), (1, 1), (2, 2), "padding_bottom .* is -1"),
        ((0, 0, 0, 0), (0, 1), (2, 2), "stride_width .* is 0; it must be at least 1"),
        ((0, 0, 0, 0), (1, 1), (2, 0), "filter_height .* is 0"),
        ((0, 0, 0, 0), (1, 1), (6, 2), "a window of width 6 does not fit on an image of width 5"),
    ],
)
def test_refuses_geometry(
    padding: tuple[int, ...], stride: tuple[int, int], size: tuple[int, int], message: str
) -> None:
    data = given(OperandType.TENSOR_FLOAT32, np.zeros((1, 4, 5, 3)))
    with pytest.raises(BadData, match=message):
        evaluate(AVERAGE, inputs(data, ((), padding, stride, size)), wanted(OperandType.TENSOR_FLOAT32))


def test_refuses_other_arguments() -> None:
    data = given(OperandType.TENSOR_FLOAT32, np.zeros((1, 2, 2, 1)))
    output = wanted(OperandType.TENSOR_FLOAT32)
    with pytest.raises(BadData, match=r"activation of L2_POOL_2D\) is 7"):
        evaluate(NORM, [data, *scalars(VALID, 1, 1, 1, 1, 7)], output)
    with pytest.raises(BadData, match=r"padding_scheme of L2_POOL_2D\) is 0; 1 \(SAME\)"):
        evaluate(NORM, [data, *scalars(0, 1, 1, 1, 1, NONE)], output)
    with pytest.raises(BadData, match=r"L2_POOL_2D has 9 inputs and 1 output; 7, 8, 10 or 11 inputs"):
        evaluate(NORM, [data, *scalars(0, 0, 0, 0, 1, 1, 1, 1)], output)
    quantized = given(OperandType.TENSOR_QUANT8_ASYMM, np.zeros((1, 2, 2, 1)), 1.0)
    with pytest.raises(BadData, match=r"TENSOR_QUANT8_ASYMM; TENSOR_FLOAT32 or TENSOR_FLOAT16 is expected"):
        evaluate(
            NORM, [quantized, *scalars(VALID, 1, 1, 1, 1, NONE)], wanted(OperandType.TENSOR_QUANT8_ASYMM, 1.0)
        )
    with pytest.raises(BadData, match=r"those of input, 1 and 0, are expected"):
        evaluate(
            AVERAGE,
            [quantized, *scalars(VALID, 1, 1, 1, 1, NONE)],
            wanted(OperandType.TENSOR_QUANT8_ASYMM, 2.0),
        )

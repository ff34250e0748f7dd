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
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier

FULLY_CONNECTED = OperationType.FULLY_CONNECTED
NONE, RELU, RELU1, RELU6 = range(4)


@sweep("activation", [NONE, RELU, RELU1, RELU6])
@sweep("operand_type", FLOAT_TYPES)
@sweep(("shape", "units"), [((3, 5), 4), ((1, 1), 1), ((2, 3, 5), 2), ((2, 1, 2, 3), 7), ((0, 5), 3)])
def test_floats(operand_type: OperandType, shape: tuple[int, ...], units: int, activation: int) -> None:
    generator = np.random.default_rng(6)
    depth = shape[-1]
    values, weights, bias = (
        generator.normal(size=size).astype(operand_type.dtype) for size in (shape, (units, depth), units)
    )
    result = evaluate(
        FULLY_CONNECTED,
        [*(given(operand_type, array) for array in (values, weights, bias)), *scalars(activation)],
        wanted(operand_type),
    )
    rows = values.astype(np.float64).reshape(values.size // depth, depth)
    low, high = ((-np.inf, np.inf), (0, np.inf), (-1, 1), (0, 6))[activation]
    assert result.shape == (len(rows), units)
    for row, column in np.ndindex(result.shape):
        exact = bias[column] + sum(rows[row, k] * float(weights[column, k]) for k in range(depth))
        tolerance = 1e-5 if operand_type is OperandType.TENSOR_FLOAT32 else 4e-3
        assert abs(result[row, column] - min(max(exact, low), high)) <= tolerance * max(1, abs(exact))


def quantized(
    operand_type: OperandType,
    values: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    activation: int = NONE,
    *,
    zero_points: tuple[int, int] = (0, 0),
    bias_scale: float = 0.125,
) -> list[Given]:
    """Returns inputs whose products have the scale 0.125."""
    return [
        given(operand_type, values, 0.5, zero_points[0]),
        given(operand_type, weights, 0.25, zero_points[1]),
        given(OperandType.TENSOR_INT32, bias, bias_scale),
        *scalars(activation),
    ]


@sweep("activation", [NONE, RELU, RELU1, RELU6])
@sweep("operand_type", QUANT8_TYPES)
@sweep(("rows", "depth", "units"), [(3, 5, 4), (1, 1, 1), (2, 700, 3), (0, 5, 2)])
def test_quantized_values(
    operand_type: OperandType, rows: int, depth: int, units: int, activation: int
) -> None:
    generator = np.random.default_rng(7)
    limits = np.iinfo(operand_type.dtype.name)
    middle = limits.min + 120
    values = stored_values(generator, operand_type, (rows, depth))
    weights = stored_values(generator, operand_type, (units, depth))
    bias = generator.integers(-3000, 3000, units)
    output = wanted(operand_type, 2.5, middle + 3)
    result = evaluate(
        FULLY_CONNECTED,
        quantized(operand_type, values, weights, bias, activation, zero_points=(middle, middle - 11)),
        output,
    )
    low, high = ((None, None), (0.0, None), (-1.0, 1.0), (0.0, 6.0))[activation]
    for row, unit in np.ndindex(rows, units):
        total = int(bias[unit])
        for k in range(depth):
            total += (int(values[row, k]) - middle) * (int(weights[unit, k]) - middle + 11)
        rescaled = int(multiply(np.array([total]), *quantize_multiplier(0.125 / 2.5))[0]) + output.zero_point
        # The limits lie between quantised values: 1 / 2.5 becomes 0 and 6 / 2.5 becomes 2.
        lowest = limits.min if low is None else output.zero_point
        highest = limits.max if high is None else output.zero_point + {1.0: 0, 6.0: 2}[high]
        assert result[row, unit] == min(max(rescaled, lowest), highest)


def test_sums_too_large_for_float32_are_exact() -> None:
    depth = 20_000
    values = np.full((1, depth), 255)
    weights = np.full((1, depth), 255)
    values[0, 0] = weights[0, 0] = 254
    bias = [7 - 255 * 255 * (depth - 1) - 254 * 254]
    result = evaluate(
        FULLY_CONNECTED,
        quantized(OperandType.TENSOR_QUANT8_ASYMM, values, weights, np.array(bias)),
        wanted(OperandType.TENSOR_QUANT8_ASYMM, 0.125, 0),
    )
    assert result.tolist() == [[7]]


def test_fine_output_scale_needs_level_3() -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    inputs = quantized(operand_type, np.ones((1, 2)), np.ones((1, 2)), np.ones(1))
    assert level_of(FULLY_CONNECTED, inputs, wanted(operand_type, 0.126, rank=2)) == FeatureLevel.LEVEL_1
    assert level_of(FULLY_CONNECTED, inputs, wanted(operand_type, 0.125, rank=2)) == FeatureLevel.LEVEL_3


@sweep(
    ("shape", "weights", "bias", "message"),
    [
        ((2, 3), (4, 5), (4,), r"operand 0 \(input .* has shape \[2, 3\], 6 elements; a multiple of 5"),
        ((2, 3), (4, 3), (3,), r"operand 2 \(bias of FULLY_CONNECTED\) has shape \[3\]; \[4\]"),
        ((2, 3), (0, 3), (0,), "0 output channels; at least 1"),
        ((2, 3), (4, 0), (4,), "a multiple of 0"),
        ((6,), (2, 3), (2,), "operand 0 .* has rank 1; a rank from 2 to 4"),
        ((2, 3), (2, 3, 1), (2,), "operand 1 .* has rank 3; rank 2 is expected"),
    ],
)
def test_refuses_shapes(
    shape: tuple[int, ...], weights: tuple[int, ...], bias: tuple[int, ...], message: str
) -> None:
    inputs = [given(OperandType.TENSOR_FLOAT32, np.zeros(size)) for size in (shape, weights, bias)]
    with pytest.raises(BadData, match=message):
        evaluate(FULLY_CONNECTED, [*inputs, *scalars(NONE)], wanted(OperandType.TENSOR_FLOAT32))


def test_refuses_a_bias_of_another_scale() -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    inputs = quantized(operand_type, np.ones((1, 2)), np.ones((1, 2)), np.ones(1), bias_scale=0.12501)
    with pytest.raises(BadData, match=r"operand 2 \(bias .* has scale 0\.12501; 0\.125"):
        evaluate(FULLY_CONNECTED, inputs, wanted(operand_type, 1.0))


def test_refuses_an_unknown_activation() -> None:
    inputs = [given(OperandType.TENSOR_FLOAT32, np.zeros(size)) for size in ((1, 1), (1, 1), (1,))]
    with pytest.raises(BadData, match=r"operand 3 \(activation of FULLY_CONNECTED\) is 4; 0 \(NONE\)"):
        evaluate(FULLY_CONNECTED, [*inputs, *scalars(4)], wanted(OperandType.TENSOR_FLOAT32))


def test_refuses_per_channel_filters() -> None:
    inputs = quantized(OperandType.TENSOR_QUANT8_ASYMM, np.ones((1, 2)), np.ones((1, 2)), np.ones(1))
    inputs[1] = given(OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, np.ones((1, 2)))
    with pytest.raises(BadData, match=r"operand 1 .* TENSOR_QUANT8_SYMM_PER_CHANNEL"):
        evaluate(FULLY_CONNECTED, inputs, wanted(OperandType.TENSOR_QUANT8_ASYMM, 1.0))

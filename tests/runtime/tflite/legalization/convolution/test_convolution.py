from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.operations.windows import convolution_sums, transposed_sums
from support.tflite.operator import (
    RELU,
    SAME,
    VALID,
    Load,
    fixed,
    inputs_of,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.results import run_with_kernels
from support.tflite.weights import CHANNEL_SCALES, random_bytes

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

#: TFLite's and Android's numbers of paddings.
SCHEMES = {SAME: 1, VALID: 2}


def convolved(x: Array, weights: Array, bias: Any, stride: int, dilation: int) -> Array:
    """Computes a convolution without padding."""
    _, kernel_height, kernel_width, _ = weights.shape
    height = (x.shape[1] - (kernel_height - 1) * dilation - 1) // stride + 1
    width = (x.shape[2] - (kernel_width - 1) * dilation - 1) // stride + 1
    total = np.zeros((x.shape[0], height, width, weights.shape[0]))
    for row in range(kernel_height):
        for column in range(kernel_width):
            top, left = row * dilation, column * dilation
            seen = x[:, top : top + height * stride : stride, left : left + width * stride : stride]
            total += seen[:, :height, :width] @ weights[:, row, column].T
    return np.asarray(total + bias)


def test_constant_data_and_float16_weights(load: Load) -> None:
    data, weights = random(1, 4, 4, 2), random(3, 1, 1, 2, seed=1).astype(np.float16)
    model = load(
        "CONV_2D",
        (fixed(data), fixed(weights, "FLOAT16"), fixed(np.zeros(3))),
        shaped(1, 4, 4, 3),
        "Conv2DOptions",
        StrideW=1,
        StrideH=1,
    )
    expected = data.reshape(16, 2) @ weights.reshape(3, 2).astype(np.float32).T
    np.testing.assert_allclose(run_with_kernels(model).reshape(16, 3), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scales", [0.5, CHANNEL_SCALES])
def test_floats_with_quantized_weights(load: Load, scales: Any) -> None:
    weights, x = random_bytes(3, 2, 2, 4), random(2, 5, 5, 4, seed=3)
    kernel = fixed(weights, "INT8", scale=scales)
    model = load("CONV_2D", (shaped(2, 5, 5, 4), kernel), shaped(0), "Conv2DOptions", StrideW=1, StrideH=1)
    assert types(model) == [OperationType.TFLITE_CONV_2D]
    assert inputs_of(model)[2].type is OperandType.TENSOR_FLOAT32
    real = np.moveaxis(weights, 0, 3) * np.array(scales)
    expected = convolution_sums(x, real, 1, (1, 1), (1, 1))
    # Inputs are quantised in steps of 1/127 or 1/255 of their range.
    np.testing.assert_allclose(run_references(model, x)[0], expected, atol=0.01 * np.abs(expected).max())


@pytest.mark.parametrize("type_", ["FLOAT32", "INT8", "INT16"])
@pytest.mark.parametrize("scales", [0.0, (0.5, 0.0, 0.25)])
def test_filters_whose_scale_is_0_add_nothing(load: Load, type_: str, scales: Any) -> None:
    """Whatever their elements are, and as LiteRT does: the bias of integers has that scale, too."""
    weights, is_float = random_bytes(3, 2, 2, 4), type_ == "FLOAT32"
    bias = np.array([100, -200, 300])
    stored = (
        fixed(bias.astype(np.float32)) if is_float else fixed(bias, "INT64" if type_ == "INT16" else "INT32")
    )
    model = load(
        "CONV_2D",
        (
            shaped(1, 5, 5, 4, type_=type_, scale=() if is_float else 0.5),
            fixed(weights, "INT8", scale=scales),
            stored,
        ),
        shaped(0, type_=type_, scale=() if is_float else 50.0),
        "Conv2DOptions",
        StrideW=1,
        StrideH=1,
    )
    numbers_in = np.random.default_rng(2).integers(-128, 128, (1, 5, 5, 4))
    x = numbers_in.astype(np.float32 if is_float else type_.lower())
    real = np.moveaxis(weights, 0, 3) * np.array(scales)
    if is_float:
        expected = convolution_sums(x, real, 1, (1, 1), (1, 1)) + bias
    else:
        expected = convolution_sums(x * 0.5, real, 1, (1, 1), (1, 1)) + bias * 0.5 * np.array(scales)
        limits = np.iinfo(type_.lower())
        expected = np.clip(expected / 50, limits.min, limits.max)
    tolerance = 0.01 * np.abs(expected).max() if is_float else 0.51
    for result in (run_references(model, x)[0], run_with_kernels(model, x)):
        np.testing.assert_allclose(result, expected, atol=tolerance)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("type_", "scale"), [("FLOAT32", ()), ("INT8", 0.5), ("INT16", 0.5)])
def test_grouped_convolution(load: Load, type_: str, scale: Any, dilation: int) -> None:
    """Android's GROUPED_CONV_2D has no dilations, and does not accept 16-bit activations."""
    weights, x = random_bytes(6, 2, 2, 2), np.random.default_rng(2).integers(-128, 128, (2, 5, 5, 4))
    is_float = type_ == "FLOAT32"
    kernel = fixed(weights) if is_float else fixed(weights, "INT8", scale=0.5)
    model = load(
        "CONV_2D",
        (shaped(2, 5, 5, 4, type_=type_, scale=scale), kernel),
        shaped(0, type_=type_, scale=() if is_float else 50.0),
        "Conv2DOptions",
        StrideW=2,
        StrideH=1,
        DilationWFactor=dilation,
        DilationHFactor=dilation,
    )
    is_android = dilation == 1 and type_ != "INT16"
    name = OperationType.GROUPED_CONV_2D if is_android else OperationType.TFLITE_CONV_2D
    assert types(model) == [name]
    expected = np.concatenate(
        [
            convolution_sums(part, np.moveaxis(kernel_, 0, 3), 1, (1, 2), (dilation, dilation))
            for part, kernel_ in zip(np.split(x, 2, axis=3), np.split(weights, 2), strict=True)
        ],
        axis=3,
    )
    (result,) = run_references(model, x)
    if is_float:
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    else:
        limits = np.iinfo(type_.lower())
        np.testing.assert_allclose(result, np.clip(expected * 0.25 / 50, limits.min, limits.max), atol=0.51)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("is_constant", [True, False])
def test_transpose_conv(load: Load, padding: int, *, is_constant: bool) -> None:
    lengths = (7, 4) if padding == SAME else (8, 6)
    shape, weights, x = [2, *lengths, 3], random(3, 2, 3, 4, seed=1), random(2, 4, 4, 4)
    target = fixed(shape, "INT32") if is_constant else shaped(4, type_="INT32")
    model = load(
        "TRANSPOSE_CONV",
        (target, fixed(weights), shaped(2, 4, 4, 4)),
        shaped(*shape),
        "TransposeConvOptions",
        Padding=padding,
        StrideW=1,
        StrideH=2,
        FusedActivationFunction=RELU,
    )
    assert types(model) == [OperationType.TRANSPOSE_CONV_2D]
    (result,) = run_references(model, *([] if is_constant else [shape]), x)
    sums = transposed_sums(x, np.moveaxis(weights, 0, 3), lengths, SCHEMES[padding], (2, 1), (1, 1))
    np.testing.assert_allclose(result, np.maximum(sums, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("bias", ["constant", "left out", "omitted"])
def test_conv_2d(load: Load, stride: int, dilation: int, bias: str) -> None:
    weights, offsets = random(3, 2, 3, 4), random(3, seed=1)
    tails: dict[str, list[dict[str, Any] | None]] = {
        "constant": [fixed(offsets)],
        "left out": [],
        "omitted": [None],
    }
    model = load(
        "CONV_2D",
        (shaped(2, 8, 7, 4), fixed(weights), *tails[bias]),
        shaped(0),
        "Conv2DOptions",
        Padding=VALID,
        StrideW=stride,
        StrideH=stride,
        DilationWFactor=dilation,
        DilationHFactor=dilation,
    )
    assert len(inputs_of(model)) == (7 if dilation == 1 else 10)
    x = random(2, 8, 7, 4, seed=2)
    (result,) = run_references(model, x)
    expected = convolved(x, weights, offsets if bias == "constant" else 0, stride, dilation)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_width_and_height_are_not_swapped(load: Load) -> None:
    options = {"StrideW": 2, "StrideH": 3, "DilationWFactor": 1, "DilationHFactor": 2}
    weights = fixed(np.ones((1, 2, 1, 1)))
    model = load(
        "CONV_2D", (shaped(1, 9, 9, 1), weights), shaped(1, 1, 1, 1), "Conv2DOptions", Padding=SAME, **options
    )
    assert numbers(model, start=3) == [1, 2, 3, 0, False, 1, 2]
    model = load(
        "DEPTHWISE_CONV_2D",
        (shaped(1, 9, 9, 1), weights),
        shaped(1, 1, 1, 1),
        "DepthwiseConv2DOptions",
        Padding=SAME,
        **options,
    )
    assert numbers(model, start=3) == [1, 2, 3, 1, 0, False, 1, 2]


@pytest.mark.parametrize(("multiplier", "option"), [(1, 1), (3, 3), (3, 0), (2, 7)])
def test_depthwise_conv_2d(load: Load, multiplier: int, option: int) -> None:
    weights, bias = random(1, 2, 2, 4 * multiplier), random(4 * multiplier, seed=1)
    model = load(
        "DEPTHWISE_CONV_2D",
        (shaped(1, 4, 4, 4), fixed(weights), fixed(bias)),
        shaped(1, 3, 3, 4 * multiplier),
        "DepthwiseConv2DOptions",
        Padding=VALID,
        StrideW=1,
        StrideH=1,
        DepthMultiplier=option,
        FusedActivationFunction=RELU,
    )
    x = random(1, 4, 4, 4, seed=2)
    (result,) = run_references(model, x)
    spread = np.repeat(x, multiplier, axis=3)
    expected = bias + sum(
        spread[:, row : row + 3, column : column + 3] * weights[0, row, column]
        for row in (0, 1)
        for column in (0, 1)
    )
    np.testing.assert_allclose(result, np.maximum(expected, 0), rtol=1e-4, atol=1e-4)

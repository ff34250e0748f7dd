from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.builder import TfliteModel
from support.tflite.operator import (
    ACTIVATIONS,
    NONE,
    RELU,
    SAME,
    TANH,
    VALID,
    Load,
    fixed,
    inputs_of,
    numbers,
    random,
    shaped,
)

from neurald.hal.errors import BadData
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite


def convolved(x: Array, weights: Array, bias: Any, stride: int, dilation: int) -> Array:
    """A convolution without padding."""
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


def quantised_convolution(load: Load, bias_scale: float, **weights: Any) -> Model:
    return load(
        "CONV_2D",
        (
            shaped(1, 2, 2, 3, type_="INT8", scale=0.5, zero_point=-1),
            fixed(np.ones((2, 1, 1, 3)), "INT8", **weights),
            fixed([1, 2], "INT32", scale=bias_scale),
        ),
        shaped(1, 2, 2, 2, type_="INT8", scale=2.0),
        "Conv2DOptions",
        StrideW=1,
        StrideH=1,
    )


def test_the_scale_of_a_quantised_bias(load: Load) -> None:
    assert inputs_of(quantised_convolution(load, 7.0, scale=0.25))[2].scale == 0.125
    assert inputs_of(quantised_convolution(load, 7.0, scale=(0.25, 0.5)))[2].scale == 0


def test_the_bias_that_is_added_has_that_scale(load: Load) -> None:
    model = load(
        "CONV_2D",
        (
            shaped(1, 2, 2, 3, type_="UINT8", scale=0.5),
            fixed(np.ones((2, 1, 1, 3)), "UINT8", scale=0.25),
        ),
        shaped(1, 2, 2, 2, type_="UINT8", scale=0.125),
        "Conv2DOptions",
        StrideW=1,
        StrideH=1,
    )
    bias = inputs_of(model)[2]
    assert (bias.dimensions, bias.scale, bias.value) == ((2,), 0.125, bytes(8))
    (result,) = run_references(model, np.full((1, 2, 2, 3), 2))
    assert result.tolist() == np.full((1, 2, 2, 2), 6).tolist()


def test_one_bias_for_two_scales(tmp_path: Path) -> None:
    """Both operands refer to the same bytes."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 1, 1, 1), "INT8", scale=0.5)
    bias = graph.tensor((1,), "INT32", data=[4], scale=1.0)
    results = []
    for scale in (0.25, 1.0, 0.25):
        weights = graph.tensor((1, 1, 1, 1), "INT8", data=[2], scale=scale)
        results.append(graph.tensor((1, 1, 1, 1), "INT8", scale=1.0))
        graph.operator("CONV_2D", (x, weights, bias), results[-1:], "Conv2DOptions", StrideW=1, StrideH=1)
    graph.inputs, graph.outputs = (x,), results
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    biases = [inputs_of(model, position)[2] for position in range(3)]
    assert [operand.scale for operand in biases] == [0.125, 0.5, 0.125]
    assert len({operand.location for operand in biases}) == 1
    assert [array.item() for array in run_references(model, [[[[16]]]])] == [4 + 1, 16 + 2, 4 + 1]


def test_a_fed_bias_cannot_have_two_scales(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, bias = graph.tensor((1, 1, 1, 1), "INT8", scale=0.5), graph.tensor((1,), "INT32")
    for scale in (0.25, 1.0):
        weights = graph.tensor((1, 1, 1, 1), "INT8", data=[2], scale=scale)
        graph.outputs = (graph.tensor((1, 1, 1, 1), "INT8", scale=1.0),)
        graph.operator("CONV_2D", (x, weights, bias), graph.outputs, "Conv2DOptions", StrideW=1, StrideH=1)
    graph.inputs = (x, bias)
    with pytest.raises(BadData, match=r"operator 1 CONV_2D: the bias, operand 1, would need the scales"):
        load_tflite(file.write(tmp_path / "model.tflite"))


def test_a_bias_cannot_be_added_for_unknown_channels(load: Load) -> None:
    weights = shaped(1, 1, 1, 1, shape_signature=(-1, 1, 1, 1))
    with pytest.raises(BadData, match="number of channels must be known"):
        load("CONV_2D", (shaped(1, 1, 1, 1), weights), shaped(1, 1, 1, 1), "Conv2DOptions")


def test_a_huge_bias_is_not_allocated(load: Load) -> None:
    with pytest.raises(BadData, match="too large"):
        load(
            "CONV_2D",
            (shaped(1, 1, 1, 1, type_="UINT8"), shaped(2**30, 1, 1, 1, type_="UINT8")),
            shaped(1, 1, 1, 1, type_="UINT8"),
            "Conv2DOptions",
        )


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


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 3, 4), (2, 1, 3, 4), (0, 4)])
@pytest.mark.parametrize("activation", [NONE, TANH])
def test_fully_connected(load: Load, shape: tuple[int, ...], activation: int, *, keep: bool) -> None:
    weights, bias = random(3, 4), random(3, seed=1)
    model = load(
        "FULLY_CONNECTED",
        (shaped(*shape, shape_signature=shape), fixed(weights), fixed(bias)),
        shaped(1, 3),
        "FullyConnectedOptions",
        KeepNumDims=keep,
        FusedActivationFunction=activation,
    )
    x = random(*shape, seed=2)
    (result,) = run_references(model, x)
    expected = ACTIVATIONS[activation](x @ weights.T + bias)
    assert result.shape == ((*shape[:-1], 3) if keep else (x.size // 4, 3))
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_with_an_open_batch(load: Load, *, keep: bool) -> None:
    weights = random(3, 4)
    model = load(
        "FULLY_CONNECTED",
        (shaped(1, 2, 4, shape_signature=(-1, 2, 4)), fixed(weights), None),
        shaped(1, 1, 3) if keep else shaped(1, 3),
        "FullyConnectedOptions",
        KeepNumDims=keep,
    )
    x = random(5, 2, 4)
    (result,) = run_references(model, x)
    np.testing.assert_allclose(
        result, (x @ weights.T).reshape((5, 2, 3) if keep else (10, 3)), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("source", "weights", "values", "message"),
    [
        (shaped(1, 4), fixed(np.ones((3, 4))), {"WeightsFormat": 1}, "1 outputs, with weights format 1"),
        (shaped(1, 4), fixed(np.ones((3, 1, 4))), {}, "filter .* has rank 3"),
        (shaped(1, 4), fixed(np.ones(4)), {}, "filter .* has rank 1"),
        (shaped(1, 3, 4), fixed(np.ones((3, 6))), {"KeepNumDims": True}, "must be 6"),
    ],
)
def test_fully_connected_refuses(
    load: Load, source: dict[str, Any], weights: dict[str, Any], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadData, match=message):
        load("FULLY_CONNECTED", (source, weights), shaped(1, 3), "FullyConnectedOptions", **values)

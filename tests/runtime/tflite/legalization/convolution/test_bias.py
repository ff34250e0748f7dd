"""Biases of any rank: only their number of elements matters to TFLite."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import (
    VALID,
    Load,
    fixed,
    inputs_of,
    shaped,
)

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

_CHANNELS = 3
_STEPS = {"Padding": VALID, "StrideW": 1, "StrideH": 1}
#: Shapes of input, weights and output (if it is an argument), the kind of options, and the options.
OPERATORS: dict[str, tuple[Any, Any, Any, str, dict[str, Any]]] = {
    "CONV_2D": ((1, 4, 4, 2), (_CHANNELS, 2, 2, 2), None, "Conv2DOptions", _STEPS),
    "DEPTHWISE_CONV_2D": (
        (1, 4, 4, _CHANNELS),
        (1, 2, 2, _CHANNELS),
        None,
        "DepthwiseConv2DOptions",
        {**_STEPS, "DepthMultiplier": 1},
    ),
    "FULLY_CONNECTED": ((2, 8), (_CHANNELS, 8), None, "FullyConnectedOptions", {}),
    "TRANSPOSE_CONV": (
        (1, 3, 3, 2),
        (_CHANNELS, 2, 2, 2),
        (1, 4, 4, _CHANNELS),
        "TransposeConvOptions",
        _STEPS,
    ),
    "CONV_3D": ((1, 3, 3, 3, 2), (2, 2, 2, 2, _CHANNELS), None, "Conv3DOptions", {**_STEPS, "StrideD": 1}),
    "CONV_3D_TRANSPOSE": (
        (1, 3, 3, 3, 2),
        (2, 2, 2, _CHANNELS, 2),
        (1, 4, 4, 4, _CHANNELS),
        "Conv3DOptions",
        {**_STEPS, "StrideD": 1},
    ),
}
#: Types of input and output, weights, bias.
TYPES = {
    "floats": ("FLOAT32", "FLOAT32", "FLOAT32"),
    "float16 weights": ("FLOAT32", "FLOAT16", "FLOAT16"),
    "hybrid": ("FLOAT32", "INT8", "FLOAT32"),
    "bytes": ("INT8", "INT8", "INT32"),
    "shorts": ("INT16", "INT8", "INT64"),
}
_SCALES = {"INT8": 0.5, "INT16": 0.25, "INT32": 0.25, "INT64": 0.125}


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


def _run(folder: Path, code: str, kind: str, shape: tuple[int, ...], *, is_fed: bool) -> Array:
    """Returns the result for the same bias in that shape."""
    of_input, of_weights, target, options, values = OPERATORS[code]
    data, weights, bias = TYPES[kind]
    numbers = np.random.default_rng(1)
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor(of_input, data, scale=_SCALES.get(data, ()))
    kernel = graph.tensor(
        of_weights, weights, scale=_SCALES.get(weights, ()), data=numbers.integers(-5, 6, of_weights)
    )
    terms = np.array([4, -9, 20]).reshape(shape)
    scale = _SCALES.get(bias, ())
    added = graph.tensor(shape, bias, data=None if is_fed else terms, scale=scale)
    result = graph.tensor((0,) * len(of_input), data, scale=2.0 if data in _SCALES else ())
    inputs = [source, kernel, added]
    if target is not None:
        inputs = [graph.tensor((len(target),), "INT32", data=target), kernel, source, added]
    graph.operator(code, inputs, (result,), options, **values)
    graph.inputs, graph.outputs = (source, added) if is_fed else (source,), (result,)
    fed = [numbers.integers(-9, 10, of_input), *([terms] if is_fed else [])]
    return run_references(load_tflite(file.write(folder / "model.tflite")), *fed)[0]


@sweep("shape", [(3, 1), (1, 3), (1, 1, 1, 3), (1, 3, 1, 1), (1, 1, 1, 1, 3)])
@sweep(
    ("code", "kind"),
    [(code, kind) for code in OPERATORS for kind in TYPES if kind == "floats" or "3D" not in code],
)
def test_a_bias_of_another_rank(tmp_path: Path, code: str, kind: str, shape: tuple[int, ...]) -> None:
    expected = _run(tmp_path, code, kind, (_CHANNELS,), is_fed=False)
    np.testing.assert_array_equal(_run(tmp_path, code, kind, shape, is_fed=False), expected)


@sweep("code", OPERATORS)
def test_a_bias_that_is_an_input(tmp_path: Path, code: str) -> None:
    expected = _run(tmp_path, code, "floats", (_CHANNELS,), is_fed=True)
    np.testing.assert_array_equal(_run(tmp_path, code, "floats", (1, 1, 1, _CHANNELS), is_fed=True), expected)


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

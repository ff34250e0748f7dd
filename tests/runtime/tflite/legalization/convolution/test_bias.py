"""Biases of any rank: TFLite asks only how many elements they have."""

from pathlib import Path
from typing import Any

import numpy as np
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import VALID

from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

_CHANNELS = 3
_STEPS = {"Padding": VALID, "StrideW": 1, "StrideH": 1}

#: Shapes of input, weights and (for those that are given it) output; the kind of options, and the options.
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
#: Of input and output, weights, bias.
TYPES = {
    "floats": ("FLOAT32", "FLOAT32", "FLOAT32"),
    "float16 weights": ("FLOAT32", "FLOAT16", "FLOAT16"),
    "hybrid": ("FLOAT32", "INT8", "FLOAT32"),
    "bytes": ("INT8", "INT8", "INT32"),
    "shorts": ("INT16", "INT8", "INT64"),
}
_SCALES = {"INT8": 0.5, "INT16": 0.25, "INT32": 0.25, "INT64": 0.125}


def _run(folder: Path, code: str, kind: str, shape: tuple[int, ...], *, is_fed: bool) -> Array:
    """The result with the same bias, in that shape."""
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

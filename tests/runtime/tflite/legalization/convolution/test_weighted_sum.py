"""Weighted sums without an operation of Android, or with one of another name."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, random, shaped, types
from support.tflite.results import DTYPES, run_with_kernels
from support.tflite.weights import CHANNEL_SCALES, random_bytes

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array


@pytest.mark.parametrize("code", ["CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_float16_weights(load: Load, code: str) -> None:
    weights, bias = random(3, 1, 1, 4), random(3, seed=1)
    x = random(1, 2, 2, 4, seed=2)
    matrix = weights.reshape(3, 4) if code == "FULLY_CONNECTED" else weights
    fed = [shaped(1, 2, 2, 4), fixed(matrix, "FLOAT16"), fixed(bias, "FLOAT16")]
    options: dict[str, Any] = {} if code == "FULLY_CONNECTED" else {"StrideW": 1, "StrideH": 1}
    kind = {"CONV_2D": "Conv2D", "FULLY_CONNECTED": "FullyConnected", "TRANSPOSE_CONV": "TransposeConv"}
    if code == "TRANSPOSE_CONV":
        fed = [fixed([1, 2, 2, 3], "INT32"), fed[1], fed[0], fed[2]]
    model = load(code, fed, shaped(0), f"{kind[code]}Options", **options)
    assert set(types(model)[:-1]) <= {OperationType.CAST}
    expected = x.reshape(-1, 4) @ weights.reshape(3, 4).astype(np.float16).astype(float).T
    expected += bias.astype(np.float16).astype(float)
    (result,) = run_references(model, x)
    np.testing.assert_allclose(result.reshape(-1, 3), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("code", "bias_type"), [("CONV_2D", "INT64"), ("FULLY_CONNECTED", "INT64")])
@pytest.mark.parametrize("has_bias", [True, False])
def test_16_bit_activations(load: Load, code: str, bias_type: str, *, has_bias: bool) -> None:
    weights, x = random_bytes(3, 1, 1, 4), np.random.default_rng(2).integers(-32768, 32768, (1, 2, 2, 4))
    matrix = weights.reshape(3, 4) if code == "FULLY_CONNECTED" else weights
    bias = fixed([1000, -2000, 3000], bias_type) if has_bias else None
    options: dict[str, Any] = {} if code == "FULLY_CONNECTED" else {"StrideW": 1, "StrideH": 1}
    model = load(
        code,
        (shaped(1, 2, 2, 4, type_="INT16", scale=0.5), fixed(matrix, "INT8", scale=CHANNEL_SCALES), bias),
        shaped(0, type_="INT16", scale=200.0),
        "FullyConnectedOptions" if code == "FULLY_CONNECTED" else "Conv2DOptions",
        **options,
    )
    assert types(model) == [OperationType[f"TFLITE_{code}"]]
    totals = x.reshape(-1, 4) @ weights.reshape(3, 4).T + ([1000, -2000, 3000] if has_bias else 0)
    expected = np.clip(totals * (0.5 * np.array(CHANNEL_SCALES)) / 200, -32768, 32767)
    (result,) = run_references(model, x)
    assert np.abs(result.reshape(-1, 3) - expected).max() < 1.6


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *product(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), ("INT8", "INT16", "FLOAT32")),
        *product(["TRANSPOSE_CONV"], ("INT8", "INT16")),
    ],
)
def test_weights_with_scales_per_channel_that_are_an_input(load: Load, code: str, kind: str) -> None:
    weights, x = random_bytes(3, 1, 1, 3), np.random.default_rng(2).integers(-128, 128, (1, 2, 2, 3))
    options: dict[str, Any] = {"StrideW": 1, "StrideH": 1}
    if code == "DEPTHWISE_CONV_2D":
        weights, options["DepthMultiplier"] = weights[:1], 1
    elif code == "FULLY_CONNECTED":
        weights, options = weights.reshape(3, 3), {}
    form = {"scale": CHANNEL_SCALES, "quantized_dimension": 3 if code == "DEPTHWISE_CONV_2D" else 0}
    scale = {} if kind == "FLOAT32" else {"scale": 0.5}
    bias = fixed([10, -20, 30], {"INT8": "INT32", "INT16": "INT64"}.get(kind, kind))
    names = {"FULLY_CONNECTED": "FullyConnected", "TRANSPOSE_CONV": "TransposeConv"}
    name = names.get(code) or ("Conv2D" if code == "CONV_2D" else "DepthwiseConv2D")

    def run(matrix: dict[str, Any], *arrays: Array) -> Array:
        inputs = [shaped(1, 2, 2, 3, type_=kind, **scale), matrix, bias]
        if code == "TRANSPOSE_CONV":
            inputs = [fixed([1, 2, 2, 3], "INT32"), matrix, inputs[0], bias]
            arrays = arrays[::-1]
        result = shaped(0, type_=kind, **({"scale": 90.0} if scale else {}))
        return run_with_kernels(load(code, inputs, result, f"{name}Options", **options), *arrays)

    x, fed = x.astype(DTYPES[kind]), weights.astype(np.int8)
    expected = run(fixed(weights, "INT8", **form), x)
    assert np.unique(expected).size > 3
    found = run(shaped(*weights.shape, type_="INT8", **form), x, fed)
    np.testing.assert_array_equal(found, expected)

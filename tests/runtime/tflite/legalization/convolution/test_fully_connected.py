"""FULLY_CONNECTED with weights of several widths and layouts.

Expected results are exact sums, rounded like LiteRT's.
"""

import math
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import (
    ACTIVATIONS,
    NONE,
    RELU,
    TANH,
    Load,
    fixed,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.weights import CHANNEL_SCALES, exact_floats, random_bytes

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

INT2 = 19


def run(model: Model, *arrays: Array) -> Array:
    (result,) = CompilationBuilder(model).finish().run(*arrays)
    return result


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_unsigned_bytes_with_floats_are_read_as_signed(load: Load, *, asymmetric: bool, keeps: bool) -> None:
    generator = np.random.default_rng(0)
    quantized = generator.integers(0, 256, (3, 8)).astype(np.uint8)
    options = {"AsymmetricQuantizeInputs": asymmetric, "KeepNumDims": keeps}
    x = generator.uniform(-2, 2, (2, 8)).astype(np.float32)
    results = []
    for type_, values in (("UINT8", quantized), ("INT8", quantized.view(np.int8))):
        weights = fixed(values, type_, scale=0.05, zero_point=128 if type_ == "UINT8" else 0)
        model = load(
            "FULLY_CONNECTED", (shaped(2, 8), weights), shaped(2, 3), "FullyConnectedOptions", **options
        )
        assert types(model) == [OperationType.TFLITE_FULLY_CONNECTED]
        results.append(run(model, x))
    np.testing.assert_array_equal(results[0], results[1])


def test_unsigned_bytes_that_are_inputs(load: Load) -> None:
    weights = shaped(3, 4, type_="UINT8", scale=0.5)
    with pytest.raises(BadData, match="must be constants"):
        load("FULLY_CONNECTED", (shaped(2, 4), weights), shaped(2, 3), "FullyConnectedOptions")


@pytest.mark.parametrize("bias", [None, "INT32"])
def test_8_bit_inputs_with_16_bit_outputs(load: Load, bias: str | None) -> None:
    inputs = [
        shaped(1, 2, type_="UINT8", scale=0.5, zero_point=100),
        fixed([[1, 2], [250, 3]], "UINT8", scale=0.25, zero_point=2),
    ]
    if bias:
        inputs.append(fixed([-3, 7], bias, scale=0.125))
    output = shaped(1, 2, type_="INT16", scale=0.25)
    model = load("FULLY_CONNECTED", inputs, output, "FullyConnectedOptions")
    # Ties are rounded upwards.
    sums = np.array([-50, 248 * 50 + 50]) + (np.array([-3, 7]) if bias else 0)
    result = run(model, np.array([[150, 150]], np.uint8))
    assert result.tolist() == [np.floor(sums / 2 + 0.5).tolist()]


@pytest.mark.parametrize("bias", [None, "INT32", "INT64"])
def test_16_bit_weights(load: Load, bias: str | None) -> None:
    generator = np.random.default_rng(1)
    quantized = generator.integers(-(2**15), 2**15, (3, 8))
    inputs = [shaped(4, 8, type_="INT16", scale=0.5), fixed(quantized, "INT16", scale=2.0**-15)]
    added = np.array([2**20, -(2**20), 5])
    if bias:
        inputs.append(fixed(added, bias, scale=2.0**-16))
    output = shaped(4, 3, type_="INT16", scale=2.0)
    model = load("FULLY_CONNECTED", inputs, output, "FullyConnectedOptions")
    x = generator.integers(-(2**15), 2**15, (4, 8)).astype(np.int16)
    sums = x.astype(np.int64) @ quantized.T + (added if bias else 0)
    expected = np.clip((sums + 2**16) >> 17, -(2**15), 2**15 - 1)
    np.testing.assert_array_equal(run(model, x), expected)


@pytest.mark.parametrize("type_", ["FLOAT32", "INT8", "INT16"])
def test_2_bit_weights(load: Load, type_: str) -> None:
    quantized = np.tile(np.array([-2, -1, 0, 1]), (3, 1))
    scale = {} if type_ == "FLOAT32" else {"scale": 1.0}
    weights = {"shape": (3, 4), "type_": INT2, "data": bytes([0b01001110] * 3), "scale": 1.0}
    model = load(
        "FULLY_CONNECTED",
        (shaped(1, 4, type_=type_, **scale), weights),
        shaped(1, 3, type_=type_, **scale),
        "FullyConnectedOptions",
    )
    x = np.array([[3, -5, 100, 127]], type_.lower())
    np.testing.assert_allclose(
        run(model, x), np.clip(x @ quantized.T, -128, 127) if scale else x @ quantized.T
    )


def shuffled(
    weights: Array, batches: int, *, input_zero_point: int = 128, activation: int = 0
) -> TfliteModel:
    """Builds a model with shuffled uint8 weights; the second output is the kernel's workspace."""
    units, depth = weights.shape
    blocks = weights.reshape(units // 4, 4, depth // 16, 16).swapaxes(1, 2).reshape(units, depth)
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((batches, depth), "UINT8", scale=0.5, zero_point=input_zero_point)
    quantized = graph.tensor((units, depth), "UINT8", data=blocks ^ 0x80, scale=0.5, zero_point=128)
    bias = graph.tensor((units,), "INT32", data=np.arange(units), scale=0.25)
    y = graph.tensor((batches, units), "INT16", scale=1.0)
    work = graph.tensor((batches, depth), "UINT8")
    values: dict[str, Any] = {"WeightsFormat": 1, "FusedActivationFunction": activation}
    graph.operator("FULLY_CONNECTED", (x, quantized, bias), (y, work), "FullyConnectedOptions", **values)
    graph.inputs, graph.outputs = (x,), (y,)
    return file


@sweep("activation", [0, RELU])
@sweep("batches", [1, 4])
def test_shuffled_weights(tmp_path: Any, batches: int, activation: int) -> None:
    generator = np.random.default_rng(2)
    weights = generator.integers(0, 256, (8, 32)).astype(np.uint8)
    path = shuffled(weights, batches, activation=activation).write(tmp_path / "model.tflite")
    x = generator.integers(0, 256, (batches, 32)).astype(np.uint8)
    sums = (x.astype(np.int64) - 128) @ (weights.astype(np.int64) - 128).T + np.arange(8)
    # Sums are rounded twice, ties first upwards, then away from zero.
    shifted = (sums + 1) >> 1
    expected = np.sign(shifted) * ((np.abs(shifted) + 1) >> 1)
    expected = np.clip(expected, 0 if activation else -(2**15), 2**15 - 1)
    np.testing.assert_array_equal(run(load_tflite(path), x), expected)


def test_refuses_shuffled_weights(load: Load, tmp_path: Any) -> None:
    path = tmp_path / "model.tflite"
    weights = np.zeros((4, 16), np.uint8)
    with pytest.raises(BadData, match="an input of zero point 100; 128 is expected"):
        load_tflite(shuffled(weights, 1, input_zero_point=100).write(path))
    file = shuffled(weights, 1)
    file.graphs[0].tensors[1].data = None
    file.graphs[0].inputs = (0, 1)
    with pytest.raises(BadData, match="constants of TENSOR_QUANT8_ASYMM"):
        load_tflite(file.write(path))
    file = shuffled(weights, 1)
    file.graphs[0].tensors[1].shape = (8, 8)
    with pytest.raises(BadData, match="multiples of 4 and 16"):
        load_tflite(file.write(path))
    file = shuffled(weights, 1)
    file.graphs[0].operators[0].outputs = file.graphs[0].operators[0].outputs[:1]
    with pytest.raises(BadData, match="1 outputs, with weights format 1"):
        load_tflite(file.write(path))
    with pytest.raises(BadData, match="weights format 2"):
        load(
            "FULLY_CONNECTED",
            (shaped(1, 4), fixed(np.ones((3, 4)))),
            shaped(1, 3),
            "FullyConnectedOptions",
            WeightsFormat=2,
        )


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_floats_with_quantized_weights(load: Load, *, asymmetric: bool, keep: bool) -> None:
    weights, x = random_bytes(3, 4), exact_floats(2, 5, 4)
    x[..., 0] = 127
    model = load(
        "FULLY_CONNECTED",
        (shaped(2, 5, 4), fixed(weights, "INT8", scale=CHANNEL_SCALES)),
        shaped(0),
        "FullyConnectedOptions",
        KeepNumDims=keep,
        AsymmetricQuantizeInputs=asymmetric,
    )
    assert types(model) == [OperationType.TFLITE_FULLY_CONNECTED]
    assert numbers(model, start=3) == [0, keep, asymmetric]
    expected = x @ weights.T * np.array(CHANNEL_SCALES)
    (result,) = run_references(model, x)
    assert result.shape == ((2, 5, 3) if keep else (10, 3))
    limit = 0.01 * np.abs(expected).max() if asymmetric else 1e-3
    np.testing.assert_allclose(result.reshape(expected.shape), expected, atol=limit)


@pytest.mark.parametrize(
    ("type_", "name"), [("FLOAT32", "FULLY_CONNECTED"), ("INT8", "TFLITE_FULLY_CONNECTED")]
)
def test_weights_that_are_computed(load: Load, type_: str, name: str) -> None:
    scale = () if type_ == "FLOAT32" else 1.0
    fed = (shaped(2, 4, type_=type_, scale=scale), shaped(3, 4, type_=type_, scale=scale))
    model = load("FULLY_CONNECTED", fed, shaped(2, 3, type_=type_, scale=scale), "FullyConnectedOptions")
    assert types(model) == [OperationType[name]]
    x, weights = np.arange(8).reshape(2, 4), np.arange(12).reshape(3, 4) % 5
    np.testing.assert_array_equal(run_references(model, x, weights)[0], x @ weights.T)


def test_weights_of_unknown_shape(load: Load) -> None:
    fed = (shaped(2, 4), shaped(3, 4, shape_signature=(-1, -1)))
    model = load("FULLY_CONNECTED", fed, shaped(2, 3), "FullyConnectedOptions")
    assert types(model) == [OperationType.TFLITE_FULLY_CONNECTED]
    x, weights = random(2, 4), random(5, 4)
    np.testing.assert_allclose(run_references(model, x, weights)[0], x @ weights.T, rtol=1e-5)


def test_keeping_several_unknown_dimensions(load: Load) -> None:
    source = shaped(1, 1, 4, shape_signature=(-1, -1, 4))
    model = load(
        "FULLY_CONNECTED",
        (source, fixed(np.eye(4))),
        shaped(1, 1, 4),
        "FullyConnectedOptions",
        KeepNumDims=True,
    )
    x = random(2, 3, 4)
    np.testing.assert_array_equal(run_references(model, x)[0], x)


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
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4), (0, 4), (2, 0)])
def test_fully_connected_without_units(
    load: Load, shape: tuple[int, ...], *, keep: bool, has_bias: bool
) -> None:
    expected = (*shape[:-1], 0) if keep else (math.prod(shape[:-1]), 0)
    model = load(
        "FULLY_CONNECTED",
        (
            shaped(*shape, shape_signature=shape),
            fixed(np.zeros((0, shape[-1]), np.float32)),
            fixed(np.zeros(0, np.float32)) if has_bias else None,
        ),
        shaped(*expected, shape_signature=expected),
        "FullyConnectedOptions",
        KeepNumDims=keep,
    )
    (result,) = CompilationBuilder(model).finish().run(np.ones(shape, np.float32))
    assert result.dtype == np.float32
    assert result.shape == expected


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


@pytest.mark.parametrize("keeps", [False, True])
def test_rows_of_no_elements_give_the_bias(load: Load, *, keeps: bool) -> None:
    inputs = (shaped(2, 0), shaped(3, 0), fixed([1.0, 2.0, 3.0]))
    model = load("FULLY_CONNECTED", inputs, shaped(2, 3), "FullyConnectedOptions", KeepNumDims=keeps)
    empty = np.zeros((2, 0), np.float32), np.zeros((3, 0), np.float32)
    for device in (nd.open_device("cpu"), nd.open_device("reference")):
        (found,) = nd.CompilationBuilder(model, [device]).finish().run(*empty)
        assert found.tolist() == [[1, 2, 3], [1, 2, 3]]

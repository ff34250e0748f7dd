"""Weights and tables with blockwise quantisation, as in language models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.operator import NONE, RELU, random, types

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.row_quantization import quantize_rows
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite
from neurald.runtime.tflite.file.schema import INT2

_ROWS, _LENGTH = 6, 64
_BITS = {"INT4": 4, INT2: 2, "INT8": 8}


def _numbers(type_: str | int) -> Array:
    bits = _BITS[type_]
    return np.random.default_rng(1).integers(-1 << bits - 1, 1 << bits - 1, (_ROWS, _LENGTH))


def _packed(values: Array, bits: int) -> bytes:
    """Packs numbers of `bits` bits, the first of each byte in its lowest bits."""
    parts = (values.reshape(-1, 8 // bits) & ((1 << bits) - 1)) << np.arange(0, 8, bits)
    return bytes(parts.sum(axis=1).astype(np.uint8))


def _scales(block: int) -> Array:
    return np.random.default_rng(2).uniform(0.01, 0.1, (_ROWS, _LENGTH // block)).astype(np.float16)


def _matrix(graph: TfliteGraph, quantized: str | int, block: int, **fields: Any) -> int:
    """Adds a matrix that is quantised by blocks; `fields` are those of its scales."""
    scales = {"shape": (_ROWS, _LENGTH // block), "type_": "FLOAT16", "data": _scales(block), **fields}
    position = graph.tensor(**scales)
    content = _packed(_numbers(quantized), _BITS[quantized])
    return graph.tensor((_ROWS, _LENGTH), quantized, data=content, blocks=(position, block))


def _real(type_: str | int, block: int) -> Array:
    return _numbers(type_) * np.repeat(_scales(block).astype(np.float32), block, axis=1)


def _fully_connected(
    folder: Path,
    block: int,
    fed: tuple[int, ...],
    activation: int = NONE,
    *,
    has_bias: bool = False,
    **fields: Any,
) -> Model:
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor(fed, name="x")
    weights = _matrix(graph, "INT4", block, **fields)
    bias = graph.tensor((_ROWS,), data=np.arange(_ROWS)) if has_bias else -1
    result = graph.tensor((*fed[:-1], _ROWS))
    graph.operator(
        "FULLY_CONNECTED",
        (source, weights, bias),
        (result,),
        "FullyConnectedOptions",
        KeepNumDims=True,
        FusedActivationFunction=activation,
    )
    graph.inputs, graph.outputs = (source,), (result,)
    return load_tflite(file.write(folder / "model.tflite"))


@sweep("block", [32, 16, 64])
@sweep("has_bias", [False, True])
@sweep("activation", [NONE, RELU])
def test_fully_connected(tmp_path: Path, block: int, activation: int, *, has_bias: bool) -> None:
    x = random(2, 3, _LENGTH)
    model = _fully_connected(tmp_path, block, x.shape, activation, has_bias=has_bias)
    assert types(model)[-1] is OperationType.TFLITE_FULLY_CONNECTED
    quantized, scales, zero_points = quantize_rows(x.reshape(-1, _LENGTH), asymmetric=True)
    rows = (quantized.astype(float) - zero_points[:, None]) * scales[:, None]
    expected = (rows @ _real("INT4", block).T).reshape(2, 3, _ROWS)
    expected += np.arange(_ROWS) if has_bias else 0
    expected = np.maximum(expected, 0) if activation == RELU else expected
    for device in (nd.devices()[0], ReferenceDevice()):
        (result,) = nd.CompilationBuilder(model, [device]).finish().run(x)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_scales_in_another_shape(tmp_path: Path) -> None:
    x = random(2, _LENGTH)
    (expected,) = run_references(_fully_connected(tmp_path, 32, x.shape), x)
    (result,) = run_references(_fully_connected(tmp_path, 32, x.shape, shape=(_ROWS * 2,)), x)
    np.testing.assert_array_equal(result, expected)


@sweep("type_", ["INT4", INT2])
@sweep("block", [32, 16])
@sweep("result", ["FLOAT32", "FLOAT16"])
def test_embedding_lookup(tmp_path: Path, type_: str | int, block: int, result: str) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    rows, found = graph.tensor((3,), "INT32", name="rows"), graph.tensor((3, _LENGTH), result)
    graph.operator("EMBEDDING_LOOKUP", (rows, _matrix(graph, type_, block)), (found,))
    graph.inputs, graph.outputs = (rows,), (found,)
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    picked = np.array([5, 0, 2], np.int32)
    expected = _real(type_, block).astype(np.float16 if result == "FLOAT16" else np.float32)[picked]
    for device in (nd.devices()[0], ReferenceDevice()):
        (values,) = nd.CompilationBuilder(model, [device]).finish().run(picked)
        assert values.dtype == expected.dtype
        np.testing.assert_array_equal(values, expected)


@sweep(
    ("fields", "reason"),
    [
        ({"type_": "FLOAT32"}, "FLOAT16 is expected"),
        ({"data": None}, "a constant of FLOAT16"),
        ({"shape": (_ROWS,), "data": _scales(_LENGTH)}, "one for each block"),
    ],
)
def test_invalid_block_scales(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadData, match=reason):
        _fully_connected(tmp_path, 32, (2, _LENGTH), **fields)


@sweep(
    ("scales", "length", "details", "reason"),
    [
        (99, 32, 2, "there are 4"),
        (-1, 32, 2, "there are 4"),
        (0, 0, 2, "does not give their length"),
        (0, -32, 2, "does not give their length"),
        (0, 33, 2, "one for each block"),
        (0, 32, 3, "kind 3"),
    ],
)
def test_invalid_quantization_details(
    tmp_path: Path, scales: int, length: int, details: int, reason: str
) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.tensor((_ROWS, 2), "FLOAT16", data=_scales(32))
    source, result = graph.tensor((2, _LENGTH)), graph.tensor((2, _ROWS))
    content = _packed(_numbers("INT4"), 4)
    weights = graph.tensor((_ROWS, _LENGTH), "INT4", data=content, blocks=(scales, length), details=details)
    graph.operator("FULLY_CONNECTED", (source, weights), (result,), "FullyConnectedOptions")
    graph.inputs, graph.outputs = (source,), (result,)
    with pytest.raises(BadData, match=reason):
        load_tflite(file.write(tmp_path / "model.tflite"))


@sweep("code", ["DEQUANTIZE", "NEG"])
def test_operators_without_blockwise_quantization(tmp_path: Path, code: str) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    result = graph.tensor((_ROWS, _LENGTH))
    graph.operator(code, (_matrix(graph, "INT4", 32),), (result,))
    graph.outputs = (result,)
    with pytest.raises(BadData, match="quantised by blocks; only"):
        load_tflite(file.write(tmp_path / "model.tflite"))


def test_inside_a_composite(tmp_path: Path) -> None:
    """Its tensors are added to the caller, where the scales have other indexes."""
    file = TfliteModel()
    graph, inner = file.subgraph(), file.subgraph()
    graph.tensor((7,), "FLOAT16", data=np.ones(7))
    source, result = graph.tensor((2, _LENGTH), name="x"), graph.tensor((2, _ROWS))
    graph.operator(
        "STABLEHLO_COMPOSITE",
        (source,),
        (result,),
        "StableHLOCompositeOptions",
        DecompositionSubgraphIndex=1,
    )
    graph.inputs, graph.outputs = (source,), (result,)
    given, found = inner.tensor((2, _LENGTH)), inner.tensor((2, _ROWS))
    inner.operator("FULLY_CONNECTED", (given, _matrix(inner, "INT4", 32)), (found,), "FullyConnectedOptions")
    inner.inputs, inner.outputs = (given,), (found,)
    x = random(2, _LENGTH)
    (values,) = run_references(load_tflite(file.write(tmp_path / "model.tflite")), x)
    (expected,) = run_references(_fully_connected(tmp_path, 32, x.shape), x)
    np.testing.assert_array_equal(values, expected)

"""Reductions to a scalar where the shapes are not all known when the file is read."""

from pathlib import Path
from typing import Any

import numpy as np
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.operator import random

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

_NUMBERS: dict[str, Any] = {
    "MEAN": np.mean,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_PROD": np.prod,
    "SUM": np.sum,
}
_TRUTHS: dict[str, Any] = {"REDUCE_ALL": np.all, "REDUCE_ANY": np.any}
_TYPES = ("FLOAT32", "INT32", "INT64", "INT8", "UINT8", "INT16")
CASES = [(code, type_) for code in _NUMBERS for type_ in _TYPES] + [(code, "BOOL") for code in _TRUTHS]
DTYPES = {
    "FLOAT32": "f4",
    "INT32": "i4",
    "INT64": "i8",
    "INT8": "i1",
    "UINT8": "u1",
    "INT16": "i2",
    "BOOL": "?",
}


def _add_reduction(graph: TfliteGraph, code: str, type_: str, rank: int) -> None:
    """Fills a subgraph: all axes of an input of open lengths are reduced, and none is kept."""
    fields: dict[str, Any] = {"scale": 1.0} if type_ in ("INT8", "UINT8", "INT16") else {}
    source = graph.tensor((1,) * rank, type_, name="x", shape_signature=(-1,) * rank, **fields)
    axes = graph.tensor((rank,), "INT32", data=list(range(rank)))
    result = graph.tensor((), type_, name="y", **fields)
    graph.operator(code, (source, axes), (result,), "ReducerOptions", KeepDims=False)
    graph.inputs, graph.outputs = (source,), (result,)


def _values(type_: str, rank: int) -> Array:
    values = np.abs(random(*(2, 3, 1, 2, 1)[:rank])) // 4
    return (values > 0 if type_ == "BOOL" else values + 1).astype(DTYPES[type_])


def _expect(result: Array, code: str, values: Array) -> None:
    expected = {**_NUMBERS, **_TRUTHS}[code](values)
    assert result.shape == ()
    assert result.dtype == values.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=0 if values.dtype.kind == "f" else 1)


@sweep(("code", "type_"), CASES)
@sweep("rank", [1, 2, 5])
def test_inputs_of_unknown_lengths(tmp_path: Path, code: str, type_: str, rank: int) -> None:
    file = TfliteModel()
    _add_reduction(file.subgraph(), code, type_, rank)
    values = _values(type_, rank)
    (result,) = run_references(load_tflite(file.write(tmp_path / "model.tflite")), values)
    _expect(result, code, values)


@sweep(("code", "type_"), CASES)
def test_inside_a_branch(tmp_path: Path, code: str, type_: str) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    fields: dict[str, Any] = {"scale": 1.0} if type_ in ("INT8", "UINT8", "INT16") else {}
    condition = graph.tensor((), "BOOL", name="p")
    source = graph.tensor((1, 1), type_, name="x", shape_signature=(-1, -1), **fields)
    result = graph.tensor((), type_, name="y", **fields)
    graph.operator(
        "IF", (condition, source), (result,), "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2
    )
    graph.inputs, graph.outputs = (condition, source), (result,)
    for _ in range(2):
        _add_reduction(file.subgraph(), code, type_, 2)
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    values = _values(type_, 2)
    (found,) = nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run(np.array(True), values)
    _expect(found, code, values)

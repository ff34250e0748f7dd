"""The models that LiteRT's build makes for its interpreter_test.py."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from support.tflite.builder import TfliteModel


def write_models() -> Path:
    """Writes the models to `testdata` in a new folder; returns the folder."""
    folder = Path(tempfile.mkdtemp(prefix="litert-data-"))
    data = folder / "testdata"
    data.mkdir()
    for name, kind, dtype in (("float", "FLOAT32", np.float32), ("uint8", "UINT8", np.uint8)):
        _permutation(kind, dtype).write(data / f"permute_{name}.tflite")
    _gathered_strings().write(data / "gather_string.tflite")
    _one_string().write(data / "gather_string_0d.tflite")
    _two_signatures().write(data / "two_signatures.tflite")
    return folder


def _permutation(kind: str, dtype: type[np.generic]) -> TfliteModel:
    """Builds a layer that reverses four numbers."""
    file = TfliteModel()
    graph = file.subgraph()
    given: dict[str, Any] = {} if kind == "FLOAT32" else {"scale": (1.0,), "zero_point": (0,)}
    source = graph.tensor((1, 4), kind, name="input", **given)
    weights = graph.tensor((4, 4), kind, name="weights", data=np.eye(4)[::-1].astype(dtype), **given)
    result = graph.tensor((1, 4), kind, name="output", **given)
    graph.operator("FULLY_CONNECTED", (source, weights, -1), (result,), "FullyConnectedOptions")
    graph.inputs, graph.outputs = (source,), (result,)
    return file


def _gathered_strings() -> TfliteModel:
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((10,), "STRING", name="input")
    indices = graph.tensor((3,), "INT64", name="indices")
    result = graph.tensor((3,), "STRING", name="output")
    graph.operator("GATHER", (source, indices), (result,), "GatherOptions", Axis=0)
    graph.inputs, graph.outputs = (source, indices), (result,)
    return file


def _one_string() -> TfliteModel:
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((), "STRING", name="input", has_rank=True)
    lengths = graph.tensor((1,), "INT32", name="lengths", data=np.array([1], np.int32))
    result = graph.tensor((1,), "STRING", name="output")
    graph.operator("RESHAPE", (source, lengths), (result,), "ReshapeOptions")
    graph.inputs, graph.outputs = (source,), (result,)
    return file


def _two_signatures() -> TfliteModel:
    file = TfliteModel()
    for number, (name, operator) in enumerate((("add", "Add"), ("multiply", "Mul"))):
        graph = file.subgraph()
        source, result = graph.tensor((1,), name=f"{name}_x:0"), graph.tensor((1,), name="y")
        two = graph.tensor((1,), name="two", data=[2.0])
        graph.operator(operator.upper(), (source, two), (result,), f"{operator}Options")
        graph.inputs, graph.outputs = (source,), (result,)
        file.signature(name, {"x": source}, {"output_0": result}, number)
    return file

"""Small models for the execution service, and a repository of them."""

from pathlib import Path

import numpy as np
from support.tflite.builder import TfliteModel

#: The protocol's types, and TFLite's names for them.
TYPES = {
    "BOOL": "BOOL",
    "UINT8": "UINT8",
    "UINT16": "UINT16",
    "UINT32": "UINT32",
    "UINT64": "UINT64",
    "INT8": "INT8",
    "INT16": "INT16",
    "INT32": "INT32",
    "INT64": "INT64",
    "FP16": "FLOAT16",
    "FP32": "FLOAT32",
    "FP64": "FLOAT64",
    "BYTES": "STRING",
}


def reshaping(kind: str = "FLOAT32", count: int = 4) -> bytes:
    """Returns a model that gives its input x of shape (1, count) as y of shape (count,)."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, count), kind, name="x")
    shape = graph.tensor((1,), "INT32", data=np.array([count], np.int32))
    y = graph.tensor((count,), kind, name="y")
    graph.operator("RESHAPE", (x, shape), (y,), "ReshapeOptions", NewShape=[count])
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def passing(kind: str) -> bytes:
    """Returns a model that gives its input x of shape (n, 3) as y of shape (n, 3, 1)."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 3), kind, name="x", shape_signature=(-1, 3))
    last = graph.tensor((), "INT32", data=np.array(-1, np.int32))
    y = graph.tensor((1, 3, 1), kind, name="y", shape_signature=(-1, 3, 1))
    graph.operator("EXPAND_DIMS", (x, last), (y,), "ExpandDimsOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def two_texts(count: int = 4) -> bytes:
    """Returns a model that gives its strings a and b of shape (1, count) as c and d of (count,)."""
    file = TfliteModel()
    graph = file.subgraph()
    shape = graph.tensor((1,), "INT32", data=np.array([count], np.int32))
    inputs = tuple(graph.tensor((1, count), "STRING", name=name) for name in "ab")
    outputs = tuple(graph.tensor((count,), "STRING", name=name) for name in "cd")
    for x, y in zip(inputs, outputs, strict=True):
        graph.operator("RESHAPE", (x, shape), (y,), "ReshapeOptions", NewShape=[count])
    graph.inputs, graph.outputs = inputs, outputs
    return file.build()


def one_row() -> bytes:
    """Returns a model that gives its input x of shape (1, n), for any n, as y of that shape."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 1), name="x", shape_signature=(1, -1))
    shape = graph.tensor((2,), "INT32", data=np.array([1, -1], np.int32))
    y = graph.tensor((1, 1), name="y", shape_signature=(1, -1))
    graph.operator("RESHAPE", (x, shape), (y,), "ReshapeOptions", NewShape=[1, -1])
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def dense(inputs: int = 4, outputs: int = 3, seed: int = 0) -> bytes:
    """Returns a model of one fully connected layer, x (1, inputs) to y (1, outputs)."""
    random = np.random.default_rng(seed)
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, inputs), name="x")
    w = graph.tensor((outputs, inputs), data=random.standard_normal((outputs, inputs)).astype(np.float32))
    y = graph.tensor((1, outputs), name="y")
    graph.operator("FULLY_CONNECTED", (x, w), (y,), "FullyConnectedOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def addition(kind: str = "INT32", count: int = 4) -> bytes:
    """Returns a model with two inputs and two outputs: sum = a + b, difference = a - b."""
    file = TfliteModel()
    graph = file.subgraph()
    a, b = (graph.tensor((1, count), kind, name=name) for name in "ab")
    total = graph.tensor((1, count), kind, name="sum")
    difference = graph.tensor((1, count), kind, name="difference")
    graph.operator("ADD", (a, b), (total,), "AddOptions")
    graph.operator("SUB", (a, b), (difference,), "SubOptions")
    graph.inputs, graph.outputs = (a, b), (total, difference)
    return file.build()


def open_addition() -> bytes:
    """Returns a model that doubles x, whose first length is open."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 3), name="x", shape_signature=(-1, 3))
    y = graph.tensor((1, 3), name="y", shape_signature=(-1, 3))
    graph.operator("ADD", (x, x), (y,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def centred(kind: str = "FLOAT32", axis: int = 0) -> bytes:
    """Returns a model that subtracts the largest element along an axis from x (n, 3)."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 3), kind, name="x", shape_signature=(-1, 3))
    axes = graph.tensor((1,), "INT32", data=np.array([axis], np.int32))
    largest = graph.tensor(
        (1, 3) if axis == 0 else (1, 1), kind, shape_signature=(1, 3) if axis == 0 else (-1, 1)
    )
    y = graph.tensor((1, 3), kind, name="y", shape_signature=(-1, 3))
    graph.operator("REDUCE_MAX", (x, axes), (largest,), "ReducerOptions", KeepDims=True)
    graph.operator("SUB", (x, largest), (y,), "SubOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def random_numbers() -> bytes:
    """Returns a model that adds random numbers to x (n, 3)."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 3), name="x", shape_signature=(-1, 3))
    shape = graph.tensor((2,), "INT32")
    numbers = graph.tensor((1, 3), shape_signature=(-1, 3))
    y = graph.tensor((1, 3), name="y", shape_signature=(-1, 3))
    graph.operator("SHAPE", (x,), (shape,), "ShapeOptions", OutType=2)
    graph.operator("RANDOM_UNIFORM", (shape,), (numbers,), "RandomOptions", Seed=0, Seed2=0)
    graph.operator("ADD", (x, numbers), (y,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def finding(count: int = 8) -> bytes:
    """Returns a model that finds the places where x (1, count) is true; how many depends on x."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, count), "BOOL", name="x")
    y = graph.tensor((1, 2), "INT64", name="y", shape_signature=(-1, 2))
    graph.operator("WHERE", (x,), (y,), "WhereOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    return file.build()


def counting() -> bytes:
    """Returns a model that counts from 0 to x, one by one, so that x decides how long it runs."""
    file = TfliteModel()
    graph, condition, body = file.subgraph(), file.subgraph(), file.subgraph()
    limit = graph.tensor((), "INT32", name="x")
    start = graph.tensor((), "INT32", data=np.array(0, np.int32))
    last, kept = graph.tensor((), "INT32", name="y"), graph.tensor((), "INT32", name="limit")
    graph.operator(
        "WHILE", (start, limit), (last, kept), "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2
    )
    graph.inputs, graph.outputs = (limit,), (last,)
    at, until = condition.tensor((), "INT32"), condition.tensor((), "INT32")
    goes_on = condition.tensor((), "BOOL")
    condition.operator("LESS", (at, until), (goes_on,), "LessOptions")
    condition.inputs, condition.outputs = (at, until), (goes_on,)
    before, same = body.tensor((), "INT32"), body.tensor((), "INT32")
    one = body.tensor((), "INT32", data=np.array(1, np.int32))
    after = body.tensor((), "INT32")
    body.operator("ADD", (before, one), (after,), "AddOptions")
    body.inputs, body.outputs = (before, same), (after, same)
    return file.build()


def repeating(count: int) -> bytes:
    """Returns a model that adds 1 to x (n, 2) this number of times, one after the other."""
    file = TfliteModel()
    graph, condition, body = file.subgraph(), file.subgraph(), file.subgraph()
    rows = (-1, 2)
    x, y = (graph.tensor((1, 2), name=name, shape_signature=rows) for name in "xy")
    start = graph.tensor((), "INT32", data=np.array(0, np.int32))
    graph.operator(
        "WHILE",
        (start, x),
        (graph.tensor((), "INT32"), y),
        "WhileOptions",
        CondSubgraphIndex=1,
        BodySubgraphIndex=2,
    )
    graph.inputs, graph.outputs = (x,), (y,)
    at, until = condition.tensor((), "INT32"), condition.tensor((), "INT32", data=np.array(count, np.int32))
    goes_on = condition.tensor((), "BOOL")
    condition.operator("LESS", (at, until), (goes_on,), "LessOptions")
    condition.inputs, condition.outputs = (at, condition.tensor((1, 2), shape_signature=rows)), (goes_on,)
    before, value = body.tensor((), "INT32"), body.tensor((1, 2), shape_signature=rows)
    after, more = body.tensor((), "INT32"), body.tensor((1, 2), shape_signature=rows)
    body.operator(
        "ADD", (before, body.tensor((), "INT32", data=np.array(1, np.int32))), (after,), "AddOptions"
    )
    body.operator("ADD", (value, body.tensor((), data=np.array(1, np.float32))), (more,), "AddOptions")
    body.inputs, body.outputs = (before, value), (after, more)
    return file.build()


def write_model(repository: Path, name: str, *versions: bytes, config: str = "", first: int = 1) -> Path:
    """Writes a model in Triton's layout; returns its folder."""
    folder = repository / name
    folder.mkdir(parents=True, exist_ok=True)
    if config:
        (folder / "config.pbtxt").write_text(config)
    for number, content in enumerate(versions, first):
        (folder / str(number)).mkdir(exist_ok=True)
        (folder / str(number) / "model.tflite").write_bytes(content)
    return folder


def write_plain(repository: Path, name: str, content: bytes) -> Path:
    """Writes a model as a plain file."""
    path = repository / f"{name}.tflite"
    path.write_bytes(content)
    return path

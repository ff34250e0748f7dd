"""Small `.tflite` files for the interface of LiteRT."""

import numpy as np
from support.tflite.builder import TfliteModel
from support.tflite.resources import assign, constant, initialise, plus, read, variable


def sums(length: int | None = 3) -> TfliteModel:
    """Builds `between = x + y`, `z = between + [3]`, of any number of rows of that length.

    A length of None leaves both dimensions to be resized without being declared open.
    """
    file = TfliteModel()
    graph = file.subgraph()
    shape, signature = ((2, length), (-1, length)) if length else ((2, 3), None)
    x, y, between, z = (
        graph.tensor(shape, name=name, shape_signature=signature) for name in ("x", "y", "between", "z")
    )
    constants = graph.tensor((1,), name="c", data=[3.0])
    graph.operator("ADD", (x, y), (between,), "AddOptions")
    graph.operator("ADD", (between, constants), (z,), "AddOptions")
    graph.inputs, graph.outputs = (x, y), (z,)
    return file


def two_signatures() -> TfliteModel:
    """Builds the signatures `add` (z = a + 1) and `double` (w = b + b), each in a subgraph."""
    file = TfliteModel()
    first, second = file.subgraph(), file.subgraph()
    a = first.tensor((1,), name="add_a", shape_signature=(-1,))
    z = plus(first, a, constant(first, [1.0]), 1)
    first.inputs, first.outputs = (a,), (z,)
    b = second.tensor((1,), name="double_b", shape_signature=(-1,))
    w = plus(second, b, b, 1)
    second.inputs, second.outputs = (b,), (w,)
    file.signature("add", {"a": a}, {"z": z})
    file.signature("double", {"b": b}, {"w": w}, 1)
    return file


def counter() -> TfliteModel:
    """Builds a variable, 5 at first, to which the input is added: signatures `add` and `get`."""
    file = TfliteModel()
    adds, gets = file.subgraph(), file.subgraph()
    for graph in (adds, gets):
        initialise(file, graph, total=np.array([5], np.float32))
    x = adds.tensor((1,), name="x")
    handle = variable(adds, "total")
    total = plus(adds, read(adds, handle, 1), x, 1)
    assign(adds, handle, total)
    adds.inputs, adds.outputs = (x,), (total,)
    value = read(gets, variable(gets, "total"), 1)
    gets.outputs = (value,)
    file.signature("add", {"x": x}, {"total": total})
    file.signature("get", {}, {"total": value}, 1)
    return file


def texts() -> TfliteModel:
    """Builds `z`, the second and the first of the strings `x`."""
    file = TfliteModel()
    graph = file.subgraph()
    x, z = graph.tensor((4,), "STRING", name="x"), graph.tensor((2,), "STRING", name="z")
    graph.operator("GATHER", (x, constant(graph, np.array([1, 0], np.int32), "INT32")), (z,), "GatherOptions")
    graph.inputs, graph.outputs = (x,), (z,)
    return file


def composite() -> TfliteModel:
    """Builds `z = twice(x)`, a composite that computes `inner = x + x` and `inner + inner`."""
    file = TfliteModel()
    graph, body = file.subgraph(), file.subgraph()
    x, z = graph.tensor((3,), name="x"), graph.tensor((3,), name="z")
    graph.operator(
        "STABLEHLO_COMPOSITE", (x,), (z,), "StableHLOCompositeOptions", DecompositionSubgraphIndex=1
    )
    graph.inputs, graph.outputs = (x,), (z,)
    given, inner, result = (body.tensor((3,), name=name) for name in ("given", "inner", "result"))
    body.operator("ADD", (given, given), (inner,), "AddOptions")
    body.operator("ADD", (inner, inner), (result,), "AddOptions")
    body.inputs, body.outputs = (given,), (result,)
    return file

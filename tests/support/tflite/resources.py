"""Parts of `.tflite` files with several subgraphs and variables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.tflite.builder import TfliteGraph, TfliteModel


def constant(graph: TfliteGraph, value: Any, type_: str = "FLOAT32", **fields: Any) -> int:
    """Adds a constant tensor."""
    return graph.tensor(np.shape(value), type_, data=value, **fields)


def variable(graph: TfliteGraph, name: str, container: str = "") -> int:
    """Adds the handle of a resource variable."""
    handle = graph.tensor((), "RESOURCE")
    graph.operator("VAR_HANDLE", (), (handle,), "VarHandleOptions", Container=container, SharedName=name)
    return handle


def read(graph: TfliteGraph, handle: int, *shape: int, **fields: Any) -> int:
    """Adds a read of a variable."""
    value = graph.tensor(shape, **fields)
    graph.operator("READ_VARIABLE", (handle,), (value,), "ReadVariableOptions")
    return value


def assign(graph: TfliteGraph, handle: int, value: int) -> None:
    """Adds an assignment to a variable."""
    graph.operator("ASSIGN_VARIABLE", (handle, value), (), "AssignVariableOptions")


def plus(graph: TfliteGraph, first: int, second: int, *shape: int, **fields: Any) -> int:
    """Adds a sum."""
    result = graph.tensor(shape, **fields)
    graph.operator("ADD", (first, second), (result,), "AddOptions")
    return result


def branch(
    graph: TfliteGraph, inputs: tuple[int, ...], outputs: tuple[int, ...], then: int, other: int
) -> None:
    """IF."""
    graph.operator("IF", inputs, outputs, "IfOptions", ThenSubgraphIndex=then, ElseSubgraphIndex=other)


def loop(
    graph: TfliteGraph, inputs: tuple[int, ...], outputs: tuple[int, ...], condition: int, body: int
) -> None:
    """WHILE."""
    graph.operator(
        "WHILE", inputs, outputs, "WhileOptions", CondSubgraphIndex=condition, BodySubgraphIndex=body
    )


def initialise(file: TfliteModel, graph: TfliteGraph, **values: Any) -> None:
    """Adds CALL_ONCE of a subgraph that assigns float32 constants to variables, by name."""
    graph.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=len(file.graphs))
    inner = file.subgraph()
    for name, value in values.items():
        assign(inner, variable(inner, name), constant(inner, value))


def write_own_initialisations(folder: Path, second: Sequence[float]) -> Path:
    """Writes a file whose two signatures initialise a variable each by a subgraph of its own.

    `train` adds its input `x` to the variable, which it begins with [1, 2]; `infer` reads the sum.

    Args:
        folder: of the file.
        second: the values that `infer` begins with.
    """
    file = TfliteModel()
    train, infer = file.subgraph(), file.subgraph()
    initialise(file, train, v=[1, 2])
    initialise(file, infer, v=second)
    for name, graph in (("train", train), ("infer", infer)):
        x, handle = graph.tensor((2,)), variable(graph, "v")
        total = plus(graph, read(graph, handle, 2), x, 2)
        if graph is train:
            assign(graph, handle, total)
        graph.inputs, graph.outputs = (x,), (total,)
        file.signature(name, {"x": x}, {"y": total}, file.graphs.index(graph))
    return file.write(folder / "own.tflite")


def counts_up_to(file: TfliteModel, limit: int, *others: dict[str, Any]) -> TfliteGraph:
    """Creates the condition of a loop: the first value, an INT32, is less than `limit`."""
    graph = file.subgraph()
    count, holds = graph.tensor((), "INT32"), graph.tensor((), "BOOL")
    graph.operator("LESS", (count, constant(graph, limit, "INT32")), (holds,), "LessOptions")
    graph.inputs, graph.outputs = (count, *(graph.tensor(**fields) for fields in others)), (holds,)
    return graph


def stepped(graph: TfliteGraph) -> tuple[int, int]:
    """Adds the counter of a loop, and its value after an iteration."""
    count = graph.tensor((), "INT32")
    return count, plus(graph, count, constant(graph, 1, "INT32"), type_="INT32")

"""Results whose number of rows follows from constants are as long as they, wherever they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.operations.machinery.call import Array

_SHAPE, _RESULT = (5, 4), (4, 4)
#: Returns a constant of a type, which the graph may have to compute.
Constant = Callable[[TfliteGraph, Sequence[int], str], int]
#: Adds an operation with four rows as result to a graph with the operand of shape `_SHAPE`.
Build = Callable[[TfliteGraph, int, Constant], int]

#: The number of a type in a file, and its dtype.
_TYPES: dict[str, tuple[int, type[Any]]] = {
    "INT32": (2, np.int32),
    "INT64": (4, np.int64),
    "BOOL": (6, np.bool_),
}


def _given(graph: TfliteGraph, values: Sequence[int], kind: str) -> int:
    array = np.array(values, _TYPES[kind][1])
    return graph.tensor(array.shape, kind, data=array)


def _cast(graph: TfliteGraph, values: Sequence[int], kind: str) -> int:
    other = "INT64" if kind == "INT32" else "INT32"
    source, result = _given(graph, values, other), graph.tensor((len(values),), kind)
    kinds = _TYPES[other][0], _TYPES[kind][0]
    graph.operator("CAST", [source], [result], "CastOptions", InDataType=kinds[0], OutDataType=kinds[1])
    return result


def _sums(graph: TfliteGraph, source: int, constant: Constant) -> int:
    result = graph.tensor(_RESULT)
    graph.operator("SEGMENT_SUM", [source, constant(graph, [0, 0, 1, 2, 3], "INT32")], [result])
    return result


def _gathered(graph: TfliteGraph, source: int, places: int) -> int:
    result = graph.tensor(_RESULT)
    graph.operator("GATHER", [source, places], [result], "GatherOptions", Axis=0, BatchDims=0)
    return result


def _distinct(graph: TfliteGraph, source: int, constant: Constant) -> int:
    found, numbers = graph.tensor((4,), "INT32"), graph.tensor((5,), "INT32")
    values = constant(graph, [0, 0, 1, 2, 3], "INT32")
    graph.operator("UNIQUE", [values], [found, numbers], "UniqueOptions", IdxOutType=2)
    return _gathered(graph, source, found)


def _selected(graph: TfliteGraph, source: int, constant: Constant) -> int:
    found, places = graph.tensor((4, 1), "INT64"), graph.tensor((4,), "INT64")
    graph.operator("WHERE", [constant(graph, [1, 0, 1, 1, 1], "BOOL")], [found])
    graph.operator("RESHAPE", [found, _given(graph, [4], "INT32")], [places])
    return _gathered(graph, source, places)


def _straight(build: Build, constant: Constant) -> nd.Model:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = [graph.tensor((1,), "BOOL"), graph.tensor(_SHAPE)]
    graph.outputs = [build(graph, graph.inputs[1], constant)]
    return nd.load_tflite(file.build())


def _branch(build: Build, constant: Constant) -> nd.Model:
    file = TfliteModel()
    graph, then, otherwise = (file.subgraph() for _ in range(3))
    graph.inputs, graph.outputs = [graph.tensor((1,), "BOOL"), graph.tensor(_SHAPE)], [graph.tensor(_RESULT)]
    then.inputs = [then.tensor(_SHAPE)]
    then.outputs = [build(then, then.inputs[0], constant)]
    otherwise.inputs, otherwise.outputs = [otherwise.tensor(_SHAPE)], [otherwise.tensor(_RESULT)]
    begin, size = _given(otherwise, [1, 0], "INT32"), _given(otherwise, _RESULT, "INT32")
    otherwise.operator("SLICE", [otherwise.inputs[0], begin, size], otherwise.outputs)
    options: Any = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}
    graph.operator("IF", graph.inputs, graph.outputs, "IfOptions", **options)
    return nd.load_tflite(file.build())


def _loop(build: Build, constant: Constant) -> nd.Model:
    file = TfliteModel()
    graph, condition, body = (file.subgraph() for _ in range(3))
    for each in (graph, condition, body):
        each.inputs = [each.tensor((1,), "BOOL"), each.tensor(_SHAPE), each.tensor(_RESULT)]
    condition.outputs = [condition.inputs[0]]
    ends = body.tensor((1,), "BOOL")
    body.operator("LOGICAL_NOT", [body.inputs[0]], [ends])
    body.outputs = [ends, body.inputs[1], build(body, body.inputs[1], constant)]
    results = [graph.tensor((1,), "BOOL"), graph.tensor(_SHAPE), graph.tensor(_RESULT)]
    begin = graph.tensor(_RESULT, data=np.zeros(_RESULT, np.float32))
    given, graph.inputs = [*graph.inputs[:2], begin], graph.inputs[:2]
    options: Any = {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}
    graph.operator("WHILE", given, results, "WhileOptions", **options)
    graph.outputs = results[2:]
    return nd.load_tflite(file.build())


def _run_within(compilation: nd.Compilation, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """Runs a model with an output in the middle of other bytes; returns it, and the other bytes."""
    size, margin = 4 * int(np.prod(_RESULT)), 1024
    memory = np.full(size + 2 * margin, 0x5A, np.uint8)
    output = memory[margin : margin + size].view(np.float32).reshape(_RESULT)
    execution = nd.Execution(compilation)
    for number, array in enumerate(inputs):
        execution.set_input(number, array)
    execution.set_output(0, output)
    execution.compute()
    return output, np.concatenate((memory[:margin], memory[margin + size :]))


@pytest.mark.parametrize("place", [_straight, _branch, _loop])
@pytest.mark.parametrize("constant", [_given, _cast])
@pytest.mark.parametrize("build", [_sums, _distinct, _selected])
def test_only_their_rows_are_written(
    build: Build, constant: Constant, place: Callable[[Build, Constant], nd.Model], compiles_here: None
) -> None:
    model = place(build, constant)
    inputs = [np.array([True]), np.random.default_rng(0).standard_normal(_SHAPE).astype(np.float32)]
    wanted = nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run(*inputs)[0]
    found, around = _run_within(nd.CompilationBuilder(model, [CpuDevice()]).finish(), inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert (around == 0x5A).all()


def test_rows_that_are_known_for_some_lengths(caplog: pytest.LogCaptureFixture) -> None:
    """A list without elements leaves constants, whose distinct elements the program counts."""
    file = TfliteModel()
    graph = file.subgraph()
    given = graph.tensor((1,), "INT32", shape_signature=(-1,))
    lengths = graph.tensor((2,), "INT32")
    joined, found, filled = (
        graph.tensor((1,) * rank, "INT32", shape_signature=(-1,) * rank) for rank in (1, 1, 2)
    )
    numbers = graph.tensor((1,), "INT32", shape_signature=(-1,))
    constant, seven = _given(graph, [6, 8, 9, 6], "INT32"), graph.tensor((), "INT32", data=7, has_rank=True)
    graph.operator("CONCATENATION", [given, constant], [joined], "ConcatenationOptions", Axis=0)
    graph.operator("UNIQUE", [joined], [found, numbers], "UniqueOptions", IdxOutType=2)
    graph.operator("FILL", [lengths, seven], [filled], "FillOptions")
    graph.inputs, graph.outputs = [given, lengths], [found, numbers, filled]
    model = nd.load_tflite(file.build())
    runs = [
        nd.CompilationBuilder(model, [device]).finish().run for device in (CpuDevice(), ReferenceDevice())
    ]
    for values in ([], [8, 1, 1], [], [5]):
        arrays = np.array(values, np.int32), np.array([2, 3], np.int32)
        for one, other in zip(*(run(*arrays) for run in runs), strict=True):
            np.testing.assert_array_equal(one, other)
    assert "on references" not in caplog.text

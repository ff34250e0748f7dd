"""Models that compute with the lengths of their open inputs are compiled once for all of them."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice

Array = np.ndarray[Any, Any]
COLUMNS = 4
#: Adds operators to a graph, given its input and the input's shape; returns its outputs.
Build = Callable[[TfliteGraph, int, int], Sequence[int]]


def constant(graph: TfliteGraph, values: Any) -> int:
    array = np.array(values, np.int32)
    return graph.tensor(array.shape, "INT32", data=array, has_rank=True)


def scalar(graph: TfliteGraph, kind: str = "INT32") -> int:
    return graph.tensor((), kind, has_rank=True)


def rows(graph: TfliteGraph, shape: int) -> int:
    """Adds the number of rows."""
    count = scalar(graph)
    graph.operator("GATHER", [shape, constant(graph, 0)], [count], "GatherOptions", Axis=0, BatchDims=0)
    return count


def as_output(graph: TfliteGraph, _: int, shape: int) -> Sequence[int]:
    return [shape, rows(graph, shape)]


def as_several(graph: TfliteGraph, _: int, shape: int) -> Sequence[int]:
    stacked, product = graph.tensor((2, 2), "INT32"), scalar(graph)
    graph.operator("PACK", [shape, shape], [stacked], "PackOptions", ValuesCount=2, Axis=0)
    graph.operator("REDUCE_PROD", [shape, constant(graph, [0])], [product], "ReducerOptions", KeepDims=False)
    return [stacked, product]


def as_limit(graph: TfliteGraph, _: int, shape: int) -> Sequence[int]:
    """A mask, as for sequences of different lengths, and a minimum."""
    count = rows(graph, shape)
    mask, least = graph.tensor((6,), "BOOL"), graph.tensor((3,), "INT32")
    graph.operator("LESS", [constant(graph, range(6)), count], [mask])
    graph.operator("MINIMUM", [constant(graph, (5, 50, 500)), count], [least], "MaximumMinimumOptions")
    return [mask, least]


def as_divisor(graph: TfliteGraph, value: int, shape: int) -> Sequence[int]:
    divisor, longer = scalar(graph, "FLOAT32"), scalar(graph, "INT64")
    quotient = graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    count = rows(graph, shape)
    graph.operator("CAST", [count], [divisor], "CastOptions", InDataType=2, OutDataType=0)
    graph.operator("CAST", [count], [longer], "CastOptions", InDataType=2, OutDataType=4)
    graph.operator("DIV", [value, divisor], [quotient], "DivOptions")
    return [quotient, longer]


def as_index(graph: TfliteGraph, value: int, shape: int) -> Sequence[int]:
    """The last row."""
    last, row = scalar(graph), graph.tensor((COLUMNS,), "FLOAT32")
    graph.operator("SUB", [rows(graph, shape), constant(graph, 1)], [last], "SubOptions")
    graph.operator("GATHER", [value, last], [row], "GatherOptions", Axis=0, BatchDims=0)
    return [row]


@sweep("build", [as_output, as_several, as_limit, as_divisor, as_index])
def test_lengths_are_numbers(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    shape = graph.tensor((2,), "INT32")
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    graph.inputs, graph.outputs = [value], list(build(graph, value, shape))
    model = nd.load_tflite(file.build())
    compiled, references = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    generator = np.random.default_rng(3)

    def compare(length: int) -> None:
        given: Array = generator.random((length, COLUMNS), np.float32)
        for found, expected in zip(compiled.run(given), references.run(given), strict=True):
            np.testing.assert_array_equal(found, expected)

    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for length in (3, 9, 700, 2):
            compare(length)
    assert caplog.text.count("operations for lengths") == 1
    assert "operations as" not in caplog.text
    compare(1)


@sweep("most", [40, 20])
def test_a_constant_limits_the_lengths(most: int, caplog: pytest.LogCaptureFixture) -> None:
    """The rows of a table are added to as many rows, as positions are encoded."""
    file = TfliteModel()
    graph = file.subgraph()
    table = np.arange(most * COLUMNS, dtype=np.float32).reshape(most, COLUMNS)
    value, taken, total = (
        graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS)) for _ in range(3)
    )
    shape, positions = graph.tensor((2,), "INT32"), graph.tensor(table.shape, "FLOAT32", data=table)
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    limits = [constant(graph, (0, 0)), shape, constant(graph, (1, 1))]
    graph.operator("STRIDED_SLICE", [positions, *limits], [taken], "StridedSliceOptions")
    graph.operator("ADD", [value, taken], [total], "AddOptions")
    graph.inputs, graph.outputs = [value], [total]
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for length in (3, 9, most, 2):
            (found,) = compilation.run(np.ones((length, COLUMNS), np.float32))
            np.testing.assert_array_equal(found, table[:length] + 1)
    assert caplog.text.count("operations for lengths") == 1
    assert "operations as" not in caplog.text
    with pytest.raises(nd.Error, match="cannot broadcast"):
        compilation.run(np.ones((most + 1, COLUMNS), np.float32))

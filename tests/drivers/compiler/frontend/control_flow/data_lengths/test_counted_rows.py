"""Rows whose number follows from data are counted, and then serve any operation."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.structured_model import LengthUpdate, each_item
from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.operations.machinery.call import Array

_ROWS, _COLUMNS = 12, 3
_generator = np.random.default_rng(7)
#: Adds operations on a condition, segments and a matrix to a graph, and returns the results.
Build = Callable[[TfliteGraph, Sequence[int]], Sequence[int]]


def _constant(graph: TfliteGraph, value: Any) -> int:
    array = np.array(value, np.int32)
    return graph.tensor(array.shape, "INT32", data=array, has_rank=not array.shape)


def _rows(graph: TfliteGraph, *others: int, kind: str = "FLOAT32") -> int:
    return graph.tensor((1, *others), kind, shape_signature=(-1, *others))


def _places(graph: TfliteGraph, condition: int) -> int:
    found, places = _rows(graph, 1, kind="INT64"), _rows(graph, kind="INT64")
    graph.operator("WHERE", [condition], [found])
    graph.operator("RESHAPE", [found, _constant(graph, [-1])], [places])
    return places


def _taken(graph: TfliteGraph, matrix: int, places: int) -> int:
    rows = _rows(graph, _COLUMNS)
    graph.operator("GATHER", [matrix, places], [rows], "GatherOptions", Axis=0, BatchDims=0)
    return rows


def _reversed(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The selected rows, the last one first."""
    rows, result = _taken(graph, inputs[2], _places(graph, inputs[0])), _rows(graph, _COLUMNS)
    graph.operator("REVERSE_V2", [rows, _constant(graph, [0])], [result])
    return [result]


def _joined(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The selected rows, all rows, and the rows that are not selected."""
    other, result = graph.tensor((_ROWS,), "BOOL"), _rows(graph, _COLUMNS)
    graph.operator("LOGICAL_NOT", [inputs[0]], [other])
    parts = [_taken(graph, inputs[2], _places(graph, each)) for each in (inputs[0], other)]
    graph.operator("CONCATENATION", [parts[0], inputs[2], parts[1]], [result], "ConcatenationOptions", Axis=0)
    return [result]


def _compared(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The products of all selected rows with each other, and their softmax."""
    rows = _taken(graph, inputs[2], _places(graph, inputs[0]))
    products, weights = (graph.tensor((1, 1), shape_signature=(-1, -1)) for _ in range(2))
    graph.operator("BATCH_MATMUL", [rows, rows], [products], "BatchMatMulOptions", AdjX=False, AdjY=True)
    graph.operator("SOFTMAX", [products], [weights], "SoftmaxOptions", Beta=1.0)
    return [weights]


def _distinct(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The distinct segments, turned round, and which of them each one is."""
    found, numbers, result = (
        _rows(graph, kind="INT32"),
        graph.tensor((_ROWS,), "INT32"),
        _rows(graph, kind="INT32"),
    )
    graph.operator("UNIQUE", [inputs[1]], [found, numbers], "UniqueOptions", IdxOutType=2)
    graph.operator("REVERSE_V2", [found, _constant(graph, [0])], [result])
    return [result, numbers]


def _summed(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The sums of the segments, the last one first."""
    sums, result = (_rows(graph, _COLUMNS) for _ in range(2))
    graph.operator("SEGMENT_SUM", [inputs[2], inputs[1]], [sums])
    graph.operator("REVERSE_V2", [sums, _constant(graph, [0])], [result])
    return [result]


def _means(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The means of the segments: two sums with the same number of rows."""
    ones = graph.tensor((_ROWS, 1), data=np.ones((_ROWS, 1), np.float32))
    sums, counts, result = (_rows(graph, width) for width in (_COLUMNS, 1, _COLUMNS))
    for source, target in ((inputs[2], sums), (ones, counts)):
        graph.operator("SEGMENT_SUM", [source, inputs[1]], [target])
    graph.operator("DIV", [sums, counts], [result], "DivOptions", FusedActivationFunction=0)
    return [result]


def _masked_twice(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The rows that a condition selects, which are found twice, multiplied with each other."""
    first, second = (_taken(graph, inputs[2], _places(graph, inputs[0])) for _ in range(2))
    turned, result = (_rows(graph, _COLUMNS) for _ in range(2))
    graph.operator("REVERSE_V2", [second, _constant(graph, [0])], [turned])
    graph.operator("MUL", [first, turned], [result], "MulOptions", FusedActivationFunction=0)
    return [result]


def _looked_up(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The sum of the segment of each row: a table whose number of rows is data."""
    sums, result = _rows(graph, _COLUMNS), graph.tensor((_ROWS, _COLUMNS))
    found, numbers = _rows(graph, kind="INT32"), graph.tensor((_ROWS,), "INT32")
    graph.operator("UNIQUE", [inputs[1]], [found, numbers], "UniqueOptions", IdxOutType=2)
    graph.operator("SEGMENT_SUM", [inputs[2], numbers], [sums])
    graph.operator("GATHER", [sums, numbers], [result], "GatherOptions", Axis=0, BatchDims=0)
    return [result]


def _largest(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The largest of the selected rows in each column."""
    rows, turned = (
        _taken(graph, inputs[2], _places(graph, inputs[0])),
        graph.tensor((_COLUMNS, 1), shape_signature=(_COLUMNS, -1)),
    )
    result = graph.tensor((_COLUMNS,), "INT32")
    graph.operator("TRANSPOSE", [rows, _constant(graph, [1, 0])], [turned])
    graph.operator("ARG_MAX", [turned, _constant(graph, 1)], [result], "ArgMaxOptions", OutputType=2)
    return [result]


def _model(build: Build, *, is_open: bool) -> nd.Model:
    file = TfliteModel()
    graph = file.subgraph()
    shapes = ((_ROWS,), "BOOL"), ((_ROWS,), "INT32"), ((_ROWS, _COLUMNS), "FLOAT32")
    graph.inputs = [
        graph.tensor(shape, kind, shape_signature=(-1 if is_open else _ROWS, *shape[1:]))
        for shape, kind in shapes
    ]
    graph.outputs = list(build(graph, graph.inputs))
    return nd.load_tflite(file.build())


def _runs(model: nd.Model) -> list[Callable[..., Sequence[Array]]]:
    return [
        nd.CompilationBuilder(model, [device]).finish().run for device in (CpuDevice(), ReferenceDevice())
    ]


@sweep(
    "build", [_reversed, _joined, _compared, _distinct, _summed, _means, _masked_twice, _looked_up, _largest]
)
@sweep("is_open", [False, True])
def test_rows_serve_operations_that_are_not_row_by_row(
    build: Build, compiles_here: None, caplog: pytest.LogCaptureFixture, *, is_open: bool
) -> None:
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        run, reference = _runs(_model(build, is_open=is_open))
        # There is no largest one of no rows.
        for share in (0.5, 1.0, 0.1, 0.9, *([] if build is _largest else [0.0])):
            condition = _generator.random(_ROWS) < share
            condition[0] |= build is _largest
            segments = np.cumsum(np.append(0, _generator.random(_ROWS - 1) < share)).astype(np.int32)
            source = _generator.standard_normal((_ROWS, _COLUMNS)).astype(np.float32)
            given = condition, segments, source
            for found, wanted in zip(run(*given), reference(*given), strict=True):
                assert found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert "on references" not in caplog.text


@sweep("kind", ["BOOL", "FLOAT32", "INT32", "INT64"])
@sweep("shape", [(1,), (2,), (40,), (3, 4), (2, 3, 2)])
def test_conditions_of_any_rank(kind: str, shape: tuple[int, ...], caplog: pytest.LogCaptureFixture) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    source, found = graph.tensor(shape, kind), _rows(graph, len(shape), kind="INT64")
    result = _rows(graph, len(shape), kind="INT64")
    graph.operator("WHERE", [source], [found])
    graph.operator("REVERSE_V2", [found, _constant(graph, [0])], [result])
    graph.inputs, graph.outputs = [source], [result]
    dtype = {"BOOL": np.bool_}.get(kind, np.dtype(kind.lower()).type)
    with caplog.at_level(logging.INFO, "neurald"):
        run, _ = _runs(nd.load_tflite(file.build()))
        for most in (2, 1, 5):
            given: Array = _generator.integers(0, most, shape).astype(dtype)
            np.testing.assert_array_equal(run(given)[0], np.argwhere(given)[::-1])
    assert "on references" not in caplog.text


def test_segments_that_do_not_follow_each_other_are_reported() -> None:
    run, reference = _runs(_model(_summed, is_open=False))
    source = np.ones((_ROWS, _COLUMNS), np.float32)
    for first in (1, -1):
        segments = np.full(_ROWS, first, np.int32)
        for each in (run, reference):
            with pytest.raises(nd.Error):
                each(np.ones(_ROWS, np.bool_), segments, source)


def test_rows_are_counted_once_for_all_that_reads_them() -> None:
    structured = structure_control_flow(_model(_compared, is_open=False))
    lengths = [
        each.lengths
        for each in each_item(structured.items)
        if isinstance(each, LengthUpdate) and each.lengths
    ]
    assert len(lengths) == 1

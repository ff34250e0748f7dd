"""Operations whose number of results follows from data, compiled for the CPU device and compared
with references."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.frontend.lowering_options import LoweringOptions
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.errors import BadData, OpFailed

Array = np.ndarray[Any, Any]
#: Adds operators to a graph, given its input tensors; returns its outputs.
Build = Callable[[TfliteGraph, Sequence[int]], Sequence[int]]

ROWS, COLUMNS = 20, 6
generator = np.random.default_rng(8)


def _constant(graph: TfliteGraph, values: Sequence[int]) -> int:
    return graph.tensor(shape=(len(values),), type_="INT32", data=np.array(values, np.int32))


def _found(graph: TfliteGraph, condition: int, rows: int = ROWS) -> int:
    """Adds WHERE of a condition, as a row of positions."""
    pairs = graph.tensor(shape=(rows, 1), type_="INT64", shape_signature=(-1, 1))
    row = graph.tensor(shape=(rows,), type_="INT64", shape_signature=(-1,))
    graph.operator("WHERE", [condition], [pairs])
    graph.operator("SQUEEZE", [pairs], [row], "SqueezeOptions", SqueezeDims=[1])
    return row


def _rows(graph: TfliteGraph, *shape: int, type_: str = "FLOAT32") -> int:
    return graph.tensor(shape=(ROWS, *shape), type_=type_, shape_signature=(-1, *shape))


def _masked(graph: TfliteGraph, inputs: Sequence[int]) -> int:
    """Adds a GATHER of the rows where the condition holds."""
    condition, source = inputs
    result = _rows(graph, COLUMNS)
    graph.operator(
        "GATHER", [source, _found(graph, condition)], [result], "GatherOptions", Axis=0, BatchDims=0
    )
    return result


def masked(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    return [_masked(graph, inputs)]


def doubled(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The sum of the selected rows with themselves, and their number."""
    rows, sums = _masked(graph, inputs), _rows(graph, COLUMNS)
    shape = graph.tensor(shape=(2,), type_="INT32")
    graph.operator("ADD", [rows, rows], [sums], "AddOptions", FusedActivationFunction=0)
    graph.operator("SHAPE", [rows], [shape], "ShapeOptions", OutType=2)
    return [sums, shape]


def flattened(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    rows = _masked(graph, inputs)
    flat = graph.tensor(shape=(ROWS * COLUMNS,), type_="FLOAT32", shape_signature=(-1,))
    graph.operator("RESHAPE", [rows, _constant(graph, [-1])], [flat])
    return [flat]


def summed(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The sums of rows and of columns, and the largest elements of columns."""
    rows, of_rows = _masked(graph, inputs), _rows(graph)
    of_columns, largest = (graph.tensor(shape=(COLUMNS,), type_="FLOAT32") for _ in range(2))
    for operator, axis, result in (("SUM", 1, of_rows), ("SUM", 0, of_columns), ("REDUCE_MAX", 0, largest)):
        graph.operator(operator, [rows, _constant(graph, [axis])], [result], "ReducerOptions", KeepDims=False)
    return [of_rows, of_columns, largest]


def sliced(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """Two columns, and their softmax."""
    rows, part, soft = _masked(graph, inputs), _rows(graph, 2), _rows(graph, 2)
    graph.operator("SLICE", [rows, _constant(graph, [0, 3]), _constant(graph, [-1, 2])], [part])
    graph.operator("SOFTMAX", [part], [soft], "SoftmaxOptions", Beta=1.0)
    return [part, soft]


def _compared(
    build: Build, rows: int = ROWS, *, is_open: bool = False
) -> tuple[nd.Compilation, nd.Compilation]:
    """Compiles a graph of a condition and a matrix, and prepares it for references."""
    file = TfliteModel()
    graph = file.subgraph()
    length = -1 if is_open else rows
    graph.inputs = [
        graph.tensor(shape=(rows,), type_="BOOL", shape_signature=(length,)),
        graph.tensor(shape=(rows, COLUMNS), type_="FLOAT32", shape_signature=(length, COLUMNS)),
    ]
    graph.outputs = list(build(graph, graph.inputs))
    model = nd.load_tflite(file.build())
    compiled, references = (
        nd.CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish() for compiles in (True, False)
    )
    return compiled, references


def multiplied(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The selected rows multiplied by a matrix, and their softmax."""
    rows, products, results = _masked(graph, inputs), _rows(graph, 9), _rows(graph, 9)
    matrix = np.linspace(-1, 1, 9 * COLUMNS, dtype=np.float32).reshape(9, COLUMNS)
    weights = graph.tensor(shape=matrix.shape, type_="FLOAT32", data=matrix)
    graph.operator(
        "FULLY_CONNECTED", [rows, weights], [products], "FullyConnectedOptions", FusedActivationFunction=0
    )
    graph.operator("SOFTMAX", [products], [results], "SoftmaxOptions", Beta=1.0)
    return [products, results]


def scattered(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """The selected rows where they were, and how many of them there are at each place."""
    rows, found = _masked(graph, inputs), _found(graph, inputs[0])
    places, pairs = _rows(graph, type_="INT32"), _rows(graph, 1, type_="INT32")
    graph.operator("CAST", [found], [places], "CastOptions", InDataType=4, OutDataType=2)
    # The last two places are one.
    limited = _rows(graph, type_="INT32")
    most = graph.tensor(shape=(), type_="INT32", data=np.array(ROWS - 2, np.int32), has_rank=True)
    graph.operator("MINIMUM", [places, most], [limited], "MaximumMinimumOptions")
    graph.operator("RESHAPE", [limited, _constant(graph, [-1, 1])], [pairs])
    shape, ones = graph.tensor(shape=(2,), type_="INT32"), _rows(graph, COLUMNS)
    one = graph.tensor(shape=(), type_="FLOAT32", data=np.array(1, np.float32), has_rank=True)
    graph.operator("SHAPE", [rows], [shape], "ShapeOptions", OutType=2)
    graph.operator("BROADCAST_TO", [one, shape], [ones])
    results = [graph.tensor(shape=(ROWS, COLUMNS), type_="FLOAT32") for _ in range(2)]
    for updates, result in zip((rows, ones), results, strict=True):
        graph.operator("SCATTER_ND", [pairs, updates, _constant(graph, [ROWS, COLUMNS])], [result])
    return [*results, ones]


def filled(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
    """Adds as many numbers as there are selected rows, and their sum."""
    rows, shape = _found(graph, inputs[0]), graph.tensor(shape=(1,), type_="INT32")
    number = graph.tensor(shape=(), type_="FLOAT32", data=np.array(2.5, np.float32), has_rank=True)
    numbers, total = _rows(graph), graph.tensor(shape=(), type_="FLOAT32", has_rank=True)
    graph.operator("SHAPE", [rows], [shape], "ShapeOptions", OutType=2)
    graph.operator("FILL", [shape, number], [numbers], "FillOptions")
    graph.operator("SUM", [numbers, _constant(graph, [0])], [total], "ReducerOptions", KeepDims=False)
    return [numbers, total]


@sweep("build", [masked, doubled, flattened, summed, sliced, multiplied, scattered, filled])
@sweep("is_open", [False, True])
def test_rows_where_a_condition_holds(build: Build, *, is_open: bool) -> None:
    compiled, references = _compared(build, is_open=is_open)
    source = generator.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    for share in (0.3, 0.0, 1.0, 0.9, 0.1):
        condition = generator.random(ROWS) < share
        expected = references.run(condition, source)
        for result, reference in zip(compiled.run(condition, source), expected, strict=True):
            assert result.shape == reference.shape
            np.testing.assert_allclose(result, reference, rtol=1e-6, atol=1e-6)
    assert not any(kernel.is_reference for step in compiled.profile() for kernel in step.kernels)


def test_what_depends_on_other_rows_has_no_bounds() -> None:
    def reversed_rows(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
        rows, result = _masked(graph, inputs), _rows(graph, COLUMNS)
        graph.operator("REVERSE_V2", [rows, _constant(graph, [0])], [result])
        return [result]

    compiled, references = _compared(reversed_rows)
    model = compiled.model
    with pytest.raises(BadData, match=r"REVERSE.* of an input whose number of rows follows from data"):
        build_graph(model, options=LoweringOptions(has_bounds=True))
    with pytest.raises(BadData, match="the shape of the result depends on condition"):
        build_graph(model)
    condition, source = generator.random(ROWS) < 0.5, generator.random((ROWS, COLUMNS), np.float32)
    np.testing.assert_array_equal(compiled.run(condition, source)[0], references.run(condition, source)[0])
    # The rows are counted first instead; see `counted_rows`.
    (prepared,) = (step.prepared_model for step in compiled.plan.steps)
    assert isinstance(prepared, GrowingModel)
    kernels = [kernel for step in compiled.profile() for kernel in step.kernels]
    assert not any(kernel.is_reference for kernel in kernels)


def test_what_takes_much_memory_if_all_rows_exist_is_not_compiled() -> None:
    """A table's rows are much larger than their positions, of which there may be many."""
    width, rows = 5000, 5000

    def looked_up(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
        table = graph.tensor(shape=(2, width), type_="FLOAT32", data=np.zeros((2, width), np.float32))
        result = graph.tensor(shape=(rows, width), type_="FLOAT32", shape_signature=(-1, width))
        row = _found(graph, inputs[0], rows)
        graph.operator("GATHER", [table, row], [result], "GatherOptions", Axis=0, BatchDims=0)
        return [result]

    compiled, _ = _compared(looked_up, rows)
    with pytest.raises(BadData, match=r"GATHER of up to 5000 rows, .* take 100000000 bytes"):
        build_graph(compiled.model, options=LoweringOptions(has_bounds=True))
    condition = np.zeros(rows, bool)
    condition[[0, 1]] = True
    (found,) = compiled.run(condition, np.zeros((rows, COLUMNS), np.float32))
    assert found.shape == (2, width)


def test_requirements_hold_for_existing_rows_only() -> None:
    """Positions below the table's length are looked up; those of absent rows are not."""

    def looked_up(graph: TfliteGraph, inputs: Sequence[int]) -> Sequence[int]:
        table = graph.tensor(shape=(5,), type_="FLOAT32", data=np.arange(5, dtype=np.float32))
        row, less = _found(graph, inputs[0]), _rows(graph, type_="INT64")
        one = graph.tensor(shape=(), type_="INT64", data=np.array(1, np.int64), has_rank=True)
        result = _rows(graph)
        graph.operator("SUB", [row, one], [less], "SubOptions", FusedActivationFunction=0)
        graph.operator("GATHER", [table, less], [result], "GatherOptions", Axis=0, BatchDims=0)
        return [result]

    compiled, _ = _compared(looked_up)
    condition, source = np.zeros(ROWS, bool), np.zeros((ROWS, COLUMNS), np.float32)
    condition[[1, 5]] = True
    np.testing.assert_array_equal(compiled.run(condition, source)[0], [0, 4])
    assert compiled.run(~condition & False, source)[0].shape == (0,)
    for wrong in (0, 6):
        with pytest.raises(OpFailed):
            compiled.run(np.arange(ROWS) == wrong, source)


def test_all_dimensions_of_a_condition() -> None:
    for shape in ((), (1,), (3, 4), (2, 3, 2), (0, 2)):
        file = TfliteModel()
        graph = file.subgraph()
        source = graph.tensor(shape=shape, type_="FLOAT32", has_rank=not shape)
        rows = int(np.prod(shape))
        result = graph.tensor(shape=(rows, len(shape)), type_="INT64", shape_signature=(-1, len(shape)))
        graph.operator("WHERE", [source], [result])
        graph.inputs, graph.outputs = [source], [result]
        compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
        given = (generator.integers(-1, 2, shape) * np.float32(0.5)).astype(np.float32)
        expected = np.argwhere(given) if shape else np.zeros((int(given != 0), 0), np.int64)
        (found,) = compilation.run(given)
        np.testing.assert_array_equal(found, expected)


@sweep("type_", ["FLOAT32", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL"])
def test_distinct_elements(type_: str) -> None:
    dtype = {"BOOL": np.bool_}.get(type_, np.dtype(type_.lower()).type)
    for count in (0, 1, 50):
        file = TfliteModel()
        graph = file.subgraph()
        graph.inputs = [graph.tensor(shape=(count,), type_=type_)]
        graph.outputs = [
            graph.tensor(shape=(count,), type_=type_, shape_signature=(-1,)),
            graph.tensor(shape=(count,), type_="INT64"),
        ]
        graph.operator("UNIQUE", graph.inputs, graph.outputs, "UniqueOptions", IdxOutType=4)
        model = nd.load_tflite(file.build())
        source: Array = generator.integers(0, 9, count).astype(dtype)
        results = [
            nd.CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish().run(source)
            for compiles in (True, False)
        ]
        for result, reference in zip(*results, strict=True):
            np.testing.assert_array_equal(result, reference)


def test_sums_of_segments() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = [
        graph.tensor(shape=(7, 3), type_="FLOAT32"),
        graph.tensor(shape=(7,), type_="INT32"),
    ]
    graph.outputs = [graph.tensor(shape=(7, 3), type_="FLOAT32", shape_signature=(-1, 3))]
    graph.operator("SEGMENT_SUM", graph.inputs, graph.outputs, "SegmentSumOptions")
    model = nd.load_tflite(file.build())
    compiled, references = (
        nd.CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish() for compiles in (True, False)
    )
    source = generator.standard_normal((7, 3)).astype(np.float32)
    for segments in ([0] * 7, [0, 0, 1, 2, 2, 2, 3], list(range(7))):
        given = np.array(segments, np.int32)
        np.testing.assert_allclose(
            compiled.run(source, given)[0], references.run(source, given)[0], rtol=1e-6
        )
    for segments in ([1] * 7, [0, 0, 2, 2, 2, 2, 2], [0, 1, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0, 0]):
        with pytest.raises(OpFailed, match="must begin with 0 and never grow by more than 1"):
            compiled.run(source, np.array(segments, np.int32))


def _count(graph: TfliteGraph, shape: int, operator: str) -> int:
    """Adds the only element of a shape as a scalar."""
    count = graph.tensor(shape=(), type_="INT32", has_rank=True)
    if operator == "GATHER":
        first = graph.tensor(shape=(), type_="INT32", data=np.array(0, np.int32), has_rank=True)
        graph.operator(operator, [shape, first], [count], "GatherOptions", Axis=0, BatchDims=0)
    elif operator == "REDUCE_PROD":
        graph.operator(operator, [shape, _constant(graph, [0])], [count], "ReducerOptions", KeepDims=False)
    else:
        limits = [_constant(graph, [each]) for each in (0, 1, 1)]
        graph.operator(operator, [shape, *limits], [count], "StridedSliceOptions", ShrinkAxisMask=1)
    return count


@sweep("is_open", [False, True])
@sweep("taken", ["GATHER", "STRIDED_SLICE", "REDUCE_PROD"])
@sweep("operator", ["UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MAX"])
def test_as_many_segments_as_distinct_elements(operator: str, taken: str, *, is_open: bool) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    rows = (-1,) if is_open else (9,)
    keys = graph.tensor(shape=(9,), type_="INT32", shape_signature=rows)
    data = graph.tensor(shape=(9, 2), type_="FLOAT32", shape_signature=(*rows, 2))
    values = graph.tensor(shape=(9,), type_="INT32", shape_signature=(-1,))
    numbers = graph.tensor(shape=(9,), type_="INT32", shape_signature=rows)
    shape = graph.tensor(shape=(1,), type_="INT32")
    result = graph.tensor(shape=(9, 2), type_="FLOAT32", shape_signature=(-1, 2))
    graph.operator("UNIQUE", [keys], [values, numbers], "UniqueOptions", IdxOutType=2)
    graph.operator("SHAPE", [values], [shape], "ShapeOptions", OutType=2)
    count = _count(graph, shape, taken)
    graph.operator(operator, [data, numbers, count], [result], f"{_camel(operator)}Options")
    graph.inputs, graph.outputs = [keys, data], [values, result]
    model = nd.load_tflite(file.build())
    compiled, references = (
        nd.CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish() for compiles in (True, False)
    )
    for length in (9, 40, 9, 1) if is_open else (9,):
        source = generator.standard_normal((length, 2)).astype(np.float32)
        for limit in (1, 4, 100):
            given = generator.integers(0, limit, length).astype(np.int32)
            expected = references.run(given, source)
            for found, reference in zip(compiled.run(given, source), expected, strict=True):
                assert found.shape == reference.shape
                np.testing.assert_allclose(found, reference, rtol=1e-6)
    assert not any(kernel.is_reference for step in compiled.profile() for kernel in step.kernels)


@sweep("operator", ["FILL", "RANGE", "SHAPE"])
@sweep("taken", ["GATHER", "STRIDED_SLICE", "REDUCE_PROD"])
def test_numbers_of_rows_are_no_lengths_of_inputs(operator: str, taken: str) -> None:
    """The input's length is open, and limits the number of distinct elements."""
    file = TfliteModel()
    graph = file.subgraph()
    keys, values = (graph.tensor(shape=(9,), type_="INT32", shape_signature=(-1,)) for _ in range(2))
    numbers = graph.tensor(shape=(9,), type_="INT32", shape_signature=(-1,))
    shape = graph.tensor(shape=(1,), type_="INT32")
    graph.operator("UNIQUE", [keys], [values, numbers], "UniqueOptions", IdxOutType=2)
    graph.operator("SHAPE", [values], [shape], "ShapeOptions", OutType=2)
    count = _count(graph, shape, taken)
    many = graph.tensor(shape=(9,), type_="INT32", shape_signature=(-1,))
    ones = [
        graph.tensor(shape=(), type_="INT32", data=np.array(each, np.int32), has_rank=True) for each in (0, 1)
    ]
    if operator == "FILL":
        graph.operator(operator, [shape, ones[1]], [many], "FillOptions")
    elif operator == "RANGE":
        graph.operator(operator, [ones[0], count, ones[1]], [many], "RangeOptions")
    graph.inputs, graph.outputs = [keys], [values, shape, count, *([] if operator == "SHAPE" else [many])]
    model = nd.load_tflite(file.build())
    compiled, references = (
        nd.CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish() for compiles in (True, False)
    )
    for length in (9, 300, 9, 1):
        given = generator.integers(0, 5, length).astype(np.int32)
        for found, reference in zip(compiled.run(given), references.run(given), strict=True):
            np.testing.assert_array_equal(found, reference)


def _camel(operator: str) -> str:
    return "".join(word.capitalize() for word in operator.split("_"))


@sweep("operator", ["UNIQUE", "WHERE", "SEGMENT_SUM"])
def test_open_lengths(operator: str) -> None:
    """Upper bounds follow from the lengths that an execution has."""
    file = TfliteModel()
    graph = file.subgraph()
    row = graph.tensor(shape=(1,), type_="INT32", shape_signature=(-1,))
    other = graph.tensor(shape=(1,), type_="INT32", shape_signature=(-1,))
    result = graph.tensor(shape=(1,), type_="INT32", shape_signature=(-1,))
    pairs = graph.tensor(shape=(1, 1), type_="INT64", shape_signature=(-1, 1))
    if operator == "UNIQUE":
        graph.inputs, graph.outputs = [row], [other, result]
        graph.operator(operator, [row], [other, result], "UniqueOptions", IdxOutType=2)
    elif operator == "WHERE":
        graph.inputs, graph.outputs = [row], [pairs]
        graph.operator(operator, [row], [pairs])
    else:
        graph.inputs, graph.outputs = [row, other], [result]
        graph.operator(operator, [row, other], [result], "SegmentSumOptions")
    model = nd.load_tflite(file.build())
    compiled, references = (
        nd.CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish() for compiles in (True, False)
    )
    for length in (3, 20, 7, 1, 3):
        inputs = [generator.integers(0, 3, length).astype(np.int32), np.arange(length, dtype=np.int32) // 2]
        given = inputs[: len(graph.inputs)]
        for found, reference in zip(compiled.run(*given), references.run(*given), strict=True):
            np.testing.assert_array_equal(found, reference)
    assert not any(kernel.is_reference for step in compiled.profile() for kernel in step.kernels)

"""Models with open lengths, and lengths that are data besides, have one code for all of them."""

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


def _part_of_two(graph: TfliteGraph, values: Sequence[int]) -> Sequence[int]:
    """Multiplies as many rows of both inputs as the smaller one has."""
    counts, parts = [], []
    for value in values:
        shape, count = graph.tensor((2,), "INT32"), graph.tensor((), "INT32", has_rank=True)
        graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
        index = graph.tensor((), "INT32", data=np.array(0, np.int32), has_rank=True)
        graph.operator("GATHER", [shape, index], [count], "GatherOptions", Axis=0, BatchDims=0)
        counts.append(count)
    least, end = graph.tensor((), "INT32", has_rank=True), graph.tensor((2,), "INT32")
    graph.operator("MINIMUM", counts, [least], "MaximumMinimumOptions")
    zero = graph.tensor((), "INT32", data=np.array(0, np.int32), has_rank=True)
    graph.operator("PACK", [least, zero], [end], "PackOptions", ValuesCount=2, Axis=0)
    begin, ones = (graph.tensor((2,), "INT32", data=[each] * 2) for each in (0, 1))
    for value in values:
        parts.append(graph.tensor((1, 3), shape_signature=(-1, 3)))
        graph.operator(
            "STRIDED_SLICE",
            [value, begin, end, ones],
            [parts[-1]],
            "StridedSliceOptions",
            EndMask=2,
        )
    product = graph.tensor((1, 3), shape_signature=(-1, 3))
    graph.operator("MUL", parts, [product], "MulOptions")
    return [product]


def _repeated_to(graph: TfliteGraph, values: Sequence[int]) -> Sequence[int]:
    """The first input in as many layers as the second one has elements; the shape is data."""
    shape, other = (graph.tensor((2,), "INT32") for _ in range(2))
    for value, each in zip(values, (shape, other), strict=True):
        graph.operator("SHAPE", [value], [each], "ShapeOptions", OutType=2)
    # Lengths that have passed through floats are data.
    floats, back = graph.tensor((2,)), graph.tensor((2,), "INT32")
    graph.operator("CAST", [shape], [floats], "CastOptions", InDataType=2, OutDataType=0)
    graph.operator("CAST", [floats], [back], "CastOptions", InDataType=0, OutDataType=2)
    wanted = graph.tensor((4,), "INT32")
    graph.operator("CONCATENATION", [other, back], [wanted], "ConcatenationOptions", Axis=0)
    result = graph.tensor((1, 1, 1, 3), shape_signature=(-1, -1, -1, 3))
    graph.operator("BROADCAST_TO", [values[0], wanted], [result], "BroadcastToOptions")
    return [result]


def _split_at(graph: TfliteGraph, values: Sequence[int]) -> Sequence[int]:
    """The first input in two parts, whose lengths are data."""
    shape, floats = graph.tensor((2,), "INT32"), graph.tensor((2,))
    graph.operator("SHAPE", [values[0]], [shape], "ShapeOptions", OutType=2)
    graph.operator("CAST", [shape], [floats], "CastOptions", InDataType=2, OutDataType=0)
    half, whole, sizes = graph.tensor((2,)), graph.tensor((2,), "INT32"), graph.tensor((2,), "INT32")
    factors = graph.tensor((2,), data=np.array([0.5, 1], np.float32))
    graph.operator("MUL", [floats, factors], [half], "MulOptions")
    graph.operator("CAST", [half], [whole], "CastOptions", InDataType=0, OutDataType=2)
    first, rest, count = (graph.tensor((1,), "INT32") for _ in range(3))
    zero, one = (graph.tensor((1,), "INT32", data=[each]) for each in (0, 1))
    graph.operator("SLICE", [shape, zero, one], [count], "SliceOptions")
    graph.operator("SLICE", [whole, zero, one], [first], "SliceOptions")
    graph.operator("SUB", [count, first], [rest], "SubOptions")
    graph.operator("CONCATENATION", [first, rest], [sizes], "ConcatenationOptions", Axis=0)
    parts = [graph.tensor((1, 3), shape_signature=(-1, 3)) for _ in range(2)]
    axis = graph.tensor((), "INT32", data=np.array(0, np.int32), has_rank=True)
    graph.operator("SPLIT_V", [values[0], sizes, axis], parts, "SplitVOptions", NumSplits=2)
    doubled = graph.tensor((1, 3), shape_signature=(-1, 3))
    graph.operator("ADD", [parts[0], parts[0]], [doubled], "AddOptions")
    return [doubled, parts[1]]


@sweep("build", [_part_of_two, _repeated_to, _split_at])
def test_computed_lengths_that_agree_with_open_ones(
    build: Callable[[TfliteGraph, Sequence[int]], Sequence[int]],
    compiles_here: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Code for all sizes takes them as equal where nothing else is possible, and checks it."""
    file = TfliteModel()
    graph = file.subgraph()
    values = [graph.tensor((1, 3), shape_signature=(-1, 3)) for _ in range(2)]
    graph.inputs, graph.outputs = values, build(graph, values)
    model = nd.load_tflite(file.build())
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    references = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    generator = np.random.default_rng(4)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for lengths in ((5, 9), (9, 5), (4, 3), (70, 100)):
            given = [generator.random((each, 3), np.float32) for each in lengths]
            for found, expected in zip(compilation.run(*given), references.run(*given), strict=True):
                np.testing.assert_array_equal(found, expected)
    assert caplog.text.count("operations for lengths") == 1
    assert "operations as" not in caplog.text
    assert "runs on references" not in caplog.text


def test_messages_name_the_operation_and_the_operand(
    compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """They name lengths that are not known by symbols."""
    file = TfliteModel()
    graph = file.subgraph()
    value, other = (
        graph.tensor((1, 1, 3), shape_signature=(-1, -1, 3)),
        graph.tensor((1, 3), shape_signature=(-1, 3)),
    )
    counted, shape = graph.tensor((1, 1, 3), shape_signature=(-1, -1, 3)), graph.tensor((2,), "INT32")
    graph.operator("ADD", [value, value], [counted], "AddOptions")
    graph.operator("SHAPE", [other], [shape], "ShapeOptions", OutType=2)
    result = graph.tensor((1, 3), shape_signature=(-1, 3))
    graph.operator("RESHAPE", [counted, shape], [result], "ReshapeOptions")
    graph.inputs, graph.outputs = [value, other], [result]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    with caplog.at_level(logging.INFO, "neurald"):
        builder.finish().run(np.ones((2, 3, 3), np.float32), np.ones((6, 3), np.float32))
    (first, *_) = (each.getMessage() for each in caplog.records if "open dimensions" in each.getMessage())
    assert "operation 2 RESHAPE" in first
    assert "n0 * n1" in first
    assert "extent" not in first


def _computed(graph: TfliteGraph, operator: str, inputs: Sequence[int], options: str, **values: Any) -> int:
    """Adds an operator that computes a scalar of INT32, and returns it."""
    result = graph.tensor((), "INT32", has_rank=True)
    graph.operator(operator, inputs, [result], options, **values)
    return result


def _rows(graph: TfliteGraph, value: int) -> int:
    shape = graph.tensor((2,), "INT32")
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    zero = graph.tensor((), "INT32", data=np.array(0), has_rank=True)
    return _computed(graph, "GATHER", [shape, zero], "GatherOptions", Axis=0, BatchDims=0)


def test_sums_of_open_lengths_and_data(compiles_here: None, caplog: pytest.LogCaptureFixture) -> None:
    """New tokens: positions from the last one on, and scores of a cache, which they are put into.

    A slice from an index to the sum of it and a length has that length.
    """
    most, columns = 24, 4
    generator = np.random.default_rng(3)
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, columns), shape_signature=(-1, columns))
    cache, first = graph.tensor((most, columns)), graph.tensor((), "INT32", has_rank=True)
    zero, one, depth = (graph.tensor((), "INT32", data=np.array(n), has_rank=True) for n in (0, 1, columns))
    zeros, ones = (graph.tensor((2,), "INT32", data=[n, n]) for n in (0, 1))
    tables = [
        graph.tensor(shape, data=generator.random(shape, np.float32))
        for shape in ((most, columns), (most, most))
    ]
    last = _computed(graph, "ADD", [first, _rows(graph, value)], "AddOptions")
    numbers = graph.tensor((9,), "INT32", shape_signature=(-1,))
    graph.operator("RANGE", [first, last, one], [numbers], "RangeOptions")
    positions, moved = (graph.tensor((9, columns), shape_signature=(-1, columns)) for _ in range(2))
    graph.operator("GATHER", [tables[0], numbers], [positions], "GatherOptions", Axis=0, BatchDims=0)
    graph.operator("ADD", [value, positions], [moved], "AddOptions")
    starts, ends, corner = (graph.tensor((2,), "INT32") for _ in range(3))
    for inputs, output in (((first, zero), starts), ((last, depth), ends), ((last, last), corner)):
        graph.operator("PACK", inputs, [output], "PackOptions", ValuesCount=2, Axis=0)
    filled = graph.tensor((most, columns))
    graph.operator("DYNAMIC_UPDATE_SLICE", [cache, moved, starts], [filled])
    keys = graph.tensor((9, columns), shape_signature=(-1, columns))
    graph.operator("STRIDED_SLICE", [filled, zeros, ends, ones], [keys], "StridedSliceOptions")
    biases, scores, sums = (graph.tensor((9, 9), shape_signature=(-1, -1)) for _ in range(3))
    graph.operator(
        "STRIDED_SLICE", [tables[1], starts, corner, ones], [biases], "StridedSliceOptions", BeginMask=2
    )
    graph.operator("BATCH_MATMUL", [moved, keys], [scores], "BatchMatMulOptions", AdjX=False, AdjY=True)
    graph.operator("ADD", [scores, biases], [sums], "AddOptions")
    graph.inputs, graph.outputs = [value, cache, first], [sums, filled]
    model = nd.load_tflite(file.build())
    compilation, references = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for rows, begin in ((9, 3), (7, 0), (20, 4), (2, 22), (2, 5)):
            given = (
                generator.random((rows, columns), np.float32),
                generator.random((most, columns), np.float32),
            )
            start = np.array(begin, np.int32)
            results = zip(compilation.run(*given, start), references.run(*given, start), strict=True)
            for found, expected in results:
                np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert caplog.text.count("operations for lengths") == 1
    assert "on references" not in caplog.text
    assert "operations as" not in caplog.text


def test_what_several_numbers_leave_of_a_constant(
    compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows are padded to a constant length: the numbers together are taken from it."""
    length, columns = 16, 3
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, columns), shape_signature=(-1, columns))
    count, before = (graph.tensor((), "INT32", has_rank=True) for _ in range(2))
    most = graph.tensor((), "INT32", data=np.array(length), has_rank=True)
    none = graph.tensor((2,), "INT32", data=[0, 0])
    left = _computed(graph, "SUB", [most, count], "SubOptions")
    after = _computed(graph, "SUB", [left, before], "SubOptions")
    rows, widths = graph.tensor((2,), "INT32"), graph.tensor((2, 2), "INT32")
    graph.operator("PACK", [before, after], [rows], "PackOptions", ValuesCount=2, Axis=0)
    graph.operator("PACK", [rows, none], [widths], "PackOptions", ValuesCount=2, Axis=0)
    padded = graph.tensor((length, columns), shape_signature=(-1, columns))
    graph.operator("PAD", [value, widths], [padded])
    graph.inputs, graph.outputs = [value, count, before], [padded]
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    with caplog.at_level(logging.INFO, "neurald"):
        for number, start in ((9, 3), (4, 12), (16, 0), (1, 0), (5, 2)):
            given = np.random.default_rng(number).random((number, columns), np.float32)
            found = compilation.run(given, np.array(number, np.int32), np.array(start, np.int32))[0]
            expected = np.pad(given, [[start, length - number - start], [0, 0]])
            np.testing.assert_array_equal(found, expected)
    assert "on references" not in caplog.text


def test_columns_that_are_cut_and_padded_may_be_all_or_some(
    compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A padding of data may be empty: whether it is does not decide about code."""
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, 7), shape_signature=(-1, -1))
    wanted = graph.tensor((), "INT32", has_rank=True)
    shape = graph.tensor((2,), "INT32")
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    zero, one = (graph.tensor((), "INT32", data=np.array(n), has_rank=True) for n in (0, 1))
    zeros, ones = (graph.tensor((2,), "INT32", data=[n, n]) for n in (0, 1))
    columns = _computed(graph, "GATHER", [shape, one], "GatherOptions", Axis=0, BatchDims=0)
    count = _computed(graph, "MINIMUM", [wanted, columns], "MaximumMinimumOptions")
    rest = _computed(graph, "SUB", [columns, count], "SubOptions")
    end, width = (graph.tensor((2,), "INT32") for _ in range(2))
    widths = graph.tensor((2, 2), "INT32")
    for inputs, output in (((zero, count), end), ((zero, rest), width), ((zeros, width), widths)):
        graph.operator("PACK", inputs, [output], "PackOptions", ValuesCount=2, Axis=0)
    part, padded = (graph.tensor((9, 7), shape_signature=(-1, -1)) for _ in range(2))
    graph.operator(
        "STRIDED_SLICE", [value, zeros, end, ones], [part], "StridedSliceOptions", BeginMask=3, EndMask=1
    )
    graph.operator("PAD", [part, widths], [padded])
    graph.inputs, graph.outputs = [value, wanted], [padded]
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    with caplog.at_level(logging.INFO, "neurald"):
        for (rows, length), number in (((9, 7), 3), ((9, 7), 20), ((4, 30), 12), ((1, 5), 5)):
            given = np.random.default_rng(number).random((rows, length), np.float32)
            expected = np.where(np.arange(length) < number, given, 0)
            np.testing.assert_array_equal(compilation.run(given, np.array(number, np.int32))[0], expected)
    assert "on references" not in caplog.text


@pytest.mark.parametrize("columns", [3, 64])
@pytest.mark.parametrize("is_data", [False, True])
def test_rows_at_constant_places(
    columns: int, is_data: bool, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The places are compared with the number of rows when the model runs."""
    caplog.set_level(logging.INFO)
    file = TfliteModel()
    graph = file.subgraph()
    given = rows = graph.tensor((1, columns), shape_signature=(-1, columns))
    if is_data:
        flags = graph.tensor((1,), "BOOL", shape_signature=(-1,))
        sums, axes = graph.tensor((1,), shape_signature=(-1,)), graph.tensor((1,), "INT32", data=[1])
        found = graph.tensor((1, 1), "INT64", shape_signature=(-1, 1))
        rows = graph.tensor((1, columns), shape_signature=(-1, columns))
        graph.operator("SUM", [given, axes], [sums], "ReducerOptions")
        zero = graph.tensor((), data=np.array(0, np.float32), has_rank=True)
        graph.operator("GREATER", [sums, zero], [flags])
        graph.operator("WHERE", [flags], [found])
        graph.operator("GATHER_ND", [given, found], [rows])
    places = graph.tensor((3,), "INT32", data=np.array([1, 0, 5], np.int32))
    result = graph.tensor((3, columns))
    graph.operator("GATHER", [rows, places], [result], "GatherOptions", Axis=0, BatchDims=0)
    graph.inputs, graph.outputs = [given], [result]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation, random = builder.finish(), np.random.default_rng(columns)
    for count in (9, 6, 30, 7):
        values = random.uniform(1, 2, (count, columns)).astype(np.float32)
        np.testing.assert_array_equal(compilation.run(values)[0], values[[1, 0, 5]])
    for count in (5, 3):
        with pytest.raises(nd.Error, match="GATHER"):
            compilation.run(random.uniform(1, 2, (count, columns)).astype(np.float32))
    assert "on references" not in caplog.text
    assert "only valid for these lengths" not in caplog.text

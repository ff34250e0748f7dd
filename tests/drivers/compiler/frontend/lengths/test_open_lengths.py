"""Models that compute with the lengths of their open inputs are compiled once for all of them."""

import logging
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.target.target import host_target
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


def as_moved(graph: TfliteGraph, _: int, shape: int) -> Sequence[int]:
    """The lengths in other orders, and several times."""
    back, twice, rows_of = (
        graph.tensor((2,), "INT32"),
        graph.tensor((4,), "INT32"),
        graph.tensor((3, 2), "INT32"),
    )
    columns, pair, parts = (
        graph.tensor((2, 3), "INT32"),
        graph.tensor((2,), "INT32"),
        [scalar_vector(graph) for _ in range(2)],
    )
    graph.operator("REVERSE_V2", [shape, constant(graph, [0])], [back], "ReverseV2Options")
    graph.operator("TILE", [back, constant(graph, [2])], [twice], "TileOptions")
    graph.operator("BROADCAST_TO", [back, constant(graph, [3, 2])], [rows_of], "BroadcastToOptions")
    graph.operator("TRANSPOSE", [rows_of, constant(graph, [1, 0])], [columns], "TransposeOptions")
    graph.operator("GATHER_ND", [twice, constant(graph, [[3], [0]])], [pair], "GatherNdOptions")
    graph.operator(
        "SPLIT_V", [pair, constant(graph, [1, 1]), constant(graph, 0)], parts, "SplitVOptions", NumSplits=2
    )
    return [columns, filled(graph, parts[0]), filled(graph, parts[1])]


def as_rounded(graph: TfliteGraph, value: int, shape: int) -> Sequence[int]:
    """The rows, with as many others as make them a multiple of four, in groups."""
    negative, rest = scalar(graph), scalar(graph)
    graph.operator("NEG", [rows(graph, shape)], [negative], "NegOptions")
    graph.operator("FLOOR_MOD", [negative, constant(graph, 4)], [rest], "FloorModOptions")
    paddings, flat = graph.tensor((2, 2), "INT32"), graph.tensor((4,), "INT32")
    zero = constant(graph, 0)
    graph.operator("PACK", [zero, rest, zero, zero], [flat], "PackOptions", ValuesCount=4, Axis=0)
    graph.operator("RESHAPE", [flat, constant(graph, [2, 2])], [paddings], "ReshapeOptions")
    padded = graph.tensor((12, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    groups = graph.tensor((3, 4, COLUMNS), "FLOAT32", shape_signature=(-1, 4, COLUMNS))
    graph.operator("PAD", [value, paddings], [padded], "PadOptions")
    graph.operator("RESHAPE", [padded, constant(graph, [-1, 4, COLUMNS])], [groups], "ReshapeOptions")
    return [groups]


def as_reduced(graph: TfliteGraph, _: int, shape: int) -> Sequence[int]:
    """The greatest and the least of numbers of rows, and their sum."""
    count, double = rows(graph, shape), scalar(graph)
    graph.operator("MUL", [count, constant(graph, 2)], [double], "MulOptions")
    both = graph.tensor((2,), "INT32")
    graph.operator("PACK", [count, double], [both], "PackOptions", ValuesCount=2, Axis=0)
    found = []
    for operator in ("REDUCE_MAX", "REDUCE_MIN", "SUM"):
        result = scalar_vector(graph)
        graph.operator(operator, [both, constant(graph, [0])], [result], "ReducerOptions", KeepDims=True)
        found.append(filled(graph, result))
    return found


def as_segments(graph: TfliteGraph, value: int, shape: int) -> Sequence[int]:
    """All elements in a row, as the converter of TensorFlow flattens what an einsum contracts."""
    numbers, counts = graph.tensor((2,), "INT32"), graph.tensor((4,), "INT32")
    graph.operator("PACK", [rows(graph, shape), constant(graph, 3)], [numbers], "PackOptions", ValuesCount=2)
    found = [graph.tensor((9 * COLUMNS,), "FLOAT32", shape_signature=(-1,))]
    product = scalar_vector(graph)
    graph.operator("UNSORTED_SEGMENT_PROD", [shape, constant(graph, [0, 0]), constant(graph, 1)], [product])
    graph.operator("RESHAPE", [value, product], [found[0]], "ReshapeOptions")
    graph.operator("UNSORTED_SEGMENT_SUM", [numbers, constant(graph, [2, -1]), constant(graph, 4)], [counts])
    return [*found, counts]


def as_window(graph: TfliteGraph, value: int, shape: int) -> Sequence[int]:
    """The last rows, at most 16, and those that are left to 16 as padding."""
    count, before, first, begin = (
        rows(graph, shape),
        scalar(graph),
        scalar(graph),
        graph.tensor((2,), "INT32"),
    )
    zero = constant(graph, 0)
    graph.operator("SUB", [count, constant(graph, 16)], [before], "SubOptions")
    graph.operator("MAXIMUM", [before, zero], [first], "MaximumMinimumOptions")
    graph.operator("PACK", [first, zero], [begin], "PackOptions", ValuesCount=2, Axis=0)
    last = graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    ends = [constant(graph, each) for each in ((0, 0), (1, 1))]
    graph.operator(
        "STRIDED_SLICE", [value, begin, *ends], [last], "StridedSliceOptions", BeginMask=2, EndMask=3
    )
    missing, padding, added = (scalar(graph) for _ in range(3))
    graph.operator("SUB", [constant(graph, 16), count], [missing], "SubOptions")
    graph.operator("MAXIMUM", [missing, zero], [padding], "MaximumMinimumOptions")
    graph.operator("ADD", [padding, count], [added], "AddOptions")
    return [last, padding, added]


def scalar_vector(graph: TfliteGraph) -> int:
    return graph.tensor((1,), "INT32")


def filled(graph: TfliteGraph, length: int) -> int:
    """Adds a vector of a computed length."""
    result = graph.tensor((9,), "FLOAT32", shape_signature=(-1,))
    one = graph.tensor((), "FLOAT32", data=np.array(1, np.float32), has_rank=True)
    graph.operator("FILL", [length, one], [result], "FillOptions")
    return result


@sweep("build", [as_moved, as_rounded, as_reduced, as_segments, as_window])
def test_shapes_of_results_follow_from_computed_lengths(build: Build) -> None:
    """They are known before an execution, and so is the memory that it needs."""
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    shape = graph.tensor((2,), "INT32")
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    graph.inputs, graph.outputs = [value], list(build(graph, value, shape))
    model = nd.load_tflite(file.build())
    opened = Preparation(host_target(process_settings()), 1, keeps_artifact=False).open(
        model, {model.main.inputs[0]: (67, COLUMNS)}
    )
    assert opened is not None
    references = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    for length in (2, 3, 8, 9, 70):
        expected = references.run(np.ones((length, COLUMNS), np.float32))
        assert opened.output_shapes([(length, COLUMNS)]) == tuple(each.shape for each in expected)


@sweep("given", [((None, 1, 3), (1, None, 1)), ((None, 3), (None, 3)), ((None, None), (None,))])
def test_shapes_that_are_broadcast(
    given: Sequence[Sequence[int | None]], caplog: pytest.LogCaptureFixture
) -> None:
    """The shape of a result of arithmetic is computed before both inputs are broadcast to it."""
    file = TfliteModel()
    graph = file.subgraph()
    inputs, shapes = [], []
    for each in given:
        signature = tuple(-1 if length is None else length for length in each)
        inputs.append(
            graph.tensor(
                [1 if length is None else length for length in each], "FLOAT32", shape_signature=signature
            )
        )
        shapes.append(graph.tensor((len(each),), "INT32"))
        graph.operator("SHAPE", [inputs[-1]], [shapes[-1]], "ShapeOptions", OutType=2)
    rank = max(map(len, given))
    common = graph.tensor((rank,), "INT32")
    graph.operator("BROADCAST_ARGS", shapes, [common])
    outputs = [graph.tensor((1,) * rank, "FLOAT32", shape_signature=(-1,) * rank) for _ in inputs]
    for value, output in zip(inputs, outputs, strict=True):
        graph.operator("BROADCAST_TO", [value, common], [output], "BroadcastToOptions")
    graph.inputs, graph.outputs = inputs, [*outputs, common]
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for length in (3, 9, 700, 2):
            lengths = [tuple(length if each is None else each for each in shape) for shape in given]
            arrays = [np.arange(np.prod(each), dtype=np.float32).reshape(each) for each in lengths]
            *found, shape = compilation.run(*arrays)
            assert tuple(shape) == np.broadcast_shapes(*lengths)
            for one, expected in zip(found, np.broadcast_arrays(*arrays), strict=True):
                np.testing.assert_array_equal(one, expected)
    assert caplog.text.count("operations for lengths") == 1
    assert "operations as" not in caplog.text


@sweep(
    "build",
    [
        as_output,
        as_several,
        as_limit,
        as_divisor,
        as_index,
        as_moved,
        as_rounded,
        as_reduced,
        as_segments,
        as_window,
    ],
)
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


def test_large_arrays_of_lengths_are_not_computed_by_the_compiler() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    shape, many, found = graph.tensor((2,), "INT32"), graph.tensor((1 << 26,), "INT32"), scalar(graph)
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    graph.operator("FILL", [constant(graph, [1 << 26]), rows(graph, shape)], [many], "FillOptions")
    graph.operator("GATHER", [many, constant(graph, 5)], [found], "GatherOptions", Axis=0, BatchDims=0)
    graph.inputs, graph.outputs = [value], [found]
    model = nd.load_tflite(file.build())
    tracemalloc.start()
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for length in (5, 70):
        assert compilation.run(np.ones((length, COLUMNS), np.float32))[0] == length
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 26


@sweep("numbers", [[2, 0], [[2, 0], [1, 1]], 1])
def test_segments_of_arrays_of_lengths(numbers: Any) -> None:
    """Vectors are computed with extents, and arrays of another rank by kernels."""
    rank = np.ndim(numbers)
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, COLUMNS), "FLOAT32", shape_signature=(-1, COLUMNS))
    shape, stacked = graph.tensor((2,), "INT32"), graph.tensor((2, 2), "INT32")
    graph.operator("SHAPE", [value], [shape], "ShapeOptions", OutType=2)
    graph.operator("PACK", [shape, shape], [stacked], "PackOptions", ValuesCount=2, Axis=0)
    outputs = []
    for each, lengths in ((shape, 1), (stacked, 2)):
        if rank <= lengths:
            outputs.append(graph.tensor((3,) + (2,) * (lengths - rank), "INT32"))
            given = [each, constant(graph, numbers), constant(graph, 3)]
            graph.operator("UNSORTED_SEGMENT_SUM", given, [outputs[-1]])
    graph.inputs, graph.outputs = [value], outputs
    model = nd.load_tflite(file.build())
    references = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for length in (3, 9, 70):
        array = np.ones((length, COLUMNS), np.float32)
        for found, expected in zip(compilation.run(array), references.run(array), strict=True):
            np.testing.assert_array_equal(found, expected)

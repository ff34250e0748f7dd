"""Models in which lengths, axes and paddings are data compute what references do."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.cpu.growing_lists import (
    Op,
    assert_same,
    number,
    results,
    turns,
)
from support.models.control_flow import ADD, FLOAT, INT, Graph
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances.step_memory import StepMemory
from neurald.drivers.cpu.target.open_executable import Grown, OpenExecutable
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import Error, OutOfMemory
from neurald.hal.operations.machinery.call import Array


def test_lengths_that_follow_from_data() -> None:
    """RANGE, and RESHAPE to a computed shape."""
    graph = Graph()
    flag = graph.builder.add_operand(nd.OperandType.BOOL)
    graph.builder.set_operand_value(flag, value=False)

    def scalar(index: int) -> int:
        result = graph.value(INT, ())
        graph.builder.add_operation(Op.TFLITE_SUM, [index, graph.constant([0], INT), flag], [result])
        return result

    limit, shape, value = graph.value(INT, (1,)), graph.value(INT, (2,)), graph.value(FLOAT, (4, 6))
    numbers, reshaped, total = graph.value(INT, (0,)), graph.value(FLOAT, (0, 0)), graph.value(FLOAT, (0,))
    ends = [scalar(each) for each in (graph.constant([1], INT), limit, graph.constant([2], INT))]
    graph.builder.add_operation(Op.TFLITE_RANGE, ends, [numbers])
    graph.builder.add_operation(Op.TFLITE_RESHAPE, [value, shape], [reshaped])
    graph.builder.add_operation(Op.TFLITE_SUM, [reshaped, graph.constant([1], INT), flag], [total])
    model = graph.finish([limit, shape, value], [numbers, total])
    prepared = CpuDevice().prepare_model(model, PrepareOptions())
    assert isinstance(prepared, ValueVariants)
    assert isinstance(prepared.base, GrowingModel)
    source = np.arange(24, dtype=np.float32).reshape(4, 6)
    for end, lengths in ((2, (3, 8)), (40, (12, 2)), (1, (1, 24)), (9, (24, 1)), (7, (-1, 4))):
        assert_same(model, turns(end), np.array(lengths, np.int32), source)
    assert results(model, CpuDevice(), turns(3), np.array([5, 5], np.int32), source) is None


@sweep("kind", ["INT32", "INT64"])
def test_ranges_all_of_whose_inputs_are_data(
    kind: str, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The first lengths for which code was generated made it valid for empty ones only."""
    caplog.set_level(logging.INFO)
    caplog.clear()
    file = TfliteModel()
    graph = file.subgraph()
    inputs = [graph.tensor((), kind, has_rank=True) for _ in range(3)]
    output = graph.tensor((1,), kind, shape_signature=(-1,))
    graph.operator("RANGE", inputs, [output], "RangeOptions")
    graph.inputs, graph.outputs = inputs, [output]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    rising = (0, 10, 1), (5, 100, 7), (3, 4, 9), (0, 1000, 1), (1, 3, 1)
    for numbers in (*rising, (9, -9, -4), (6, 6, 2), (-7, 8, 5), (0, -1000, -1)):
        (found,) = compilation.run(*(np.array(each, kind.lower()) for each in numbers))
        assert found.tolist() == list(range(*numbers))
    assert "on references" not in caplog.text
    for numbers in ((0, -1, 5), (3, 9, -2), (1, 5, 0)):
        with pytest.raises(Error):
            compilation.run(*(np.array(each, kind.lower()) for each in numbers))


def test_a_range_of_as_many_numbers_as_known(compiles_here: None, caplog: pytest.LogCaptureFixture) -> None:
    """Counts, for example, positions of next tokens: the limit less the start is no data."""
    caplog.set_level(logging.INFO)
    file = TfliteModel()
    graph = file.subgraph()
    start, limit = (graph.tensor((), "INT32", has_rank=True) for _ in range(2))
    numbers = graph.tensor((8,), "INT32", shape_signature=(-1,))
    eight, one = (graph.tensor((), "INT32", data=np.array(each, np.int32), has_rank=True) for each in (8, 1))
    graph.operator("ADD", [start, eight], [limit], "AddOptions")
    graph.operator("RANGE", [start, limit, one], [numbers], "RangeOptions")
    graph.inputs, graph.outputs = [start], [numbers]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for first in (0, 5, -3, 1000):
        (found,) = compilation.run(np.array(first, np.int32))
        assert found.tolist() == list(range(first, first + 8))
    assert "on references" not in caplog.text


def test_ranges_of_floats_that_are_data(compiles_here: None, caplog: pytest.LogCaptureFixture) -> None:
    """Elements are sums in order, as those of the reference, and errors are reported."""
    caplog.set_level(logging.INFO)
    file = TfliteModel()
    graph = file.subgraph()
    inputs = [graph.tensor((), has_rank=True) for _ in range(3)]
    output = graph.tensor((1,), shape_signature=(-1,))
    graph.operator("RANGE", inputs, [output], "RangeOptions")
    graph.inputs, graph.outputs = inputs, [output]
    model = nd.load_tflite(file.build())

    def found(device: nd.Device) -> Callable[..., Array]:
        builder = nd.CompilationBuilder(model, [device])
        builder.set_caching(None)
        run = builder.finish().run
        return lambda *numbers: run(*(np.array(each, np.float32) for each in numbers))[0]

    compiled, expected = found(CpuDevice()), found(ReferenceDevice())
    good = [(0, 10, 1), (0, 1, 0.1), (3, -50, -0.7), (0.1, 700, 1 / 3), (5, 5, 2), (5, 5, -2), (1, 1.5, 9)]
    random = np.random.default_rng(5)
    for _ in range(20):
        start, step = random.uniform(-9, 9, 2)
        good.append((start, start + step * random.uniform(0, 90), step))
    for numbers in good:
        np.testing.assert_array_equal(compiled(*numbers), expected(*numbers))
    assert "on references" not in caplog.text
    for numbers in (
        (0, 1, 0),
        (1, 1, 0),
        (0, -1, 2),
        (0, np.inf, 1),
        (0, np.nan, 1),
        (0, 1e30, 1),
        (0, -0.5, 1),
    ):
        for run in (compiled, expected):
            with pytest.raises(Error):
                run(*numbers)


@pytest.mark.parametrize("code", ["NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"])
def test_numbers_of_selected_boxes_that_are_data(
    code: str, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """They may be smaller or larger than the number of boxes."""
    caplog.set_level(logging.INFO)
    file = TfliteModel()
    graph = file.subgraph()
    has_sigma = code.endswith("5")
    boxes, scores = graph.tensor((50, 4)), graph.tensor((50,))
    limit = graph.tensor((), "INT32", has_rank=True)
    limits = [graph.tensor((), data=each) for each in ([0.5, 0.1, 0.5] if has_sigma else [0.5, 0.1])]
    results = [
        graph.tensor((1,), kind, shape_signature=(-1,)) for kind in ("INT32", "FLOAT32")[: 1 + has_sigma]
    ]
    results.append(graph.tensor((), "INT32", has_rank=True))
    options = code.title().replace("_", "") + "Options"
    graph.operator(code, (boxes, scores, limit, *limits), results, options)
    graph.inputs, graph.outputs = (boxes, scores, limit), results
    model = nd.load_tflite(file.build())
    runs = []
    for device in (CpuDevice(), ReferenceDevice()):
        builder = nd.CompilationBuilder(model, [device])
        builder.set_caching(None)
        runs.append(builder.finish().run)
    random = np.random.default_rng(4)
    corners, rates = np.sort(random.uniform(0, 1, (50, 2, 2)), 1), random.uniform(0, 1, 50)
    given = corners.reshape(50, 4).astype(np.float32), rates.astype(np.float32)
    for most in (0, 1, 3, 49, 50, 51, 400):
        found, expected = (run(*given, np.array(most, np.int32)) for run in runs)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert "on references" not in caplog.text


def test_paddings_that_are_data_are_those_of_each_run() -> None:
    """Code for the paddings that were tried must not run for others."""
    builder = nd.ModelBuilder()
    given = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (3,))
    paddings = builder.add_operand(nd.OperandType.TENSOR_INT32, (1, 2))
    output = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (7,))
    builder.add_operation(nd.OperationType.PAD, [given, paddings], [output])
    builder.identify_inputs_and_outputs([given, paddings], [output])
    compilation = nd.CompilationBuilder(builder.finish(), [nd.devices()[0]]).finish()
    values = np.array([1, 2, 3], np.float32)
    for before in (3, 0, 2, 4):
        (found,) = compilation.run(values, np.array([[before, 4 - before]], np.int32))
        np.testing.assert_array_equal(found, np.pad(values, (before, 4 - before)))


@sweep("rank", [1, 2, 3, 4])
@sweep("kind", [Op.TFLITE_REVERSE_V2, Op.TFLITE_CUMSUM, Op.TFLITE_REDUCE_MAX])
def test_axes_that_are_data(kind: nd.OperationType, rank: int) -> None:
    """Axes are not lengths: code for lengths from 2 that is right for 1 says nothing about them."""
    graph, shape = Graph(), tuple(range(2, 2 + rank))
    value = graph.value(shape=shape)
    axes = graph.value(INT, () if kind is Op.TFLITE_CUMSUM else (1,))
    flags = []
    if kind is not Op.TFLITE_REVERSE_V2:
        count = 2 if kind is Op.TFLITE_CUMSUM else 1
        flags = [graph.builder.add_operand(nd.OperandType.BOOL) for _ in range(count)]
        for flag in flags:
            graph.builder.set_operand_value(flag, value=kind is Op.TFLITE_REDUCE_MAX)
    result = graph.value(shape=(0,) * rank)
    graph.builder.add_operation(kind, [value, axes, *flags], [result])
    model = graph.finish([value, axes], [result])
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    source = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for axis in range(-rank, rank):
        given = np.full(() if kind is Op.TFLITE_CUMSUM else (1,), axis, np.int32)
        (found,), (wanted,) = (each.run(source, given) for each in (compiled, reference))
        np.testing.assert_array_equal(found, wanted)


@sweep("kind", [Op.TFLITE_SUM, Op.TFLITE_REDUCE_MAX, Op.TFLITE_REDUCE_PROD])
def test_several_axes_that_are_data_and_removed(
    caplog: pytest.LogCaptureFixture, kind: nd.OperationType
) -> None:
    """No code is generated for axes that were guessed as if they were lengths."""
    graph, shape = Graph(), (2, 3, 4, 5)
    value, axes = graph.value(shape=shape), graph.value(INT, (2,))
    flag = graph.builder.add_operand(nd.OperandType.BOOL)
    graph.builder.set_operand_value(flag, value=False)
    result = graph.value(shape=(0, 0))
    graph.builder.add_operation(kind, [value, axes, flag], [result])
    model = graph.finish([value, axes], [result])
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    source = np.linspace(0.5, 1.5, 120, dtype=np.float32).reshape(shape)
    for pair in ((0, 1), (1, 3), (-1, 0), (3, 2)):
        given = np.array(pair, np.int32)
        (found,), (wanted,) = (each.run(source, given) for each in (compiled, reference))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@sweep("is_depthwise", [False, True])
@sweep("taps", [2, 3, 5])
def test_windows_longer_than_what_they_move_over(taps: int, *, is_depthwise: bool) -> None:
    """Positions before and after an image that is as short as its borders are not read."""
    channels, rng = 32, np.random.default_rng(taps)
    graph = Graph()
    source, count = graph.value(shape=(20, channels)), graph.value(INT, (1,))
    doubled, part = graph.value(shape=(20, channels)), graph.value(shape=(0, channels))
    size, image = graph.value(INT, (2,)), graph.value(shape=(1, 1, 0, channels))
    graph.builder.add_operation(
        Op.TFLITE_CONCATENATION, [count, graph.constant([channels], INT), number(graph, 0)], [size]
    )
    graph.binary(ADD, source, source, doubled)
    graph.builder.add_operation(Op.TFLITE_SLICE, [doubled, graph.constant([4, 0], INT), size], [part])
    graph.builder.add_operation(Op.TFLITE_RESHAPE, [part, graph.constant([1, 1, -1, channels], INT)], [image])
    weights = rng.integers(-2, 3, (1 if is_depthwise else channels, 1, taps, channels))
    filters = graph.builder.add_operand(FLOAT, weights.shape)
    graph.builder.set_operand_value(filters, weights.astype(np.float32))
    bias, result = graph.constant([1.0] * channels), graph.value(shape=(1, 1, 0, channels))
    # Padding as for an output of the same length, strides of 1, and no activation.
    numbers = [number(graph, each) for each in (1, 1, 1, *([1] if is_depthwise else []), 0)]
    operation = Op.DEPTHWISE_CONV_2D if is_depthwise else Op.CONV_2D
    graph.builder.add_operation(operation, [image, filters, bias, *numbers], [result])
    model = graph.finish([source, count], [result, doubled])
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    for length in (16, 3, 2, 1):
        array = np.full((20, channels), 1e6, np.float32)
        array[4 : 4 + length] = rng.integers(-3, 4, (length, channels))
        for found, wanted in zip(
            compiled.run(array, turns(length)), reference.run(array, turns(length)), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)


@sweep("stride", [1, 2, 3])
def test_columns_of_any_number_of_rows(
    stride: int, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """There may be no rows, such as those of a search that has nothing left to look at."""
    caplog.set_level(logging.INFO)
    graph, shape = Graph(), (20, 3)
    source, count = graph.value(shape=shape), graph.value(INT, (1,))
    size, part, column = graph.value(INT, (2,)), graph.value(shape=(0, 3)), graph.value(shape=(0,))
    graph.builder.add_operation(
        Op.TFLITE_CONCATENATION, [count, graph.constant([3], INT), number(graph, 0)], [size]
    )
    graph.builder.add_operation(Op.TFLITE_SLICE, [source, graph.constant([0, 0], INT), size], [part])
    limits = [graph.constant(each, INT) for each in ([0, 1], [0, 2], [stride, 1])]
    # All rows, and one column, whose dimension is removed.
    masks = [number(graph, each) for each in (1, 1, 0, 0, 2)]
    flag = graph.builder.add_operand(nd.OperandType.BOOL)
    graph.builder.set_operand_value(flag, value=False)
    graph.builder.add_operation(Op.TFLITE_STRIDED_SLICE, [part, *limits, *masks, flag], [column])
    builder = nd.CompilationBuilder(graph.finish([source, count], [column]), [CpuDevice()])
    builder.set_caching(None)
    compilation, array = builder.finish(), np.arange(60, dtype=np.float32).reshape(shape)
    for length in (5, 0, 1, 20, 2):
        (found,) = compilation.run(array, turns(length))
        np.testing.assert_array_equal(found, array[:length, 1][::stride])
    assert "runs on references" not in caplog.text


@sweep("reader", ["WHERE", "SCATTER_ND", "UNSORTED_SEGMENT_SUM"])
def test_rows_that_are_searched_or_scattered_may_be_none(
    reader: str, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The result has elements, such as a number, although there are no rows."""
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((6,), name="x")
    limit = graph.tensor((), data=np.float32(0))
    holds, found = graph.tensor((6,), "BOOL"), graph.tensor((1, 1), "INT64", shape_signature=(-1, 1))
    chosen = graph.tensor((1,), shape_signature=(-1,))
    graph.operator("GREATER", [source, limit], [holds], "GreaterOptions")
    graph.operator("WHERE", [holds], [found], "WhereOptions")
    graph.operator("GATHER_ND", [source, found], [chosen], "GatherNdOptions")
    if reader == "WHERE":
        one = graph.tensor((), data=np.float32(1))
        above = graph.tensor((1,), "BOOL", shape_signature=(-1,))
        result = graph.tensor((1, 1), "INT64", shape_signature=(-1, 1))
        graph.operator("GREATER", [chosen, one], [above], "GreaterOptions")
        graph.operator("WHERE", [above], [result], "WhereOptions")
    else:
        shape = (-1, 1) if reader == "SCATTER_ND" else (-1,)
        where = graph.tensor((1,) * len(shape), "INT32", shape_signature=shape)
        wide, given = (
            graph.tensor((1, 1), "INT32", shape_signature=(-1, 1)),
            graph.tensor((len(shape),), "INT32", data=shape),
        )
        result = graph.tensor((6,))
        graph.operator("CAST", [found], [wide], "CastOptions")
        graph.operator("RESHAPE", [wide, given], [where], "ReshapeOptions", NewShape=list(shape))
        if reader == "SCATTER_ND":
            length = graph.tensor((1,), "INT32", data=[6])
            graph.operator("SCATTER_ND", [where, chosen, length], [result], "ScatterNdOptions")
        else:
            count = graph.tensor((), "INT32", data=np.int32(6))
            graph.operator(reader, [chosen, where, count], [result], "UnsortedSegmentSumOptions")
    graph.inputs, graph.outputs = [source], [result]
    model = nd.load_tflite(file.build())
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    with caplog.at_level(logging.INFO, "neurald"):
        for shift in (0.0, -9.0, 9.0, -1.0):
            array = (np.array([-2, -1.5, 0.25, 0.5, 1.5, 2.5]) + shift).astype(np.float32)
            np.testing.assert_array_equal(compiled.run(array)[0], reference.run(array)[0])
    assert "runs on references" not in caplog.text


@sweep("rows", [1, 2, 3, 40])
@sweep("is_open", [False, True])
def test_rows_before_and_after_an_index_that_is_data(
    rows: int, compiles_here: None, caplog: pytest.LogCaptureFixture, *, is_open: bool
) -> None:
    """Slices are specified for the first dimension only."""
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((rows, 2), shape_signature=(-1 if is_open else rows, 2))
    at, zero, one = (
        graph.tensor((1,), "INT32"),
        *(graph.tensor((1,), "INT32", data=[each]) for each in (0, 1)),
    )
    parts = [graph.tensor((1, 2), shape_signature=(-1, 2)) for _ in range(2)]
    masks: dict[str, Any] = dict.fromkeys(("EllipsisMask", "NewAxisMask", "ShrinkAxisMask"), 0)
    for begin, end, part, masked in ((zero, at, parts[0], (1, 0)), (at, zero, parts[1], (0, 1))):
        given: dict[str, Any] = masks | {"BeginMask": masked[0], "EndMask": masked[1]}
        graph.operator("STRIDED_SLICE", [source, begin, end, one], [part], "StridedSliceOptions", **given)
    joined = graph.tensor((rows, 2), shape_signature=(-1, 2))
    graph.operator("CONCATENATION", parts[::-1], [joined], "ConcatenationOptions", Axis=0)
    graph.inputs, graph.outputs = [source, at], [*parts, joined]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation, array = builder.finish(), np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for index in (rows, 0, 1, rows // 2, -1):
            found = compilation.run(array, np.array([index], np.int32))
            for one_, wanted in zip(found, (array[:index], array[index:]), strict=False):
                np.testing.assert_array_equal(one_, wanted)
            np.testing.assert_array_equal(found[2], np.concatenate([array[index:], array[:index]]))
    assert "runs on references" not in caplog.text


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


def _sized_by_data(operator: str) -> tuple[nd.Model, list[Array], list[Array]]:
    """Returns a model whose output's size is data, and inputs for a small and a large one."""
    file = TfliteModel()
    graph = file.subgraph()
    large = (1 << 31) - 1
    image = np.ones((1, 2, 2, 1), np.float32)
    options: dict[str, Any] = {}
    sizes: list[Any]
    if operator == "RANGE":
        given: list[Any] = [np.int32(0)]
        sizes = [np.int32(5), np.int32(large)]
        tensors = [graph.tensor((), "INT32", has_rank=True) for _ in range(2)]
        step = graph.tensor((), "INT32", data=np.array(1, np.int32), has_rank=True)
        inputs, name = [*tensors, step], "RangeOptions"
    else:
        given = [image if "RESIZE" in operator else np.ones(2, np.float32)]
        sizes = [
            np.array(each, np.int32)
            for each in {
                "PAD": ([[1, 2]], [[large, 1]]),
                "FILL": ([3, 2], [large, 2]),
                "BROADCAST_TO": ([3, 2], [large, 2]),
            }.get(operator, ([3, 5], [large, 40_000]))
        ]
        if operator == "FILL":
            given = []
        tensors = [*(graph.tensor(each.shape) for each in given), graph.tensor(sizes[0].shape, "INT32")]
        value = graph.tensor((), "FLOAT32", data=np.array(2, np.float32), has_rank=True)
        inputs, name = [*tensors, *([value] if operator == "FILL" else [])], None
        if "RESIZE" in operator:
            name = "ResizeBilinearOptions" if "BILINEAR" in operator else "ResizeNearestNeighborOptions"
            options = {"AlignCorners": False, "HalfPixelCenters": False}
    rank = {"RANGE": 1, "PAD": 1, "FILL": 2, "BROADCAST_TO": 2}.get(operator, 4)
    kind = "INT32" if operator == "RANGE" else "FLOAT32"
    output = graph.tensor((1,) * rank, kind, shape_signature=(-1,) * rank)
    graph.operator(operator, inputs, [output], name, **options)
    graph.inputs, graph.outputs = tensors, [output]
    return nd.load_tflite(file.build()), [*given, sizes[0]], [*given, sizes[1]]


@sweep("operator", ["BROADCAST_TO", "FILL", "PAD", "RANGE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_sizes_that_are_data_are_limited_as_on_references(operator: str, compiles_here: None) -> None:
    """No memory is mapped for an operand of more than 2^32 - 1 bytes, and others follow."""
    model, small, large = _sized_by_data(operator)
    expected = nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run(*small)[0]
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for _ in range(2):
        np.testing.assert_array_equal(compilation.run(*small)[0], expected)
        with pytest.raises(Error, match=r"more than 2\^32 - 1 bytes"):
            compilation.run(*large)


def test_lengths_beyond_all_limits_run_on_references(
    monkeypatch: pytest.MonkeyPatch, compiles_here: None
) -> None:
    """Lengths may fit by themselves, and not with others that are unknown yet."""
    asked: list[Sequence[int]] = []

    def refused(executable: OpenExecutable, capacities: Sequence[int]) -> Grown:
        asked.append(capacities)
        raise OutOfMemory(f"values of lengths up to {list(capacities)} exceed all limits")

    model, given, _ = _sized_by_data("BROADCAST_TO")
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    compilation.run(*given)
    monkeypatch.setattr(OpenExecutable, "grown", refused)
    found = compilation.run(given[0], np.array([3_000, 2], np.int32))[0]
    np.testing.assert_array_equal(found, np.ones((3_000, 2), np.float32))
    assert asked


def test_a_long_axis_takes_no_memory_for_others(monkeypatch: pytest.MonkeyPatch, compiles_here: None) -> None:
    """Lengths that are not known yet are not taken to be as long as in other executions."""
    taken: list[int] = []

    class Counted(StepMemory):
        def __init__(self, size_bytes: int) -> None:
            taken.append(size_bytes)
            super().__init__(size_bytes)

    monkeypatch.setattr("neurald.drivers.cpu.native.instances.instance.StepMemory", Counted)
    file = TfliteModel()
    graph = file.subgraph()
    value, shape = graph.tensor((1,)), graph.tensor((4,), "INT32")
    output = graph.tensor((1,) * 4, shape_signature=(-1,) * 4)
    graph.operator("BROADCAST_TO", [value, shape], [output], "BroadcastToOptions")
    graph.inputs, graph.outputs = [value, shape], [output]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for lengths in ((30_000, 1, 1, 1), (1, 1, 1, 30_000), (1, 300, 300, 1), (2, 3, 4, 5)):
        found = compilation.run(np.full(1, 7, np.float32), np.array(lengths, np.int32))[0]
        assert found.shape == lengths
        assert (found == 7).all()
    assert 0 < max(taken) < 1 << 28


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

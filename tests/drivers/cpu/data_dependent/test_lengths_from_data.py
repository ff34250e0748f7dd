"""Models in which numbers of rows or elements are data compute what references do."""

import logging
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
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions


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

"""Models in which axes and paddings are data compute what references do."""

import logging

import numpy as np
import pytest
from support.cpu.growing_lists import (
    Op,
)
from support.models.control_flow import INT, Graph
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice


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


@sweep("mask", [0, 2])
def test_elements_at_indexes_that_are_data(
    mask: int, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Several axes are removed, of which some may have an ellipsis between them."""
    file, shape = TfliteModel(), (4, 5, 6)
    graph = file.subgraph()
    source = graph.tensor(shape)
    indexes = [graph.tensor((), "INT32", has_rank=True) for _ in range(2)]
    zero, one = (graph.tensor((), "INT32", data=[each], has_rank=True) for each in (0, 1))
    limits = []
    for added in (zero, one):
        given = []
        for each in indexes:
            given.append(graph.tensor((), "INT32", has_rank=True))
            graph.operator("ADD", [each, added], [given[-1]], "AddOptions")
        parts = [given[0], zero, given[1]] if mask else given
        limits.append(graph.tensor((len(parts),), "INT32"))
        graph.operator("PACK", parts, limits[-1:], "PackOptions", ValuesCount=len(parts), Axis=0)
    steps = graph.tensor((2 + bool(mask),), "INT32", data=[1] * (2 + bool(mask)))
    found = graph.tensor((shape[1 if mask else 2],), shape_signature=(-1,))
    graph.operator(
        "STRIDED_SLICE",
        [source, *limits, steps],
        [found],
        "StridedSliceOptions",
        BeginMask=0,
        EndMask=0,
        NewAxisMask=0,
        EllipsisMask=mask,
        ShrinkAxisMask=5 if mask else 3,
    )
    graph.inputs, graph.outputs = [source, *indexes], [found]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation, array = builder.finish(), np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with caplog.at_level(logging.INFO, "neurald"):
        for first, last in ((2, 3), (0, 0), (3, 1), (-1, -2)):
            (result,) = compilation.run(array, np.array(first, np.int32), np.array(last, np.int32))
            np.testing.assert_array_equal(result, array[first, :, last] if mask else array[first, last])
    assert "runs on references" not in caplog.text

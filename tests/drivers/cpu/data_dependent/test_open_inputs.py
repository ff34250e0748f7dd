"""Models with loops or computed shapes whose inputs have open lengths are compiled once for all."""

import numpy as np
import pytest
from support.cpu.growing_lists import (
    WIDTH,
    Op,
    over,
    pushed,
    rows,
    turns,
)
from support.models.control_flow import ADD, BOOL, FLOAT, INT, Graph
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.open_artifact import read_open_artifact
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import host_target


def test_open_lengths_of_models_with_loops() -> None:
    """Code for any lengths of the inputs is compiled once."""
    model = over(pushed, first=0)
    preparation = Preparation(host_target(process_settings()), 1, keeps_artifact=True)
    opened = preparation.open(model, {model.main.inputs[0]: (67, WIDTH)})
    assert opened is not None
    read = read_open_artifact(opened.artifact())
    assert read.opened.sizings
    loader = ArtifactLoader(host_target(process_settings()), threads=1)
    restored = loader.restore_open(model, opened.artifact())
    for length, count in ((2, 5), (7, 100), (300, 3), (2, 0), (15, 40)):
        for each in (opened, restored):
            sized = each.for_shapes([(length, WIDTH), (1,)])
            assert sized is not None
            variant = sized.prepared
            assert isinstance(variant, GrowingModel)
            assert variant.operand(0, is_output=False).dimensions == (length, WIDTH)
            _, found = variant.native.run_arrays([rows(length), turns(count)])
            np.testing.assert_array_equal(found[:length], rows(length))
            np.testing.assert_array_equal(found[length:], np.tile(rows(1) + 1, (count, 1)))
    assert opened.for_shapes([(1, WIDTH), (1,)]) is None
    assert opened.for_shapes([(5, WIDTH + 1), (1,)]) is None
    assert opened.for_shapes([(5, WIDTH)]) is None
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for length in (5, 9, 1, 40):
        assert compilation.run(rows(length), turns(3))[1].shape == (length + 3, WIDTH)


def test_an_open_length_that_nothing_depends_on_beside_a_loop() -> None:
    """The step has no calls to size besides an empty one."""
    condition, body, graph = Graph(), Graph(), Graph()
    turn, value = condition.value(INT, (1,)), condition.value(shape=(7,))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [turn, condition.constant([3], INT)], [holds])
    carried = [body.value(INT, (1,)), body.value(shape=(7,))]
    following = [
        body.binary(ADD, carried[0], body.constant([1], INT), body.value(INT, (1,))),
        body.binary(ADD, carried[1], carried[1], body.value(shape=(7,))),
    ]
    source, start = graph.value(shape=(0, 7)), graph.value(shape=(7,))
    limits = [graph.constant(each, INT) for each in ((1, 0), (1, 7))]
    part, count, end = graph.value(shape=(1, 7)), graph.value(INT, (1,)), graph.value(shape=(7,))
    graph.builder.add_operation(Op.SLICE, [source, *limits], [part])
    models = [condition.finish([turn, value], [holds]), body.finish(carried, following)]
    graph.builder.add_operation(
        Op.WHILE, [*map(graph.model, models), graph.constant([0], INT), start], [count, end]
    )
    model = graph.finish([source, start], [part, end])
    opened = Preparation(host_target(process_settings()), 1, keeps_artifact=True).open(
        model, {model.main.inputs[0]: (67, 7)}
    )
    assert opened is not None
    restored = ArtifactLoader(host_target(process_settings()), threads=1).restore_open(
        model, opened.artifact()
    )
    for length in (2, 5, 9, 70, 5):
        arrays = rows(length)[:, :1] * np.ones(7, np.float32), np.arange(7, dtype=np.float32)
        for each in (opened, restored):
            sized = each.for_shapes([(length, 7), (7,)])
            assert sized is not None
            variant = sized.prepared
            assert isinstance(variant, GrowingModel)
            row, last = variant.native.run_arrays(arrays)
            np.testing.assert_array_equal(row, arrays[0][1:2])
            np.testing.assert_array_equal(last, arrays[1] * 8)


def test_turns_that_follow_from_a_decided_length() -> None:
    """A condition that is only constant for some lengths is not one for the others."""
    condition, body, graph = Graph(), Graph(), Graph()
    turn, value = condition.value(INT, (1,)), condition.value(shape=(0,))
    limits = [condition.constant([each], INT) for each in (0, 1000, 1)]
    masks = [condition.none] * 5
    flag = condition.builder.add_operand(nd.OperandType.BOOL)
    condition.builder.set_operand_value(flag, value=False)
    # Whether the slice ends before the value does is decided by the example's length.
    condition.builder.add_operation(
        Op.TFLITE_STRIDED_SLICE, [value, *limits, *masks, flag], [condition.value(shape=(0,))]
    )
    shape, whole = condition.value(INT, (1,)), condition.value(INT, (1,))
    condition.builder.add_operation(Op.TFLITE_SHAPE, [value], [shape])
    condition.builder.add_operation(Op.TFLITE_FLOOR_DIV, [shape, limits[1]], [whole])
    limit = condition.binary(ADD, whole, condition.constant([2], INT), condition.value(INT, (1,)))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [turn, limit], [holds])
    carried = [body.value(INT, (1,)), body.value(shape=(0,))]
    results = [
        body.binary(ADD, carried[0], body.constant([1], INT), body.value(INT, (1,))),
        body.binary(ADD, carried[1], body.constant([1.0]), body.value(shape=(0,))),
    ]
    graphs = [
        graph.model(each)
        for each in (condition.finish([turn, value], [holds]), body.finish(carried, results))
    ]
    source, outputs = graph.value(shape=(0,)), [graph.value(INT, (1,)), graph.value(shape=(0,))]
    graph.builder.add_operation(Op.WHILE, [*graphs, graph.constant([0], INT), source], outputs)
    model = graph.finish([source], outputs)
    opened = Preparation(host_target(process_settings()), 1, keeps_artifact=True).open(
        model, {model.main.inputs[0]: (67,)}
    )
    assert opened is not None
    assert opened.for_shapes([(999,)]) is not None
    assert opened.for_shapes([(1000,)]) is None
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for length, count in ((3, 2), (4, 2), (2500, 4), (999, 2), (1000, 3)):
        number_of_turns, result = compilation.run(np.zeros(length, np.float32))
        assert number_of_turns == count
        np.testing.assert_array_equal(result, np.full(length, count))


def test_lengths_that_a_loop_passes_on() -> None:
    """They are the lengths of its values, so that operations on both fit together."""
    condition, body, graph = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, (0,)), (INT, (1,))]
    turn, value, count = (condition.value(*kind) for kind in kinds)
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [turn, condition.constant([4], INT)], [holds])
    given = [body.value(*kind) for kind in kinds]
    flag, ends = body.builder.add_operand(nd.OperandType.BOOL), [body.value(INT, ()) for _ in range(3)]
    body.builder.set_operand_value(flag, value=False)
    first, step = (body.constant([each], INT) for each in (0, 1))
    for each, end in zip((first, given[2], step), ends, strict=True):
        body.builder.add_operation(Op.TFLITE_REDUCE_PROD, [each, body.constant([0], INT), flag], [end])
    numbers, floats = body.value(INT, (0,)), body.value(FLOAT, (0,))
    body.builder.add_operation(Op.TFLITE_RANGE, ends, [numbers])
    body.builder.add_operation(Op.CAST, [numbers], [floats])
    doubled = body.binary(ADD, floats, floats, body.value(FLOAT, (0,)))
    results = [
        body.binary(ADD, given[0], body.constant([1], INT), body.value(INT, (1,))),
        body.binary(ADD, given[1], doubled, body.value(FLOAT, (0,))),
        body.value(INT, (1,)),
    ]
    # Inlining removes it. A graph that is built here returns no input.
    body.builder.add_operation(Op.RESHAPE, [given[2], body.constant([1], INT)], [results[2]])
    graphs = [
        graph.model(each)
        for each in (condition.finish([turn, value, count], [holds]), body.finish(given, results))
    ]
    source, length = graph.value(shape=(0,)), graph.value(INT, (1,))
    graph.builder.add_operation(Op.TFLITE_SHAPE, [source], [length])
    outputs = [graph.value(*kind) for kind in kinds]
    graph.builder.add_operation(Op.WHILE, [*graphs, graph.constant([0], INT), source, length], outputs)
    model = graph.finish([source], outputs)
    opened = Preparation(host_target(process_settings()), 1, keeps_artifact=True).open(
        model, {model.main.inputs[0]: (67,)}
    )
    assert opened is not None
    for count in (2, 3, 16, 17, 1000):
        sized = opened.for_shapes([(count,)])
        assert sized is not None
        variant = sized.prepared
        assert isinstance(variant, CpuPreparedModel)
        turns_, found, passed = variant.native.run_arrays([np.ones(count, np.float32)])
        np.testing.assert_array_equal(found, 1 + 8 * np.arange(count))
        assert (turns_.item(), passed.item()) == (4, count)


@pytest.mark.parametrize("shape", [(4, 3, 5), (40, 30, 50), (1, 0, 7)])
def test_reshapes_of_open_inputs_to_shapes_that_are_inputs(shape: tuple[int, ...]) -> None:
    """The number of bytes that a copy is compiled for may be larger than the buffers."""
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((1, 1, 1), shape_signature=(-1, -1, -1))
    wanted = graph.tensor((2,), "INT32")
    result = graph.tensor((1, 1), shape_signature=(-1, -1))
    graph.operator("RESHAPE", (value, wanted), (result,), "ReshapeOptions")
    graph.inputs, graph.outputs = (value, wanted), (result,)
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for lengths in ([shape[2], shape[0] * shape[1]], [shape[0] * shape[1] * shape[2], 1]):
        (found,) = compilation.run(array, np.array(lengths, np.int32))
        np.testing.assert_array_equal(found, array.reshape(lengths))

"""Models in which lengths change while they run compute what references do."""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.cpu.growing_lists import (
    MANY,
    WIDTH,
    Op,
    assert_same,
    number,
    over,
    pushed,
    results,
    rows,
    turns,
)
from support.models.control_flow import ADD, BOOL, FLOAT, INT, Graph
from support.models.random_loops import random_loops
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
from neurald.drivers.cpu.native.instances.growing_instance import GrowingInstance
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.drivers.cpu.parts.stored_parts import read_parts
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Error, MissedDeadlineTransient
from neurald.hal.execution.reference_model import ReferenceModel


def divided_sum(graph: Graph, value: int, reduction: nd.OperationType = Op.TFLITE_SUM) -> int:
    """Removes the first row, and adds quotients of the sum of all elements to each other row."""
    shorter, total = graph.value(shape=(0, WIDTH)), graph.value(shape=(1, 1))
    limits = [graph.constant(each, INT) for each in ((1, 0), (-1, -1))]
    graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [shorter])
    flag = graph.builder.add_operand(nd.OperandType.BOOL)
    graph.builder.set_operand_value(flag, value=True)
    graph.builder.add_operation(reduction, [shorter, graph.constant([0, 1], INT), flag], [total])
    parts = graph.binary(Op.DIV, total, graph.constant([2.0, 4.0, 8.0]), graph.value(shape=(1, WIDTH)))
    return graph.binary(ADD, shorter, parts, graph.value(shape=(0, WIDTH)))


#: Random programs with each of the forms that have been refused once: slices of a row of which the
#: length follows from data, lists that are empty at first, slices of constants, and sums of no
#: rows.
_SEEDS = [(seed, False) for seed in (4, 33, 54, 57, 60, 62, 141, 162)]


@sweep(
    "seed,appends",
    [*_SEEDS[::2], (0, True)],
    full=[*_SEEDS[1::2], *((seed, True) for seed in range(1, 6))],
)
def test_random_programs(seed: int, *, appends: bool, caplog: pytest.LogCaptureFixture) -> None:
    model, executions = random_loops(seed, grows=True, appends=appends)
    with caplog.at_level(logging.INFO, "neurald"):
        compiled, reference = (
            nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
        )
        for arrays in executions:
            try:
                wanted = reference.run(*arrays)
            except Error:
                # Compiled code does not compute what nothing reads.
                continue
            for found, result in zip(compiled.run(*arrays), wanted, strict=True):
                np.testing.assert_array_equal(found, result)
    assert "not compiled as a whole" not in caplog.text
    assert "runs on references" not in caplog.text


@sweep("count", [0, 1, 2, 31, 400])
def test_lists_that_grow(count: int) -> None:
    _, found = assert_same(over(pushed), rows(), turns(count))
    assert found.shape == (2 + count, WIDTH)


def test_executions_use_the_memory_of_earlier_ones() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    for count in (MANY, 3, 2 * MANY, 0):
        counter, found = compilation.run(rows(), turns(count))
        assert counter.tolist() == [count]
        assert found.tolist() == [[0, 1, 2], [3, 4, 5], *[[1, 2, 3]] * count]


def test_results_are_released_with_their_last_reference() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    gc.collect()
    gc.disable()
    try:
        for count in (MANY, 2 * MANY, 3, MANY):
            _, found = compilation.run(rows(), turns(count))
            assert len(found) == 2 + count
            reference = weakref.ref(found)
            del found, _
            assert reference() is None
    finally:
        gc.enable()


def test_concurrent_executions() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    lengths: list[int] = []

    def execute(count: int) -> None:
        for _ in range(5):
            lengths.append(len(compilation.run(rows(), turns(count))[1]) - count)

    threads = [threading.Thread(target=execute, args=(10 * MANY * n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert lengths == [2] * 20


def test_bodies_are_compiled_once() -> None:
    """The number of kernels does not depend on the number of turns."""
    few, many = (
        CpuDevice().prepare_model(over(pushed, turns=count), PrepareOptions()) for count in (MANY, 10**6)
    )
    assert isinstance(few, GrowingModel)
    assert isinstance(many, GrowingModel)
    assert len(few.native.executable.calls) == len(many.native.executable.calls) < 10


def test_lists_that_shrink_to_nothing() -> None:
    def shorter(graph: Graph, _: int, value: int) -> int:
        result = graph.value(shape=(0, WIDTH))
        limits = [graph.constant(each, INT) for each in ((1, 0), (-1, -1))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [result])
        return result

    for count in (0, 1, 2):
        _, found = assert_same(over(shorter), rows(), turns(count))
        assert found.shape == (2 - count, WIDTH)
    # A slice of nothing is an error, which references report.
    assert results(over(shorter), CpuDevice(), rows(), turns(3)) is None


def test_attention_over_rows_that_grow() -> None:
    """The products and the softmax have other lengths in each turn."""

    def attended(graph: Graph, _: int, value: int) -> int:
        query, scores = graph.value(shape=(1, WIDTH)), graph.value(shape=(1, 0))
        limits = [graph.constant(each, INT) for each in ((0, 0), (1, WIDTH))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [query])
        flags = [graph.builder.add_operand(nd.OperandType.BOOL) for _ in range(2)]
        for flag, is_set in zip(flags, (False, True), strict=True):
            graph.builder.set_operand_value(flag, value=is_set)
        no, yes = flags
        graph.builder.add_operation(Op.BATCH_MATMUL, [query, value, no, yes], [scores])
        beta = graph.builder.add_operand(nd.OperandType.FLOAT32)
        graph.builder.set_operand_value(beta, 0.5)
        weights, row = graph.value(shape=(1, 0)), graph.value(shape=(1, WIDTH))
        graph.builder.add_operation(Op.SOFTMAX, [scores, beta], [weights])
        graph.builder.add_operation(Op.BATCH_MATMUL, [weights, value, no, no], [row])
        longer = graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.CONCATENATION, [value, row, number(graph, 0)], [longer])
        return longer

    model = over(attended)
    for count in (0, 1, 14, 40):
        found, wanted = (
            results(model, device, rows() / 4, turns(count)) for device in (CpuDevice(), ReferenceDevice())
        )
        assert found is not None
        assert wanted is not None
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


def assert_close(model: nd.Model, counts: Sequence[int], caplog: pytest.LogCaptureFixture) -> None:
    """Compares native code with references after some numbers of turns."""
    with caplog.at_level(logging.INFO, "neurald"):
        for count in counts:
            found, wanted = (
                results(model, device, rows() / 4, turns(count))
                for device in (CpuDevice(), ReferenceDevice())
            )
            assert found is not None
            assert wanted is not None
            np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)
    assert "runs on references" not in caplog.text
    assert "not compiled" not in caplog.text


def attention(graph: Graph, value: int) -> int:
    """Adds attention of all rows to all rows."""
    scores, weights, result = (graph.value(shape=shape) for shape in ((0, 0), (0, 0), (0, WIDTH)))
    no, yes = (graph.builder.add_operand(nd.OperandType.BOOL) for _ in range(2))
    graph.builder.set_operand_value(no, value=False)
    graph.builder.set_operand_value(yes, value=True)
    graph.builder.add_operation(Op.BATCH_MATMUL, [value, value, no, yes], [scores])
    beta = graph.builder.add_operand(nd.OperandType.FLOAT32)
    graph.builder.set_operand_value(beta, 0.5)
    graph.builder.add_operation(Op.SOFTMAX, [scores, beta], [weights])
    graph.builder.add_operation(Op.BATCH_MATMUL, [weights, value, no, no], [result])
    return result


def test_attention_of_all_rows_of_a_list(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the rows nor the columns of its scores fill a vector at first."""

    def attended(graph: Graph, _: int, value: int) -> int:
        largest, longer = graph.value(shape=(1, WIDTH)), graph.value(shape=(0, WIDTH))
        keeps = graph.builder.add_operand(nd.OperandType.BOOL)
        graph.builder.set_operand_value(keeps, value=True)
        inputs = [attention(graph, value), graph.constant([0], INT), keeps]
        graph.builder.add_operation(Op.TFLITE_REDUCE_MAX, inputs, [largest])
        graph.builder.add_operation(Op.CONCATENATION, [value, largest, number(graph, 0)], [longer])
        return longer

    assert_close(over(attended), (0, 1, 14, 40), caplog)


@sweep("operation", [Op.TFLITE_SLICE, Op.TFLITE_STRIDED_SLICE])
@sweep("most", [64, 20, 7])
def test_a_constant_limits_a_list(
    operation: nd.OperationType, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each row is added to the row of a table with its number, as positions are encoded."""

    def encoded(graph: Graph, counter: int, value: int) -> int:
        shape, taken = graph.value(INT, (2,)), graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.TFLITE_SHAPE, [value], [shape])
        table = graph.builder.add_operand(FLOAT, (most, WIDTH))
        graph.builder.set_operand_value(table, rows(most) / 8)
        inputs = [table, graph.constant((0, 0), INT), shape]
        if operation is Op.TFLITE_STRIDED_SLICE:
            inputs += [graph.constant((1, 1), INT), *(number(graph, 0) for _ in range(5))]
            inputs.append(graph.builder.add_operand(nd.OperandType.BOOL))
            graph.builder.set_operand_value(inputs[-1], value=False)
        graph.builder.add_operation(operation, inputs, [taken])
        total = graph.binary(ADD, value, taken, graph.value(shape=(0, WIDTH)))
        return pushed(graph, counter, total)

    assert_close(over(encoded), (0, 1, 4, most - 2), caplog)


def test_columns_of_a_list_that_data_chooses(caplog: pytest.LogCaptureFixture) -> None:
    """An index stands for few elements while the list is short."""

    def chosen(graph: Graph, counter: int, value: int) -> int:
        columns, others = (graph.value(shape=(WIDTH, 0)) for _ in range(2))
        graph.builder.add_operation(Op.TRANSPOSE, [value, graph.constant((1, 0), INT)], [columns])
        indexes = graph.binary(
            Op.SUB, graph.constant([WIDTH - 1] * WIDTH, INT), counter, graph.value(INT, (WIDTH,))
        )
        graph.builder.add_operation(Op.GATHER, [columns, number(graph, 0), indexes], [others])
        turned = graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.TRANSPOSE, [others, graph.constant((1, 0), INT)], [turned])
        return pushed(graph, counter, turned)

    assert_close(over(chosen), range(WIDTH + 1), caplog)


@sweep("operation", [Op.TFLITE_FILL, Op.TFLITE_BROADCAST_TO, Op.TFLITE_TILE])
def test_negative_integers_beside_lengths_are_data(
    operation: nd.OperationType, caplog: pytest.LogCaptureFixture
) -> None:
    """They were taken for lengths, so that executions ran on references."""
    graph = Graph()
    is_fill = operation is Op.TFLITE_FILL
    lengths, data = graph.value(INT, (2,)), graph.value(INT, () if is_fill else (1, 1))
    result = graph.value(INT, (0, 0))
    graph.builder.add_operation(operation, [lengths, data] if is_fill else [data, lengths], [result])
    model = graph.finish([lengths, data], [result])
    with caplog.at_level(logging.INFO, "neurald"):
        given = np.full(() if is_fill else (1, 1), -6, np.int32)
        (found,) = assert_same(model, np.array([4, 5], np.int32), given)
    assert found.tolist() == [[-6] * 5] * 4
    assert "runs on references" not in caplog.text


@sweep("declared", [(4, 5), (0, 5), (4, 0)])
@sweep("operation", [Op.TFLITE_FILL, Op.TFLITE_BROADCAST_TO, Op.TFLITE_TILE, Op.TFLITE_RESHAPE])
def test_declared_lengths_that_are_also_data(
    operation: nd.OperationType, declared: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    """Comparing them with lengths for which code is generated made executions use references."""
    graph = Graph()
    of = {Op.TFLITE_FILL: (), Op.TFLITE_TILE: (1, 1), Op.TFLITE_RESHAPE: (20,)}.get(operation, (1, 5))
    lengths, data, result = (graph.value(INT, shape) for shape in ((2,), of, declared))
    is_fill = operation is Op.TFLITE_FILL
    graph.builder.add_operation(operation, [lengths, data] if is_fill else [data, lengths], [result])
    model = graph.finish([lengths, data], [result])
    given = np.arange(np.prod(of, dtype=int), dtype=np.int32).reshape(of)
    with caplog.at_level(logging.INFO, "neurald"):
        assert_same(model, np.array([4, 5], np.int32), given)
    assert "on references" not in caplog.text
    if all(declared):
        assert results(model, CpuDevice(), np.array([5, 4], np.int32), given) is None


def test_lengths_that_vary_in_turn_fit_together(compiles_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated step got new memory for each length that was longer than the last one."""
    graph = Graph()
    lengths, data, result = graph.value(INT, (2,)), graph.value(FLOAT, ()), graph.value(FLOAT, (0, 0))
    graph.builder.add_operation(Op.TFLITE_FILL, [lengths, data], [result])
    builder = nd.CompilationBuilder(graph.finish([lengths, data], [result]), [CpuDevice()], threads=1)
    builder.set_startup(nd.Startup.OPTIMIZED)
    compilation = builder.finish()
    made: list[NativeModel] = []
    call = NativeModel.growing_call

    def counted(
        native: NativeModel, lengths: Sequence[int], earlier: GrowingCall | None = None
    ) -> GrowingCall | None:
        made.append(native)
        return call(native, lengths, earlier)

    monkeypatch.setattr(NativeModel, "growing_call", counted)
    monkeypatch.setattr("neurald.drivers.cpu.data_dependent.growing_model._LONGER", 10**6)
    for turn in range(20):
        shape = (40, 1 + turn % 3) if turn % 2 else (1 + turn % 3, 40)
        (found,) = compilation.run(np.array(shape, np.int32), np.float32(turn))
        assert found.shape == shape
        assert (found == turn).all()
    assert 0 < len(made) < 6


@sweep("combiner", [0, 1, 2])
def test_rows_combined_for_destinations_that_are_data(
    combiner: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Code for their numbers was valid for one of them, so that executions ran on references."""
    graph = Graph()
    inputs = [graph.value(INT, (3,)), graph.value(INT, (3, 2)), graph.value(INT, (2,))]
    inputs += [graph.value(FLOAT, shape) for shape in ((3,), (4, WIDTH))]
    kind, result = graph.builder.add_operand(nd.OperandType.INT32), graph.value(FLOAT, (0, 0))
    graph.builder.set_operand_value(kind, combiner)
    graph.builder.add_operation(Op.TFLITE_EMBEDDING_LOOKUP_SPARSE, [*inputs, kind], [result])
    model = graph.finish(inputs, [result])
    weights, indexes = np.array([0.5, 2, 1], np.float32), np.array([[1, 0], [0, 3], [1, 1]], np.int32)
    device = CpuDevice()
    with caplog.at_level(logging.INFO, "neurald"):
        for count in (2, 3, 50):
            lengths = np.array([count, 5], np.int32)
            given = np.array([3, 0, 1], np.int32), indexes, lengths, weights, rows(4)
            found, wanted = (results(model, each, *given) for each in (device, ReferenceDevice()))
            assert found is not None
            assert wanted is not None
            assert found[0].shape == (count, WIDTH)
            np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
        given = given[0], indexes, np.array([0, 5], np.int32), weights, rows(4)
        assert results(model, device, *given) is None
    assert "runs on references" not in caplog.text


def test_lengths_for_which_the_code_is_not_valid_run_on_references(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The maximum of no rows is one of them."""
    model = over(lambda graph, _, value: divided_sum(graph, value, Op.TFLITE_REDUCE_MAX), first=6)
    with caplog.at_level(logging.INFO, "neurald"):
        assert_same(model, rows(6), turns(3))
        assert "runs on references" not in caplog.text
        assert_same(model, rows(6), turns(6))
        assert "runs on references" in caplog.text


def _list_written() -> nd.Model:
    """Returns a loop that writes each row of a list, whose length is an input."""
    graph, condition, body = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, (0, WIDTH)), (INT, (1,))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, body))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[2]], [holds])
    counted = body.binary(ADD, given[0], body.constant([1], INT), body.value(INT, (1,)))
    size, begin = body.value(INT, (2,)), body.value(INT, (2,))
    for part, other, both in ((given[0], -1, size), (counted, 0, begin)):
        inputs = [part, body.constant([other], INT), number(body, 0)]
        body.builder.add_operation(Op.TFLITE_CONCATENATION, inputs, [both])
    head, tail, joined = (body.value(shape=(0, WIDTH)) for _ in range(3))
    body.builder.add_operation(Op.SLICE, [given[1], body.constant([0, 0], INT), size], [head])
    body.builder.add_operation(Op.SLICE, [given[1], begin, body.constant([-1, -1], INT)], [tail])
    row = body.value(shape=(1, WIDTH))
    turn = body.value(shape=(1,))
    body.builder.add_operation(Op.CAST, [given[0]], [turn])
    half = body.builder.add_operand(FLOAT, (1, WIDTH))
    body.builder.set_operand_value(half, [[0.5] * WIDTH])
    body.binary(ADD, turn, half, row)
    body.builder.add_operation(Op.CONCATENATION, [head, row, tail, number(body, 0)], [joined])
    models = condition.finish(tested, [holds]), body.finish(given, [counted, joined])
    limit, shape, rows_ = graph.value(INT, (1,)), graph.value(INT, (2,)), graph.value(shape=(0, WIDTH))
    inputs = [limit, graph.constant([WIDTH], INT), number(graph, 0)]
    graph.builder.add_operation(Op.TFLITE_CONCATENATION, inputs, [shape])
    value = graph.builder.add_operand(nd.OperandType.FLOAT32)
    graph.builder.set_operand_value(value, 7.0)
    graph.builder.add_operation(Op.FILL, [shape, value], [rows_])
    outputs = [graph.value(*kind) for kind in kinds[:2]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), rows_, limit]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    return graph.finish([limit], outputs)


@sweep("count", [1, 2, 3, 40])
def test_elements_of_lists_of_any_length_are_written(count: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "neurald"):
        found = assert_same(_list_written(), turns(count))
    assert found[1].shape == (count, WIDTH)
    assert "runs on references" not in caplog.text
    assert "not compiled" not in caplog.text


@sweep("size", [2, 3, 7, 40])
def test_images_are_pooled_down_to_one_element(size: int, caplog: pytest.LogCaptureFixture) -> None:
    graph, condition, body = Graph(), Graph(), Graph()
    tested, given = (each.value(shape=(1, 0, 0, 2)) for each in (condition, body))
    shape, height, holds = condition.value(INT, (4,)), condition.value(INT, (1,)), condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.TFLITE_SHAPE, [tested], [shape])
    limits = [condition.constant([1], INT) for _ in range(2)]
    condition.builder.add_operation(Op.TFLITE_SLICE, [shape, *limits], [height])
    condition.builder.add_operation(Op.GREATER, [height, limits[0]], [holds])
    smaller = body.value(shape=(1, 0, 0, 2))
    same_padding = [number(body, each) for each in (1, 2, 2, 2, 2, 0)]
    body.builder.add_operation(Op.AVERAGE_POOL_2D, [given, *same_padding], [smaller])
    models = condition.finish([tested], [holds]), body.finish([given], [smaller])
    image, output = (graph.value(shape=(1, 0, 0, 2)) for _ in range(2))
    graph.builder.add_operation(Op.WHILE, [*map(graph.model, models), image], [output])
    model = graph.finish([image], [output])
    source = np.random.default_rng(size).random((1, size, size, 2), np.float32)
    with caplog.at_level(logging.INFO, "neurald"):
        found, wanted = (results(model, device, source) for device in (CpuDevice(), ReferenceDevice()))
    assert found is not None
    assert wanted is not None
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
    assert "runs on references" not in caplog.text
    assert "not compiled" not in caplog.text


@sweep("count", [2, 3, 40, 300])
def test_lists_that_shrink_until_they_are_empty(count: int, caplog: pytest.LogCaptureFixture) -> None:
    """Rows are taken from the front while there are any."""
    graph, condition, body = Graph(), Graph(), Graph()
    kinds = [(FLOAT, (0, WIDTH)), (FLOAT, (1, WIDTH))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, body))
    shape, left, holds = condition.value(INT, (2,)), condition.value(INT, (1,)), condition.value(BOOL, (1,))
    limits = [condition.constant([each], INT) for each in (0, 1)]
    condition.builder.add_operation(Op.TFLITE_SHAPE, [tested[0]], [shape])
    condition.builder.add_operation(Op.TFLITE_SLICE, [shape, *limits], [left])
    condition.builder.add_operation(Op.GREATER, [left, limits[0]], [holds])
    first, shorter = body.value(FLOAT, (1, WIDTH)), body.value(FLOAT, (0, WIDTH))
    for begin, size, result in (((0, 0), (1, WIDTH), first), ((1, 0), (-1, -1), shorter)):
        limits = [body.constant(each, INT) for each in (begin, size)]
        body.builder.add_operation(Op.TFLITE_SLICE, [given[0], *limits], [result])
    half = body.binary(Op.MUL, given[1], body.constant([0.5]), body.value(*kinds[1]))
    total = body.binary(ADD, half, first, body.value(*kinds[1]))
    models = condition.finish(tested, [holds]), body.finish(given, [shorter, total])
    inputs, outputs = ([graph.value(*kind) for kind in kinds] for _ in range(2))
    graph.builder.add_operation(Op.WHILE, [*map(graph.model, models), *inputs], outputs)
    model = graph.finish(inputs, outputs)
    with caplog.at_level(logging.INFO, "neurald"):
        found = assert_same(model, rows(count), np.ones((1, WIDTH), np.float32))
    assert len(found[0]) == 0
    assert "runs on references" not in caplog.text
    assert "not compiled" not in caplog.text


def test_time_outs_and_deadlines_end_loops_that_grow() -> None:
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    arrays = rows(), turns(2**30)
    started = time.monotonic()
    with pytest.raises(MissedDeadlineTransient):
        model.native.run_arrays(arrays, loop_timeout_s=0.05)
    with pytest.raises(MissedDeadlineTransient):
        model.native.run_arrays(arrays, deadline_s=time.monotonic() + 0.05)
    assert time.monotonic() - started < 5


def test_outputs_that_do_not_fit_are_reported() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    execution = nd.Execution(compilation)
    execution.set_input(0, rows())
    execution.set_input(1, turns(5))
    small = np.zeros((3, WIDTH), np.float32)
    execution.set_output(0, np.zeros(1, np.int32))
    execution.set_output(1, small)
    with pytest.raises(Error, match="output 1"):
        execution.compute()
    assert not small.any()


def test_other_processes_compile_models_whose_lengths_change() -> None:
    """A compiling process's results are restored with the model; damaged contents are refused."""
    model = over(pushed)
    device = CpuDevice()
    compiled = device.compile(model, None, PrepareOptions())
    assert compiled.artifact is not None
    loader = ArtifactLoader(device._target, threads=1)
    steps = read_parts(compiled.artifact, model, loader.restore)
    restored = ReferenceModel(model, steps)
    (segment,) = restored.steps[0]
    assert isinstance(segment, NativeSegment)
    assert segment.native.opened is not None
    found = segment.run([rows(), turns(70)], ExecuteOptions())
    assert found is not None
    assert found[1][0].shape == (72, WIDTH)
    opened = segment.native.opened
    for damaged in (
        msgspec.structs.replace(opened, sizings=(len(opened.template.calls),)),
        msgspec.structs.replace(opened, extents=(*opened.extents, 0)),
        msgspec.structs.replace(opened, instructions=opened.instructions[1:]),
        msgspec.structs.replace(opened, symbols=()),
    ):
        with pytest.raises(BadData):
            damaged.check()


def test_models_whose_lengths_change_are_cached(tmp_path: Path) -> None:
    """The second compilation restores the code."""
    for _ in range(2):
        builder = nd.CompilationBuilder(over(pushed), [CpuDevice()])
        builder.set_caching(tmp_path, b"0" * 32)
        compilation = builder.finish()
        assert compilation.run(rows(), turns(40))[1].shape == (42, WIDTH)


def test_each_run_executes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs get the sizes that the execution finds."""
    executed: list[str] = []
    run, run_arrays = GrowingInstance.run, GrowingInstance.run_arrays

    def counted(self: GrowingInstance, *arguments: Any) -> Any:
        executed.append("run")
        return run(self, *arguments)

    def counted_arrays(self: GrowingInstance, *arguments: Any) -> list[Any] | None:
        executed.append("repeated")
        return run_arrays(self, *arguments)

    monkeypatch.setattr(GrowingInstance, "run", counted)
    monkeypatch.setattr(GrowingInstance, "run_arrays", counted_arrays)
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    for count in (50, 50, 49, 70, 2):
        _, found = compilation.run(rows(), turns(count))
        assert found.shape == (2 + count, WIDTH)
    # Only a longer list than there is memory for ends a repeated run.
    assert executed == ["run", "repeated", "repeated", "repeated", "run", "repeated"]


def test_descriptions_of_operands() -> None:
    """Operands with lengths that change are declared as open."""
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    assert model.operand(1, is_output=True).dimensions == (0, WIDTH)
    assert model.operand(0, is_output=True).dimensions == (1,)
    assert model.operand(0, is_output=False).dimensions == (2, WIDTH)

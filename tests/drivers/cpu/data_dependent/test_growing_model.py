"""Models in which lengths change while they run compute what references do."""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
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
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
from neurald.drivers.cpu.native.instances.step_memory import StepMemory
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.open_artifact import read_open_artifact
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.drivers.cpu.parts.stored_parts import read_parts
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.target.open_executable import Grown, OpenExecutable
from neurald.drivers.cpu.target.target import host_target
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Error, MissedDeadlineTransient, OutOfMemory
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.operations.machinery.call import Array


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


def test_threads_share_a_step_that_is_repeated_without_the_gil(
    compiles_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph()
    length, data, result = graph.value(INT, (1,)), graph.value(FLOAT, ()), graph.value(FLOAT, (0,))
    graph.builder.add_operation(Op.TFLITE_FILL, [length, data], [result])
    builder = nd.CompilationBuilder(graph.finish([length, data], [result]), [CpuDevice()], threads=1)
    builder.set_startup(nd.Startup.OPTIMIZED)
    compilation = builder.finish()
    made: list[bool] = []
    bind = GrowingCall.bind_arrays

    def counted(call: GrowingCall, *, releases_gil: bool = False) -> None:
        made.append(releases_gil)
        bind(call, releases_gil=releases_gil)

    monkeypatch.setattr(GrowingCall, "bind_arrays", counted)
    # No step keeps the GIL.
    monkeypatch.setattr("neurald.drivers.cpu.data_dependent.growing_model._LONGER", 0)
    compilation.run(np.array([60_000], np.int32), np.float32(1))
    compilation.run(np.array([60_000], np.int32), np.float32(1))
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(60):
            count = 50_000 + 100 * number + turn
            (found,) = compilation.run(np.array([count], np.int32), np.float32(number))
            if found.shape != (count,) or (found != number).any():
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert made[:2] == [False, True]
    # A thread that finds the step in use takes the regular way.
    assert len(made) < 10


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
    for numbers in ((0, 10, 1), (5, 100, 7), (3, 4, 9), (0, 1000, 1), (1, 3, 1)):
        (found,) = compilation.run(*(np.array(each, kind.lower()) for each in numbers))
        assert found.tolist() == list(range(*numbers))
    assert "runs on references" not in caplog.text
    for numbers in ((9, -9, -4), (6, 6, 2)):
        (found,) = compilation.run(*(np.array(each, kind.lower()) for each in numbers))
        assert found.tolist() == list(range(*numbers))


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


def test_each_run_executes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs get the sizes that the execution finds."""
    executed: list[NativeModel] = []
    run = NativeModel.run

    def counted(self: NativeModel, *arguments: Any, **limits: Any) -> None:
        executed.append(self)
        run(self, *arguments, **limits)

    monkeypatch.setattr(NativeModel, "run", counted)
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    for runs, count in enumerate((50, 50, 49, 70, 2), start=1):
        _, found = compilation.run(rows(), turns(count))
        assert found.shape == (2 + count, WIDTH)
        assert len(executed) == runs


def test_descriptions_of_operands() -> None:
    """Operands with lengths that change are declared as open."""
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    assert model.operand(1, is_output=True).dimensions == (0, WIDTH)
    assert model.operand(0, is_output=True).dimensions == (1,)
    assert model.operand(0, is_output=False).dimensions == (2, WIDTH)


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
    """Of an image that is as short as its borders, positions before and after it are not read."""
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

"""Repeated executions of short models in which lengths follow from data."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances import short_steps
from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
from neurald.drivers.cpu.native.instances.growing_instance import GrowingInstance
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.execution.direct_calls import ShortExecution
from neurald.hal.model.request import Request

Array = np.ndarray[Any, Any]
WIDTH = 5


@pytest.fixture(scope="module")
def model() -> nd.Model:
    """Tiles a row as often as the first input says, and adds a number; also counts the rows."""
    file = TfliteModel()
    graph = file.subgraph()
    times = graph.tensor((2,), "INT32")
    number = graph.tensor((), "FLOAT32", has_rank=True)
    row = graph.tensor((1, WIDTH), data=np.arange(WIDTH))
    tiled, total = (graph.tensor((1, WIDTH), shape_signature=(-1, -1)) for _ in range(2))
    shape = graph.tensor((2,), "INT32")
    graph.operator("TILE", (row, times), (tiled,))
    graph.operator("ADD", (tiled, number), (total,), "AddOptions")
    graph.operator("SHAPE", (total,), (shape,), "ShapeOptions", OutType=2)
    graph.inputs, graph.outputs = (times, number), (total, shape)
    return nd.load_tflite(file.build())


@pytest.fixture(params=["short", "long"])
def compilation(
    model: nd.Model, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> nd.Compilation:
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", 1 << 40 if request.param == "short" else -1)
    return nd.CompilationBuilder(model, [CpuDevice()]).finish()


def times(*counts: int) -> Array:
    return np.array(counts, np.int32)


def expected(counts: Array, number: float) -> Array:
    return np.tile(np.arange(WIDTH, dtype=np.float32)[None], counts) + np.float32(number)


_COUNTS = [(1, 1), (3, 2), (3, 2), (3, 2), (2, 2), (7, 1), (1, 9), (0, 3), (3, 0), (90, 70), (3, 2), (3, 2)]


def test_runs_on_arrays(compilation: nd.Compilation) -> None:
    for number, counts in enumerate(_COUNTS):
        total, shape = compilation.run(times(*counts), np.float32(number))
        np.testing.assert_array_equal(total, expected(times(*counts), number))
        assert tuple(shape.tolist()) == total.shape == (counts[0], WIDTH * counts[1])


def test_repeated_executions(compilation: nd.Compilation) -> None:
    counts, number = times(1, 1), np.array(0.5, np.float32)
    total, shape = np.zeros(100 * 100 * WIDTH, np.float32), np.zeros(2, np.int32)
    execution = nd.Execution(compilation, reusable=True)
    for index, each in enumerate((counts, number)):
        execution.set_input(index, each)
    execution.set_output(0, total)
    execution.set_output(1, shape)
    for turn, wanted in enumerate(_COUNTS):
        counts[:], number[()] = wanted, turn
        total[:] = -1
        execution.compute()
        rows, columns = execution.output_dimensions(0)
        assert (rows, columns) == tuple(shape.tolist()) == (wanted[0], WIDTH * wanted[1])
        np.testing.assert_array_equal(total[: rows * columns].reshape(rows, columns), expected(counts, turn))


@pytest.mark.parametrize("kind", ["RANGE", "TILE", "RESHAPE"])
def test_outputs_are_written_in_place(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that are longer than before, up to the buffer's length, are not copied either."""
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", 1 << 40)
    file = TfliteModel()
    graph = file.subgraph()
    if kind == "RANGE":
        fed = [graph.tensor((), "INT32", has_rank=True) for _ in range(3)]
        result = graph.tensor((1,), "INT32", shape_signature=(-1,))
        values = [[np.array(each, np.int32) for each in (0, n, 1)] for n in (40, 40, 40, 7, 60, 61, 40)]
    elif kind == "TILE":
        fed = [graph.tensor((3,), "INT32"), graph.tensor((1,), "INT32")]
        result = graph.tensor((3,), "INT32", shape_signature=(-1,))
        values = [[np.arange(3, dtype=np.int32), times(n)] for n in (13, 13, 13, 2, 20, 21, 13)]
    else:
        fed = [graph.tensor((60,), "INT32"), graph.tensor((2,), "INT32")]
        result = graph.tensor((1, 1), "INT32", shape_signature=(-1, -1))
        shapes = [(n, 60 // n) for n in (6, 6, 6, 3, 60, 61, 6)]
        values = [[np.arange(60, dtype=np.int32), times(*each)] for each in shapes]
    graph.operator(kind, fed, (result,))
    graph.inputs, graph.outputs = fed, (result,)
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    reference = nd.CompilationBuilder(compilation.model, [ReferenceDevice()]).finish()
    buffer = np.zeros(60 + 8, np.int32)
    inputs = [each.copy() for each in values[0]]
    execution = _execution(compilation, inputs, (buffer[:60],))
    calls: list[GrowingCall] = []
    bind = GrowingCall.bind

    def bound(self: GrowingCall, *addresses: Any) -> None:
        calls.append(self)
        bind(self, *addresses)

    monkeypatch.setattr(GrowingCall, "bind", bound)
    for given in values:
        for array, value in zip(inputs, given, strict=True):
            array[...] = value
        buffer[:] = -1
        try:
            (expected_result,) = reference.run(*given)
        except nd.Error:
            expected_result = None
        if expected_result is None or expected_result.size > 60:
            with pytest.raises(nd.Error):
                execution.compute()
        else:
            execution.compute()
            assert execution.output_dimensions(0) == expected_result.shape
            found = buffer[: expected_result.size].reshape(expected_result.shape)
            np.testing.assert_array_equal(found, expected_result)
        assert (buffer[60:] == -1).all()
    assert calls
    assert not any(call.copied_outputs for call in calls)


def _execution(compilation: nd.Compilation, inputs: Sequence[Any], outputs: Sequence[Any]) -> nd.Execution:
    """Returns a reusable execution on these arrays."""
    execution = nd.Execution(compilation, reusable=True)
    for index, array in enumerate(inputs):
        execution.set_input(index, array)
    for index, array in enumerate(outputs):
        execution.set_output(index, array)
    return execution


def test_a_buffer_may_be_too_small(compilation: nd.Compilation) -> None:
    counts, number = times(2, 1), np.array(1, np.float32)
    total, shape = np.zeros(4 * WIDTH, np.float32), np.zeros(2, np.int32)
    execution = _execution(compilation, (counts, number), (total, shape))
    for _ in range(2):
        for rows in (2, 2, 2, 4, 4):
            counts[:] = rows, 1
            execution.compute()
            assert execution.output_dimensions(0) == (rows, WIDTH)
        counts[:] = 5, 1
        with pytest.raises(nd.OutputInsufficientSize, match=r"output 0 has shape \[5, 5\]"):
            execution.compute()


def test_they_run_native_code_only(
    compilation: nd.Compilation, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Neither the regular path nor, if they are short, the loop that continues in more memory."""
    counts, number = times(2, 1), np.array(1, np.float32)
    total, shape = np.zeros(100 * WIDTH, np.float32), np.zeros(2, np.int32)
    execution = _execution(compilation, (counts, number), (total, shape))
    for _ in range(3):
        execution.compute()
        compilation.run(counts, number)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it is not repeated by its function")

    monkeypatch.setattr(GrowingModel, "execute", refuse)
    if "short" in request.node.name:
        monkeypatch.setattr(GrowingInstance, "run", refuse)
        monkeypatch.setattr(NativeModel, "run_arrays", refuse)
    for rows in (2, 3, 4, 2):
        counts[:] = rows, 1
        execution.compute()
        assert execution.output_dimensions(0) == (rows, WIDTH)
        np.testing.assert_array_equal(compilation.run(counts, number)[0], expected(counts, 1))


def test_another_execution_has_other_lengths_before_the_first_repetition(
    compilation: nd.Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shapes that a function expects at first need not be those of its own execution."""
    create = GrowingModel.create_short_execution

    def create_later(self: GrowingModel, request: Request) -> ShortExecution | None:
        self.native.run_arrays([times(4, 1), np.array(1, np.float32)])
        return create(self, request)

    monkeypatch.setattr(GrowingModel, "create_short_execution", create_later)
    counts, number = times(2, 1), np.array(1, np.float32)
    total, shape = np.zeros(9 * WIDTH, np.float32), np.zeros(2, np.int32)
    execution = nd.Execution(compilation, reusable=True)
    for index, each in enumerate((counts, number)):
        execution.set_input(index, each)
    for index, each in enumerate((total, shape)):
        execution.set_output(index, each)
    for rows in (2, 4, 4, 3, 4):
        counts[:] = rows, 1
        execution.compute()
        assert execution.output_dimensions(0) == (rows, WIDTH) == tuple(shape.tolist())
        np.testing.assert_array_equal(total[: rows * WIDTH].reshape(rows, WIDTH), expected(counts, 1))


def test_arguments_that_the_code_refuses(compilation: nd.Compilation, model: nd.Model) -> None:
    reference = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    for _ in range(3):
        compilation.run(times(2, 1), np.float32(1))
        for each in (compilation, reference):
            with pytest.raises(nd.OpFailed):
                each.run(times(-1, 2), np.float32(1))
            with pytest.raises(nd.BadData):
                each.run(times(1, 2, 3), np.float32(1))


def test_concurrent_runs(compilation: nd.Compilation) -> None:
    failed: list[object] = []

    def run(rows: int) -> None:
        for turn in range(300):
            counts = times(rows + turn % 2, 2)
            if not np.array_equal(compilation.run(counts, np.float32(rows))[0], expected(counts, rows)):
                failed.append(rows)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed

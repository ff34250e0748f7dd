"""Runs of a step whose lengths change are repeated in native code."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.cpu.growing_lists import (
    MANY,
    WIDTH,
    Op,
    over,
    pushed,
    rows,
    turns,
)
from support.models.control_flow import FLOAT, INT, Graph

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
from neurald.drivers.cpu.native.instances.growing_instance import GrowingInstance
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Cancelled, MissedDeadlineTransient, OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.sync.cancellation import NEVER_CANCELLED, Cancellation


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


def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Returns a list to which each repeated run appends whether it has results."""
    found: list[bool] = []
    run_arrays = GrowingInstance.run_arrays

    def noted(self: GrowingInstance, *arguments: Any) -> list[Any] | None:
        results = None
        try:
            results = run_arrays(self, *arguments)
        finally:
            found.append(results is not None)
        return results

    monkeypatch.setattr(GrowingInstance, "run_arrays", noted)
    return found


def assert_pushed(found: np.ndarray[Any, Any], source: np.ndarray[Any, Any], count: int) -> None:
    np.testing.assert_array_equal(found, np.concatenate([source, *[source[:1] + 1] * count]))


def test_results_of_repeated_runs_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths change from run to run, up to those for which there is no memory yet."""
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    are_repeated = repeated(monkeypatch)
    counts = (1, 1, 0, 5, 5, 20, 0, MANY, MANY, 10 * MANY, 3, 3, 1)
    kept = []
    for turn, count in enumerate(counts):
        source = rows() + np.float32(turn)
        kept.append((source, source.copy(), *compilation.run(source, turns(count))))
    for count, (source, unchanged, counter, found) in zip(counts, kept, strict=True):
        np.testing.assert_array_equal(source, unchanged)
        assert counter.tolist() == [count]
        assert_pushed(found, unchanged, count)
    assert sum(are_repeated) >= 9


def test_arrays_that_native_code_refuses_run_in_turn_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    wide = np.zeros((2, 2 * WIDTH), np.float32)
    wide[:, ::2] = rows()
    unaligned = np.zeros(rows().nbytes + 1, np.uint8)[1:].view(np.float32).reshape(rows().shape)
    unaligned[:] = rows()
    compilation.run(rows(), turns(4))
    are_repeated = repeated(monkeypatch)
    for source in (rows(), wide[:, ::2], unaligned, rows(), rows().T.copy().T, rows()):
        for count in (4, 6):
            _, found = compilation.run(source, turns(count))
            assert_pushed(found, rows(), count)
    assert sum(are_repeated) >= 6


def test_requests_and_repeated_runs_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    are_repeated = repeated(monkeypatch)
    source, limit = rows(), turns(0)
    counter, buffer = np.zeros(1, np.int32), np.zeros((100, WIDTH), np.float32)
    execution = nd.Execution(compilation, reusable=True)
    for index, array in enumerate((source, limit)):
        execution.set_input(index, array)
    for index, array in enumerate((counter, buffer)):
        execution.set_output(index, array)
    for turn, count in enumerate((3, 3, 60, 2, 2, 7)):
        limit[...], source[...] = count, rows() + turn
        execution.compute()
        assert execution.output_dimensions(1) == (2 + count, WIDTH)
        _, found = compilation.run(rows() - turn, turns(count + 1))
        assert_pushed(buffer[: 2 + count], rows() + turn, count)
        assert_pushed(found, rows() - turn, count + 1)
    assert sum(are_repeated) >= 4


def test_reusable_executions_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their outputs may be where an input is, and have room for some lengths only."""
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    are_repeated = repeated(monkeypatch)
    memory, limit, counter = np.zeros((12, WIDTH), np.float32), turns(3), turns(0)
    pools = tuple(HostMemory(each) for each in (memory, limit, counter))
    inputs = [Argument(pool=0, length=rows().nbytes), Argument(pool=1, length=4)]
    outputs = [Argument(pool=2, length=4), Argument(pool=0, length=memory.nbytes)]
    request = Request(inputs=tuple(inputs), outputs=tuple(outputs), pools=pools)
    model.execute(request, ExecuteOptions())
    run = model.create_reusable_execution(request)
    assert run is not None
    for turn, count in enumerate((3, 3, 9, 2, 2, 0)):
        memory[:2], limit[...] = rows() + turn, count
        result = run(NEVER_CANCELLED)
        assert result is not None
        assert result.output_shapes[1].dimensions == (2 + count, WIDTH)
        assert counter.tolist() == [count]
        assert_pushed(memory[: 2 + count], rows() + turn, count)
    assert are_repeated == [True] * 6
    limit[...] = 11
    with pytest.raises(OpFailed, match="do not fit"):
        run(NEVER_CANCELLED)
    cancelled = Cancellation()
    cancelled.cancel()
    limit[...] = 9
    with pytest.raises(Cancelled):
        run(cancelled)


def test_a_repeated_run_that_is_stopped_changes_none_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is cancelled, has no time left, or the interpreter raises in the middle."""
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    repeat = model.native.repeating_function(model._lengths)
    assert repeat is not None

    def check() -> None:
        _, wanted = model.native.run_arrays([rows(), turns(9)])
        for count in (9, 4):
            found = repeat([rows(), turns(count)], None)
            assert found is not None
            np.testing.assert_array_equal(found[1], wanted[: 2 + count])

    check()
    (instance,) = model.native._instances._idle
    assert isinstance(instance, GrowingInstance)
    instance.cancellation.cancel()
    assert repeat([rows(), turns(9)], None) is None
    instance.cancellation = Cancellation()  # type: ignore[misc]
    check()
    with pytest.raises(MissedDeadlineTransient):
        model.native.run_arrays([rows(), turns(2**30)], loop_timeout_s=0.02)
    check()
    prepare = GrowingCall.prepare_inputs
    for is_late in (False, True):

        def interrupted(call: GrowingCall, lengths: Sequence[int], *, is_late: bool = is_late) -> None:
            if is_late:
                prepare(call, lengths)
            raise KeyboardInterrupt

        model.native.run_arrays([rows(), turns(9)])
        with monkeypatch.context() as patch:
            patch.setattr(GrowingCall, "prepare_inputs", interrupted)
            with pytest.raises(KeyboardInterrupt):
                repeat([rows(), turns(9)], None)
        check()


def test_loops_of_repeated_runs_time_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The execution of a request, which says why, is the only other one."""
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    run = model.create_array_function([rows().shape, turns(0).shape], ())
    assert run is not None
    for count in (1, 1):
        assert run(rows(), turns(count)) is not None
    executed: list[int] = []
    monkeypatch.setattr(GrowingInstance, "run", lambda *_: executed.append(1))
    monkeypatch.setattr("neurald.drivers.cpu.native.instances.instance.LOOP_TIMEOUT_NS", -(10**10))
    assert run(rows(), turns(9)) is None
    assert not executed


def test_threads_repeat_runs_of_different_lengths() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    wrong: list[int] = []

    def work(first: int) -> None:
        for turn in range(80):
            count = (first + turn) % 45
            _, found = compilation.run(rows() + np.float32(first), turns(count))
            try:
                assert_pushed(found, rows() + np.float32(first), count)
            except AssertionError:
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(13 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

"""Devices that fail at run time: the CPU takes over, and the devices are retried."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import FailingDevice, SampleDevice
from support.errors import error_code
from support.models.small import add_model, bound_execution
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.hal.accounting.events import CountedEvent, event_counts
from neurald.hal.device import (
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    PreparedModel,
    PrepareOptions,
    Timing,
)
from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedTransient,
    Unreachable,
    Withdrawn,
    error_for,
)
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.sync.fence import Fence
from neurald.hal.sync.interpreter_turns import turns
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.background.event import Event
from neurald.runtime.execution.recovery import retry
from neurald.runtime.execution.recovery.retry import DEAD_RETRY, FAILING_RETRY, UNREACHABLE_RETRY, RetryPolicy
from neurald.runtime.plan import cached_preparation, compiling, preparer
from neurald.runtime.plan.prepared_step import PreparedStep
from neurald.runtime.plan.preparer import Preparer

pytestmark = pytest.mark.quick

Compile = Callable[[FailingDevice], nd.Compilation]


@pytest.fixture
def with_fallback(monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compiles for all devices, which are the CPU device and one more."""

    def compile_for(device: FailingDevice) -> nd.Compilation:
        cpu = nd.devices()[0]
        monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu, device))
        return nd.CompilationBuilder(add_model()).finish()

    return compile_for


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "DEAD_RETRY", RetryPolicy(first_pause_s=0.0, max_pause_s=0.0))
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=0.0, max_pause_s=0.0))


def compute(compilation: nd.Compilation) -> None:
    execution, output = bound_execution(compilation)
    execution.compute()
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


def wait_for_recovery() -> None:
    for thread in threading.enumerate():
        if thread.name == "neurald recovery":
            thread.join(30)


CODES = [code for code in nd.ResultCode if code not in (nd.ResultCode.NO_ERROR,)]


@pytest.mark.parametrize("code", CODES, ids=str)
def test_any_error_falls_back(code: nd.ResultCode, with_fallback: Compile) -> None:
    device = FailingDevice(error=error_for(code, "no"))
    error, device.error = device.error, None
    compilation = with_fallback(device)
    compute(compilation)
    assert device.executions == 1
    assert compilation.recovery.fallbacks == ()
    device.error = error
    compute(compilation)
    assert device.executions == 2


@sweep("code", CODES, ids=str)
def test_an_explicit_list_gets_the_code(code: nd.ResultCode) -> None:
    device = FailingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    device.error = error_for(code, "no")
    execution, _ = bound_execution(compilation)
    assert error_code(execution.compute) is code
    execution, _ = bound_execution(compilation)
    assert execution.start_compute().code is code
    execution, _ = bound_execution(compilation)
    assert execution.start_compute_with_dependencies([]).code is code


class StoppingDevice(FailingDevice):
    """A device whose driver is stopped this many times before a call or a preparation."""

    def __init__(self, executions: int = 0, preparations: int = 0) -> None:
        super().__init__("stopping")
        self.withdraws = {"execute": executions, "prepare": preparations}
        self.unreachable = 0

    def _withdraw(self, what: str) -> None:
        if self.withdraws[what]:
            self.withdraws[what] -= 1
            raise Withdrawn(f"{what}: the daemon takes no more work")

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if self.prepared:
            self._withdraw("prepare")
            if self.unreachable:
                self.unreachable -= 1
                raise Unreachable("nobody listens")
        return super().prepare_model(model, options)

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device._withdraw("execute")
                return prepared.execute(request, options)

        return Prepared()


@pytest.mark.parametrize(("executions", "preparations"), [(1, 0), (1, 1), (3, 0), (3, 4), (0, 0)])
def test_a_call_is_given_to_as_many_successors_as_are_stopped(executions: int, preparations: int) -> None:
    device = StoppingDevice(executions, preparations)
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    compute(compilation)
    assert device.withdraws == {"execute": 0, "prepare": 0}
    device.withdraws["execute"] = executions
    execution, output = bound_execution(compilation)
    execution.start_compute().wait()
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


@pytest.mark.parametrize("failures", [1, 3])
def test_a_submitted_call_waits_for_the_successor_that_is_not_there_yet(failures: int) -> None:
    device = StoppingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    compute(compilation)
    (step,) = compilation.plan.steps
    state = compilation.recovery.step(step)
    prepared = state.usable()
    assert prepared is not None
    # What an execution that was submitted reports when its driver was stopped.
    assert state.failed(Withdrawn("execute: the daemon takes no more work"), prepared, has_limit=False)
    device.unreachable = failures
    compute(compilation)
    assert device.unreachable == 0
    # A driver that is merely unreachable is not waited for.
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    compute(compilation)
    state = compilation.recovery.step(compilation.plan.steps[0])
    prepared = state.usable()
    assert prepared is not None
    assert not state.failed(DeadObject("it died"), prepared, has_limit=False)
    device.unreachable = 1000
    with pytest.raises(Unreachable, match="nobody listens"):
        compute(compilation)
    assert device.unreachable == 999


def test_a_call_is_not_given_to_successors_without_end() -> None:
    device = StoppingDevice(executions=1000)
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    execution, _ = bound_execution(compilation)
    with pytest.raises(Withdrawn, match="takes no more work"):
        execution.compute()
    assert device.withdraws["execute"] > 900


def test_a_failure_is_remembered_and_the_device_retried(
    with_fallback: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=3600.0, max_pause_s=7200.0))
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = OpFailed("overheated")
    for _ in range(5):
        compute(compilation)
    assert device.executions == 1
    (fallback,) = compilation.recovery.fallbacks
    assert (fallback.step, fallback.device, fallback.failures) == (0, "failing", 1)
    assert "overheated" in fallback.reason
    assert 3500 < fallback.retry_in_s <= 3600


@pytest.mark.parametrize("has_begun", [False, True])
def test_the_call_that_finds_a_failure_waits_for_no_compilation(
    has_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_compiling, may_compile = threading.Event(), threading.Event()
    compiled = compiling.compiled

    def slow(device: nd.Device, *arguments: Any, **options: Any) -> PreparedModel:
        if device is cpu_device():
            is_compiling.set()
            assert may_compile.wait(60)
        return compiled(device, *arguments, **options)

    for module in (preparer, cached_preparation):
        monkeypatch.setattr(module, "compiled", slow)
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=3600.0, max_pause_s=3600.0))
    device = FailingDevice()
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu_device(), device))
    shape = (3 + has_begun, 71)  # of no other test, whose code might be in the cache
    values = np.ones(shape, np.float32)
    compilation = nd.CompilationBuilder(add_model(shape)).finish()
    state = compilation.recovery.step(compilation.plan.steps[0])
    if has_begun:
        state.stand_in.optimize_early()
        assert is_compiling.wait(60)
    device.error = OpFailed("overheated")
    assert (compilation.run(values, values)[0] == 2).all()
    given_way: list[float | None] = []
    monkeypatch.setattr(turns, "give_way", given_way.append)
    for _ in range(3):
        assert (compilation.run(values, values)[0] == 2).all()
    assert len(given_way) == 3
    assert not state.stand_in.is_optimized
    assert state.stand_in._first_tier is not None
    may_compile.set()
    wait_until(lambda: state.stand_in.is_optimized)
    wait_until(lambda: state.stand_in._first_tier is None)
    work = state.stand_in._work
    wait_until(lambda: work is None or not work.is_ongoing)
    given_way.clear()
    assert (compilation.run(values, values)[0] == 2).all()
    assert not given_way
    assert device.executions == 1


@pytest.mark.parametrize("is_early", [False, True])
def test_the_cpu_compiles_again_where_a_resource_was_lacking(
    *, is_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_PAUSES_S", (0.01, 0.02))
    compiled = compiling.compiled
    attempts: list[int] = []

    def lacking(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return compiled(*arguments, **options)
        attempts.append(1)
        if len(attempts) <= 2:
            raise OutOfMemory("there is none for a moment")
        return compiled(*arguments, **options)

    for module in (preparer, cached_preparation):
        monkeypatch.setattr(module, "compiled", lacking)
    device = FailingDevice()
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu_device(), device))
    shape = (5 + is_early, 73)  # of no other test, whose code might be in the cache
    compilation = nd.CompilationBuilder(add_model(shape)).finish()
    stand_in = compilation.recovery.step(compilation.plan.steps[0]).stand_in
    replaced = threading.Event()
    if is_early:
        stand_in.optimize_early()
    else:
        stand_in.optimize_in_background(replaced.set)
    wait_until(lambda: stand_in.is_optimized)
    assert len(attempts) == 3
    assert is_early or replaced.wait(60)


def test_concurrent_failures_are_not_consecutive_failures(
    with_fallback: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=3600.0, max_pause_s=7200.0))
    together = threading.Barrier(4)

    class Crowded(FailingDevice):
        def wrap(self, prepared: PreparedModel) -> PreparedModel:
            class PreparedStep(FakePreparedModel):
                def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                    together.wait(30)
                    raise OpFailed("overheated")

            return PreparedStep()

    compilation = with_fallback(Crowded())
    executions = [bound_execution(compilation) for _ in range(together.parties)]
    for event in [execution.start_compute() for execution, _ in executions]:
        event.wait(30)
    (fallback,) = compilation.recovery.fallbacks
    assert fallback.failures == 1


def test_a_device_that_works_again_is_used_again(with_fallback: Compile) -> None:
    before_s = time.time()
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = OpFailed("overheated")
    compute(compilation)
    compute(compilation)
    assert compilation.recovery.fallbacks[0].failures == 2
    (move,) = compilation.explain().moves
    assert (move.step, move.device, move.until_s) == (0, "failing", None)
    assert "step 0 of failing runs on the CPU device since 20" in compilation.explain().text()
    device.error = None
    compute(compilation)
    assert device.executions == 3
    assert compilation.recovery.fallbacks == ()
    (move,) = compilation.explain().moves
    assert move.until_s is not None
    assert before_s <= move.since_s <= move.until_s <= time.time()
    assert "overheated" in move.reason
    assert "step 0 of failing ran on the CPU device from 20" in compilation.explain().text()
    assert "step 0 of failing ran on the CPU device from 20" in compilation.explain().to_html()
    assert compilation.explain().to_json()["moves"][0]["until_s"] == move.until_s


def test_the_model_is_prepared_once_for_the_cpu(
    with_fallback: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    prepare, prepared = Preparer.prepare, []

    def noted(preparer: Preparer, on: nd.Device, model: Model) -> PreparedStep:
        prepared.append(on.name)
        return prepare(preparer, on, model)

    monkeypatch.setattr(Preparer, "prepare", noted)
    state = compilation.recovery.step(compilation.plan.steps[0])
    counts = []
    for error in (OpFailed("overheated"), DeadObject("killed"), OpFailed("overheated again")):
        device.error = error
        for _ in range(3):
            compute(compilation)
            wait_for_recovery()
        wait_until(lambda: state.stand_in.is_optimized)
        counts.append(prepared.count(nd.devices()[0].name))
    # Twice if there is no compiled code in the cache: the first tier, and better code.
    assert counts[0] in (1, 2)
    assert set(counts) == {counts[0]}


def test_a_dead_device_is_prepared_again_in_the_background(with_fallback: Compile) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = DeadObject("killed")
    for _ in range(4):
        compute(compilation)
        wait_for_recovery()
    assert device.executions == 1
    assert len(device.prepared) == 1
    device.error = None
    compute(compilation)
    wait_for_recovery()
    compute(compilation)
    assert device.executions == 2
    assert len(device.prepared) == 2
    assert compilation.recovery.fallbacks == ()


def test_an_explicit_dead_device_is_prepared_again_by_who_needs_it() -> None:
    device = FailingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    device.error = DeadObject("killed")
    for _ in range(2):
        execution, _ = bound_execution(compilation)
        with pytest.raises(DeadObject):
            execution.compute()
    device.error = None
    compute(compilation)
    assert len(device.prepared) == 2


@pytest.mark.parametrize(("error", "pause_s"), [(DeadObject("died"), 3600), (Unreachable("silent"), 60)])
def test_a_driver_that_dies_is_left_alone_for_longer_than_one_that_is_away(
    error: Error, pause_s: float, with_fallback: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "DEAD_RETRY", RetryPolicy(first_pause_s=3600.0, max_pause_s=7200.0))
    monkeypatch.setattr(retry, "UNREACHABLE_RETRY", RetryPolicy(first_pause_s=60.0, max_pause_s=120.0))
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = error
    compute(compilation)
    (fallback,) = compilation.recovery.fallbacks
    assert pause_s - 30 < fallback.retry_in_s <= pause_s
    assert UNREACHABLE_RETRY.max_pause_s < DEAD_RETRY.max_pause_s
    # The last pause may begin just before the driver is back, which is to be used within a second.
    assert UNREACHABLE_RETRY.max_pause_s <= 0.5


def test_the_report_keeps_what_has_failed(with_fallback: Compile) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    assert not compilation.report.failures
    device.error = OpFailed("overheated")
    compute(compilation)
    device.error = None
    compute(compilation)
    assert compilation.recovery.fallbacks == ()
    (failure,) = compilation.report.failures
    assert (failure.step, failure.device, failure.failures) == (0, "failing", 1)
    assert "overheated" in failure.reason


def test_pauses_double_up_to_a_limit() -> None:
    policy = RetryPolicy(first_pause_s=1.0, max_pause_s=10.0)
    assert [policy.pause_s(n) for n in (1, 2, 3, 4, 5, 100, 10**6)] == [1, 2, 4, 8, 10, 10, 10]
    assert DEAD_RETRY.max_pause_s < FAILING_RETRY.max_pause_s


@pytest.mark.parametrize("error", [MissedDeadlineTransient("late"), Cancelled("stop")])
def test_what_the_application_asked_for_is_no_failure(
    error: Error, with_fallback: Compile, caplog: pytest.LogCaptureFixture
) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = error
    execution, _ = bound_execution(compilation)
    execution.set_timeout(60)
    missed = CountedEvent.DEADLINE, type(error).__name__
    before = event_counts().get(missed, 0)
    with caplog.at_level(logging.INFO):
        assert error_code(execution.compute) is error.code
    assert compilation.recovery.fallbacks == ()
    is_late = isinstance(error, MissedDeadlineTransient)
    assert event_counts().get(missed, 0) - before == is_late
    assert ("missed its deadline" in caplog.text) is is_late


def test_no_duration_is_known_after_a_fallback(with_fallback: Compile) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = ResourceExhaustedTransient("busy")
    execution, _ = bound_execution(compilation)
    execution.set_measure_timing()
    execution.compute()
    assert execution.duration(nd.Duration.IN_DRIVER) is None


def test_fenced_executions_fall_back_too(with_fallback: Compile) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    device.error = BadData("no")
    execution, output = bound_execution(compilation)
    event = execution.start_compute_with_dependencies([])
    event.wait()
    assert event.was_redone
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


def test_an_execution_that_depends_on_a_redone_one_is_redone(with_fallback: Compile) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    first, between = bound_execution(compilation)
    output = np.zeros((2, 3), np.float32)
    second = nd.Execution(nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish())
    second.set_input(0, between)
    second.set_input(1, between)
    second.set_output(0, output)
    device.error = OpFailed("no")
    event = second.start_compute_with_dependencies([first.start_compute_with_dependencies([])])
    event.wait()
    np.testing.assert_array_equal(output, np.full((2, 3), 6))


def test_results_of_invalid_inputs_are_computed_again(with_fallback: Compile) -> None:
    """The device fails after an execution on another device has read its invalid outputs."""
    has_computed = threading.Event()

    class Failing(FailingDevice):
        def wrap(self, prepared: PreparedModel) -> PreparedModel:
            class Prepared(FakePreparedModel):
                def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                    raise OpFailed("no")

                def execute_fenced(
                    self,
                    request: Request,
                    wait_for: Sequence[Fence],
                    options: ExecuteOptions,
                    after_fences_s: float | None = None,
                ) -> FencedExecution:
                    return Failed()

            return Prepared()

    class Failed:
        def __init__(self) -> None:
            self.fence = Fence()
            self.fence.signal()
            self.timing_after_fences = Timing()

        def result(self) -> ExecutionResult:
            assert has_computed.wait(30)
            raise OpFailed("no")

    class Recording(SampleDevice):
        def wrap(self, prepared: PreparedModel) -> PreparedModel:
            class Prepared(FakePreparedModel):
                def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                    try:
                        return prepared.execute(request, options)
                    finally:
                        has_computed.set()

            return Prepared()

    memory = nd.Memory.allocate(3 * 64)
    first, between, last = (
        np.frombuffer(memory.view(64 * slot, 24), np.float32).reshape(2, 3) for slot in range(3)
    )
    first[:] = 1
    events: list[Event] = []
    dependant = nd.CompilationBuilder(add_model(), [Recording("recording")]).finish()
    for slot, compilation in enumerate((with_fallback(Failing()), dependant)):
        execution = nd.Execution(compilation)
        execution.set_input_from_memory(0, memory, 64 * slot, 24)
        execution.set_input_from_memory(1, memory, 64 * slot, 24)
        execution.set_output_from_memory(0, memory, 64 * (slot + 1), 24)
        events.append(execution.start_compute_with_dependencies(events))
    events[-1].wait()
    np.testing.assert_array_equal(between, np.full((2, 3), 2))
    np.testing.assert_array_equal(last, np.full((2, 3), 4))


def test_substitutions_count_what_the_cpu_ran_in_place_of_a_device(with_fallback: Compile) -> None:
    device = FailingDevice()
    compilation = with_fallback(device)
    compute(compilation)
    assert not compilation.recovery.substitutions
    device.error = OpFailed("overheated")
    for _ in range(3):
        compute(compilation)
    device.error = None
    compute(compilation)
    (found,) = compilation.recovery.substitutions
    assert (found.step, found.device, found.executions) == (0, "failing", 3)
    assert "overheated" in found.reason

"""The outcome of executions for each result of a device, in every mode.

Restates Android's TestExecution.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import FailingDevice, PausedDevice, SampleDevice
from support.devices.modes import MODES, compute
from support.errors import error_code
from support.models.small import add_model, bound_execution
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.hal.accounting.events import CountedEvent, event_counts
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, PreparedModel
from neurald.hal.errors import MissedDeadlineTransient, OpFailed, OutOfMemory, error_for
from neurald.hal.model.request import Request
from neurald.hal.model.types import Dimensions
from neurald.hal.process.address import Address
from neurald.hal.process.threads.reused_threads import REUSED_THREADS, ReusedThreads
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.fence import Fence
from neurald.runtime.execution.recovery import retry
from neurald.runtime.execution.recovery.retry import RetryPolicy

Code = nd.ResultCode

CODES = [code for code in Code if code is not Code.NO_ERROR]
SUM = np.full((2, 3), 3, np.float32)


class AnsweringDevice(SampleDevice):
    """A fast device; `answer` may change the result of a successful execution."""

    def __init__(self) -> None:
        super().__init__("answering", performance=0.5)
        self.answer: Callable[[ExecutionResult], ExecutionResult] = lambda result: result

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                return device.answer(prepared.execute(request, options))

        return Prepared()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes failed devices be retried at once."""
    for policy in ("DEAD_RETRY", "FAILING_RETRY"):
        monkeypatch.setattr(retry, policy, RetryPolicy(first_pause_s=0.0, max_pause_s=0.0))


@pytest.fixture(params=["in process", "behind a socket"])
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[SampleDevice], nd.Device]]:
    """Returns the device as a client sees it: in this process or through a daemon."""
    servers: list[DeviceServer] = []

    def connect(device: SampleDevice) -> nd.Device:
        if request.param == "in process":
            return device
        servers.append(DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock")))
        servers[-1].start()
        return nd.connect(str(servers[-1].address))

    yield connect
    for server in servers:
        server.stop()


@pytest.fixture(params=["explicit list", "fallback"])
def compiled(
    request: pytest.FixtureRequest,
    reach: Callable[[SampleDevice], nd.Device],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[SampleDevice], nd.Compilation]:
    """Compiles `add_model` for a device alone, or with the CPU device as a fallback."""

    def compile_for(device: SampleDevice) -> nd.Compilation:
        reached = reach(device)
        chosen: list[nd.Device] | None = [reached]
        if request.param == "fallback":
            cpu = nd.devices()[0]
            monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu, reached))
            chosen = None
        builder = nd.CompilationBuilder(add_model(), chosen)
        builder.set_caching(None)
        compilation = builder.finish()
        assert compilation.plan.steps[0].device is reached
        return compilation

    return compile_for


def outcome(execution: nd.Execution, mode: str) -> nd.ResultCode:
    try:
        compute(execution, mode)
    except nd.Error as error:
        return error.code
    return Code.NO_ERROR


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@pytest.mark.sampled(4)
def test_each_status(
    code: nd.ResultCode, mode: str, compiled: Callable[[SampleDevice], nd.Compilation]
) -> None:
    device = FailingDevice()
    compilation = compiled(device)
    expected = code if compilation.has_explicit_devices else Code.NO_ERROR
    device.error = error_for(code, "as told")
    reusable, reused = bound_execution(compilation, reusable=True)
    for _ in range(2):
        execution, output = bound_execution(compilation)
        for each, result in ((execution, output), (reusable, reused)):
            result[:] = 0
            assert outcome(each, mode) is expected
            if expected is Code.NO_ERROR:
                np.testing.assert_array_equal(result, SUM)
                assert each.output_shapes() == [(2, 3)]
            else:
                assert error_code(each.output_shapes) is Code.BAD_STATE
        assert error_code(compute, execution, mode) is Code.BAD_STATE
    device.error = None
    assert outcome(reusable, mode) is Code.NO_ERROR
    np.testing.assert_array_equal(reused, SUM)


#: Dimensions and sufficiency that a device reports, and the outcomes without and with fallback.
ANSWERS: list[tuple[list[tuple[Dimensions, bool]], nd.ResultCode, nd.ResultCode]] = [
    ([((2, 3), True)], Code.NO_ERROR, Code.NO_ERROR),
    ([], Code.OP_FAILED, Code.NO_ERROR),
    ([((2, 3), True)] * 2, Code.OP_FAILED, Code.NO_ERROR),
    ([((2, 4), True)], Code.OP_FAILED, Code.NO_ERROR),
    ([((6,), True)], Code.OP_FAILED, Code.NO_ERROR),
    ([((0, 3), True)], Code.OP_FAILED, Code.NO_ERROR),
    ([(None, True)], Code.OP_FAILED, Code.NO_ERROR),
    ([((2**31, 2**31), True)], Code.OP_FAILED, Code.NO_ERROR),
    ([((2, 4), False)], Code.OP_FAILED, Code.NO_ERROR),
    ([((2, 3), False)] * 2, Code.OP_FAILED, Code.NO_ERROR),
    # An output that does not fit is not a failure that the CPU could avoid.
    ([((2, 3), False)], Code.OUTPUT_INSUFFICIENT_SIZE, Code.OUTPUT_INSUFFICIENT_SIZE),
    ([(None, False)], Code.OUTPUT_INSUFFICIENT_SIZE, Code.OUTPUT_INSUFFICIENT_SIZE),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shapes", "alone", "with_fallback"), ANSWERS)
@pytest.mark.sampled(4)
def test_what_a_device_says_of_shapes(
    shapes: list[tuple[Dimensions, bool]],
    alone: nd.ResultCode,
    with_fallback: nd.ResultCode,
    mode: str,
    compiled: Callable[[SampleDevice], nd.Compilation],
) -> None:
    device = AnsweringDevice()
    compilation = compiled(device)
    reported = tuple(OutputShape(dimensions=d, sufficient=fits) for d, fits in shapes)
    device.answer = lambda _: ExecutionResult(output_shapes=reported)
    execution, output = bound_execution(compilation, reusable=True)
    expected = alone if compilation.has_explicit_devices else with_fallback
    for _ in range(2):
        output[:] = 0
        assert outcome(execution, mode) is expected
        if expected is Code.NO_ERROR:
            np.testing.assert_array_equal(output, SUM)
    device.answer = lambda result: result
    assert outcome(execution, mode) is Code.NO_ERROR
    np.testing.assert_array_equal(output, SUM)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", [ValueError("a fault"), ZeroDivisionError(), MemoryError()])
@pytest.mark.sampled(3)
def test_faults_of_a_driver_are_failures_like_any_other(
    fault: Exception,
    mode: str,
    compiled: Callable[[SampleDevice], nd.Compilation],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(result: ExecutionResult) -> ExecutionResult:
        raise fault

    device = AnsweringDevice()
    compilation = compiled(device)
    device.answer = fail
    execution, output = bound_execution(compilation, reusable=True)
    code = Code.OUT_OF_MEMORY if isinstance(fault, MemoryError) else Code.OP_FAILED
    with caplog.at_level(logging.CRITICAL):
        found = outcome(execution, mode)
    assert found is (code if compilation.has_explicit_devices else Code.NO_ERROR)
    device.answer = lambda result: result
    assert outcome(execution, mode) is Code.NO_ERROR
    np.testing.assert_array_equal(output, SUM)


@pytest.mark.parametrize("mode", ["async", "fenced"])
@pytest.mark.parametrize("error", [None, OpFailed("as told"), OutOfMemory("as told")], ids=repr)
def test_a_paused_device(
    error: nd.Error | None, mode: str, reach: Callable[[SampleDevice], nd.Device]
) -> None:
    device = PausedAndFailing(error)
    compilation = nd.CompilationBuilder(add_model(), [reach(device)]).finish()
    execution, output = bound_execution(compilation)
    event = execution.start_compute() if mode == "async" else execution.start_compute_with_dependencies([])
    with ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(event.wait) for _ in range(2)]
        code = pool.submit(lambda: event.code)
        assert device.started.wait(30)
        with pytest.raises(MissedDeadlineTransient, match="is still running"):
            event.wait(0.05)
        assert not event.is_done
        assert not any(wait.done() for wait in waits)
        assert not code.done()
        device.proceed.set()
        for wait in waits:
            raised = wait.exception(30)
            assert (raised is None) is (error is None)
    expected = Code.NO_ERROR if error is None else error.code
    assert code.result() is expected
    for _ in range(3):
        assert event.is_done
        assert event.code is expected
        if error is None:
            event.wait(0)
        else:
            assert error_code(event.wait, 0) is expected
    if error is None:
        np.testing.assert_array_equal(output, SUM)


class PausedAndFailing(PausedDevice):
    """A device that waits, and then fails or succeeds."""

    def __init__(self, error: nd.Error | None) -> None:
        super().__init__()
        self._error = error

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        paused, error = super().wrap(prepared), self._error

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                result = paused.execute(request, options)
                if error is not None:
                    raise error
                return result

        return Prepared()


def test_an_explicit_device_has_no_fallback() -> None:
    device = FailingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    device.error = OpFailed("as told")
    execution, _ = bound_execution(compilation)
    assert outcome(execution, "sync") is Code.OP_FAILED
    assert compilation.recovery.fallbacks == ()
    assert compilation.explain().moves == ()


def test_threads_end_their_executions_and_serve_the_next_ones(
    compiled: Callable[[SampleDevice], nd.Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def start(work: Callable[[], object], name: str) -> None:
        started.append(name)
        ReusedThreads.start(REUSED_THREADS, work, name)

    monkeypatch.setattr(REUSED_THREADS, "start", start)
    compilation = compiled(FailingDevice())

    def executing() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name in started]

    before = threading.active_count()
    for mode in MODES:
        for _ in range(10):
            execution, _ = bound_execution(compilation)
            compute(execution, mode)
            wait_until(lambda: not executing())
    if compilation.plan.steps[0].device.is_remote:
        assert not started, "the daemon says when executions have ended"
    else:
        assert len(started) >= 20
        assert threading.active_count() <= before + 1


@sweep("mode", MODES)
def test_a_device_is_not_blamed_for_what_no_device_could_run(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index out of range fails on every device, so the device that failed stays in use."""
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=3600.0, max_pause_s=3600.0))
    builder = nd.ModelBuilder()
    source, axis = (
        builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (3,)),
        builder.add_operand(nd.OperandType.INT32),
    )
    indices, result = (
        builder.add_operand(kind, (2,))
        for kind in (nd.OperandType.TENSOR_INT32, nd.OperandType.TENSOR_FLOAT32)
    )
    builder.set_operand_value(axis, 0)
    builder.add_operation(nd.OperationType.GATHER, [source, axis, indices], [result])
    builder.identify_inputs_and_outputs([source, indices], [result])
    device = FailingDevice()
    cpu = nd.devices()[0]
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu, device))
    compilation = nd.CompilationBuilder(builder.finish()).finish()
    asked, output = np.zeros(2, np.int32), np.zeros(2, np.float32)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, np.array([1, 2, 3], np.float32))
    execution.set_input(1, asked)
    execution.set_output(0, output)
    for indexes, code in (([0, 2], Code.NO_ERROR), ([7, 0], Code.OP_FAILED), ([2, 1], Code.NO_ERROR)):
        asked[:] = indexes
        assert outcome(execution, mode) is code
        assert compilation.recovery.fallbacks == ()
    assert output.tolist() == [3, 2]
    assert device.executions == 3


def test_a_device_is_not_blamed_for_what_a_failed_dependency_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=3600.0, max_pause_s=3600.0))
    first, second = FailingDevice("first"), FailingDevice("second")
    failing = nd.CompilationBuilder(add_model(), [first]).finish()
    cpu = nd.devices()[0]
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu, second))
    depending = nd.CompilationBuilder(add_model()).finish()
    first.error, second.error = OpFailed("the first"), OpFailed("garbage")
    before, _ = bound_execution(failing)
    after, output = bound_execution(depending, reusable=True)
    gate = Fence()
    event = before.start_compute_with_dependencies([nd.Event.from_fence_fd(gate.fd)])
    last = after.start_compute_with_dependencies([event])
    gate.signal()
    with pytest.raises(OpFailed, match="a dependency of the execution failed: the first"):
        last.wait(30)
    assert depending.recovery.fallbacks == ()
    second.error = None
    after.start_compute_with_dependencies([]).wait(30)
    np.testing.assert_array_equal(output, SUM)
    assert second.executions == 2


@sweep("limit", ["timeout", "after fences"])
def test_a_missed_deadline_is_reported_if_the_application_set_it(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FailingDevice()
    cpu = nd.devices()[0]
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu, device))
    compilation = nd.CompilationBuilder(add_model()).finish()
    device.error = MissedDeadlineTransient("late")
    execution, _ = bound_execution(compilation)
    if limit == "timeout":
        execution.set_timeout(60)
    missed = CountedEvent.DEADLINE, "MissedDeadlineTransient"
    before = event_counts().get(missed, 0)
    event = execution.start_compute_with_dependencies([], 60 if limit == "after fences" else 0)
    assert error_code(event.wait, 30) is Code.MISSED_DEADLINE_TRANSIENT
    assert event_counts()[missed] == before + 1
    assert not event.was_redone
    assert compilation.recovery.fallbacks == ()

"""Devices that bind a request once: which repeated executions use this fast path."""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice
from support.errors import error_code
from support.models.small import accumulator, add_model, bound_execution, ones
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import Burst, ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import Cancelled, OpFailed
from neurald.hal.model.request import Request
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution import execution as execution_module
from neurald.runtime.execution import execution_settings


class ReusingDevice(SampleDevice):
    """Counts its calls. Its fast path raises `error`, if there is one, or waits for `proceed`."""

    def __init__(self) -> None:
        super().__init__("reusing")
        self.executed = 0
        self.again = 0
        self.error: BaseException | None = None
        self.started = threading.Event()
        self.proceed = threading.Event()
        self.proceed.set()
        self.result: ExecutionResult | None = None

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.executed += 1
                if isinstance(device.error, OpFailed):
                    raise device.error
                result = prepared.execute(request, options)
                device.result = result if device.result is None else device.result
                return device.result

            def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None]:
                def execute(cancellation: Cancellation) -> None:
                    device.again += 1
                    device.started.set()
                    assert device.proceed.wait(30)
                    cancellation.require_not_cancelled("by then")
                    if device.error is not None:
                        raise device.error
                    assert prepared.execute(request, ExecuteOptions()).is_sufficient

                return execute

        return Prepared()


def compiled(device: ReusingDevice, model: nd.Model | None = None) -> nd.Compilation:
    return nd.CompilationBuilder(model or add_model(), [device]).finish()


def test_the_first_computation_is_whole_and_others_are_bound() -> None:
    device = ReusingDevice()
    execution = nd.Execution(compiled(device), reusable=True)
    value, output = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    execution.set_input(0, value)
    execution.set_input(1, np.ones((2, 3), np.float32))
    execution.set_output(0, output)
    for turn in range(5):
        value[:] = turn
        execution.compute()
        np.testing.assert_array_equal(output, value + 1)
        assert execution.output_dimensions(0) == (2, 3)
    assert (device.executed, device.again) == (1, 4)


def test_other_ways_to_compute_are_whole() -> None:
    device = ReusingDevice()
    compilation = compiled(device)
    execution, _ = bound_execution(compilation, reusable=True)
    with compilation.create_burst() as burst:
        for _ in range(2):
            execution.compute(burst=burst)
            execution.start_compute().wait()
            execution.start_compute_with_dependencies().wait()
    assert (device.executed, device.again) == (6, 0)
    # A fast path that was created before them is not used again without a regular computation.
    for _ in range(2):
        execution.compute()
        execution.compute()
        execution.start_compute().wait()
    assert (device.executed, device.again) == (10, 2)


@sweep("setting", ["timing", "limit"])
def test_limits_and_durations_need_whole_computations(setting: str) -> None:
    device = ReusingDevice()
    execution, _ = bound_execution(compiled(device), reusable=True)
    if setting == "timing":
        execution.set_measure_timing()
    else:
        execution.set_timeout(60.0)
    for _ in range(3):
        execution.compute()
    assert (device.executed, device.again) == (3, 0)


def test_a_failure_is_looked_at_by_a_whole_computation() -> None:
    device = ReusingDevice()
    execution, output = bound_execution(compiled(device), reusable=True)
    execution.compute()
    device.error = OpFailed("no")
    for turn in range(1, 3):
        assert error_code(execution.compute) is nd.ResultCode.OP_FAILED
        assert (device.executed, device.again) == (1 + turn, 1)
        assert error_code(execution.output_shapes) is nd.ResultCode.BAD_STATE
    device.error = None
    output[:] = 0
    execution.compute()
    execution.compute()
    assert (device.executed, device.again) == (4, 2)
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


def test_an_interrupted_one_can_be_computed_again() -> None:
    device = ReusingDevice()
    execution, output = bound_execution(compiled(device), reusable=True)
    execution.compute()
    device.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        execution.compute()
    device.error = None
    assert error_code(execution.output_shapes) is nd.ResultCode.BAD_STATE
    output[:] = 0
    execution.compute()
    np.testing.assert_array_equal(output, np.full((2, 3), 3))
    assert execution.output_shapes() == [(2, 3)]


def test_concurrent_use_is_bad_state() -> None:
    device = ReusingDevice()
    execution, _ = bound_execution(compiled(device), reusable=True)
    execution.compute()
    device.started.clear()
    device.proceed.clear()
    codes: list[nd.ResultCode] = []
    thread = threading.Thread(target=lambda: codes.append(error_code(execution.compute)))
    thread.start()
    try:
        assert device.started.wait(30)
        assert error_code(execution.compute) is nd.ResultCode.BAD_STATE
        assert error_code(execution.output_shapes) is nd.ResultCode.BAD_STATE
        execution.cancel()
    finally:
        device.proceed.set()
        thread.join()
    # The device received the cancellation, and the regular path does not compute again.
    assert codes == [nd.ResultCode.OP_FAILED]
    assert (device.executed, device.again) == (1, 1)
    execution.compute()
    execution.compute()
    assert execution.output_shapes() == [(2, 3)]


def test_variables_take_turns() -> None:
    device = ReusingDevice()
    compilation = compiled(device, accumulator())
    execution, output = nd.Execution(compilation, reusable=True), np.empty((2, 3), np.float32)
    execution.set_input(0, ones())
    execution.set_output(0, output)

    def compute(expected: int) -> None:
        execution.compute()
        assert (output == expected).all()
        assert (compilation.state.value("total") == expected).all()

    for turn in range(7):
        compute(11 + turn)
    assert device.again >= 4
    before = device.again
    # Changes of the variables by another execution are noticed.
    compilation.state.reset()
    compute(11)
    assert compilation.run(ones())[0][0, 0] == 12
    for turn in range(7):
        compute(13 + turn)
    assert device.again > before
    device.error = OpFailed("no")
    assert error_code(execution.compute) is nd.ResultCode.OP_FAILED
    assert (compilation.state.value("total") == 19).all()
    device.error = None
    compute(20)


def test_executions_that_share_variables() -> None:
    compilation = compiled(ReusingDevice(), accumulator())
    executions = []
    for _ in range(2):
        execution, output = nd.Execution(compilation, reusable=True), np.empty((2, 3), np.float32)
        execution.set_input(0, ones())
        execution.set_output(0, output)
        executions.append((execution, output))
    expected = 10
    for turns in (1, 1, 3, 1, 5, 2):
        for execution, output in executions:
            for _ in range(turns):
                expected += 1
                execution.compute()
                assert (output == expected).all()


class BurstingDevice(SampleDevice):
    """A device with bursts, which records the options of their executions."""

    def __init__(self) -> None:
        super().__init__("bursting")
        self.error: Exception | None = None
        self.renews = False
        self.options: list[ExecuteOptions] = []

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device, known = self, prepared.execute

        class OwnBurst:
            def __init__(self) -> None:
                self.result: ExecutionResult | None = None

            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.options.append(options)
                if device.error is not None:
                    raise device.error
                result = known(request, options)
                if self.result is None or device.renews:
                    self.result = result
                return self.result

            def close(self) -> None:
                pass

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                return known(request, options)

            def create_burst(self) -> Burst:
                return OwnBurst()

        return Prepared()


def test_through_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    device = BurstingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    whole: list[nd.Burst] = []
    execute = nd.Burst.execute

    def counted(self: nd.Burst, *arguments: Any) -> ExecutionResult:
        whole.append(self)
        return execute(self, *arguments)

    monkeypatch.setattr(nd.Burst, "execute", counted)
    execution, output = bound_execution(compilation, reusable=True)
    with compilation.create_burst() as burst, compilation.create_burst() as other:
        for _ in range(4):
            output[:] = 0
            execution.compute(burst=burst)
            np.testing.assert_array_equal(output, np.full((2, 3), 3))
        assert (len(whole), len(device.options)) == (1, 4)
        assert all(options.cancellation is not None for options in device.options)
        # Another burst or a failure leads to the regular path.
        execution.compute(burst=other)
        execution.compute(burst=other)
        execution.compute(burst=burst)
        assert whole == [burst, other, burst]
        device.renews = True
        execution.compute(burst=burst)
        assert len(whole) == 3
        device.renews = False
        device.error = OpFailed("no")
        assert error_code(lambda: execution.compute(burst=burst)) is nd.ResultCode.OP_FAILED
        assert len(whole) == 4
        device.error = None
        execution.compute(burst=burst)
        execution.compute()
        assert execution.output_shapes() == [(2, 3)]
    assert error_code(lambda: execution.compute(burst=burst)) is nd.ResultCode.BAD_STATE


def test_native_code_may_repeat_what_needs_nothing_else() -> None:
    compilation = nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish()
    execution, _ = bound_execution(compilation, reusable=True)
    assert execution.create_native_call() is None, "it has not computed yet"
    execution.compute()
    assert execution.create_native_call() is not None
    once, _ = bound_execution(compilation)
    once.compute()
    assert once.create_native_call() is None
    counting = nd.CompilationBuilder(accumulator(), [nd.devices()[0]]).finish()
    stateful = nd.Execution(counting, reusable=True)
    stateful.set_input(0, ones())
    stateful.set_output(0, np.empty((2, 3), np.float32))
    stateful.compute()
    assert stateful.create_native_call() is None


@pytest.mark.parametrize("is_bound", [False, True])
def test_an_expected_computation_is_cancelled_before_it_begins(is_bound: bool) -> None:
    """Neither one of the regular path nor one of the fast path runs, and only one is cancelled."""
    device = ReusingDevice()
    execution = nd.Execution(compiled(device), reusable=True)
    for index in range(2):
        execution.set_input(index, np.ones((2, 3), np.float32))
    execution.set_output(0, np.zeros((2, 3), np.float32))
    execution.compute()
    if not is_bound:
        execution.forget_fast_paths()
    execution.cancel()  # nothing is expected
    execution.compute()
    if not is_bound:
        execution.forget_fast_paths()
    execution.expect()
    execution.cancel()
    with pytest.raises(Cancelled):
        execution.compute()
    execution.compute()
    execution.expect()
    execution.cancel()
    execution.expect()
    execution.compute()


@pytest.mark.timeout(60)
def test_signal_handlers_may_cancel_while_their_thread_is_in_a_method() -> None:
    execution = nd.Execution(compiled(ReusingDevice()), reusable=True)
    with execution._lock:
        execution.cancel()
        execution.expect()
        execution.cancel()
    for index in range(2):
        execution.set_input(index, np.ones((2, 3), np.float32))
    execution.set_output(0, np.zeros((2, 3), np.float32))
    with pytest.raises(Cancelled):
        execution.compute()
    execution.compute()


@pytest.mark.timeout(60)
@sweep("is_bound", [False, True])
@sweep("line", range(48))
def test_a_signal_handler_cancels_an_expected_computation_at_any_line(is_bound: bool, line: int) -> None:
    """It ends if its device has not begun yet, and the next one does not."""
    device = ReusingDevice()
    execution, _ = bound_execution(compiled(device), reusable=True)
    execution.compute()
    if not is_bound:
        execution.forget_fast_paths()
    execution.expect()
    before = device.executed + device.again
    passed, began = 0, True

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed, began
        if frame.f_code.co_filename not in (execution_module.__file__, execution_settings.__file__):
            return None
        if event == "line":
            passed += 1
            if passed == line + 1:
                sys.settrace(None)
                began = device.executed + device.again > before
                execution.cancel()
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        execution.compute()
    except Cancelled:
        pass
    else:
        assert began
    finally:
        sys.settrace(tracing)
    execution.expect()
    execution.compute()

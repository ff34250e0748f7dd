"""Executions that depend on others, on one device or several, in this process and in daemons."""

import os
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.devices.misbehaving import FailingDevice, PausedDevice
from support.errors import error_code
from support.models.small import add_model, bound_execution
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import BadState, Cancelled, OpFailed
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence
from neurald.runtime.execution.background import fenced
from neurald.runtime.execution.background.event import Event

SHAPE = (2, 3)
NBYTES = 24


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    with running_daemon() as first, running_daemon() as second:
        yield first, second


@pytest.fixture(params=["in process", "two daemons", "mixed"])
def devices(request: pytest.FixtureRequest, addresses: tuple[str, str]) -> Sequence[nd.Device]:
    cpu = nd.devices()[0]
    first, second = map(nd.connect, addresses)
    found = {"in process": (cpu, cpu), "two daemons": (first, second), "mixed": (first, cpu)}
    return found[request.param]


@pytest.fixture
def compilations(devices: Sequence[nd.Device]) -> list[nd.Compilation]:
    """Compiles the same addition for two devices."""
    return [nd.CompilationBuilder(add_model(), [device]).finish() for device in devices]


def execution_on(
    compilation: nd.Compilation, memory: nd.Memory, a: int, b: int, result: int, *, reusable: bool = False
) -> nd.Execution:
    """Returns an execution that adds the values of two 64-byte blocks of a memory."""
    execution = nd.Execution(compilation, reusable=reusable)
    execution.set_input_from_memory(0, memory, a * 64, NBYTES)
    execution.set_input_from_memory(1, memory, b * 64, NBYTES)
    execution.set_output_from_memory(0, memory, result * 64, NBYTES)
    return execution


def values(memory: nd.Memory, slot: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    return np.frombuffer(memory.view(slot * 64, NBYTES), np.float32).reshape(SHAPE)


def test_chains_over_devices(compilations: list[nd.Compilation]) -> None:
    memory = nd.Memory.allocate(16 * 64)
    values(memory, 0)[:] = 1
    events: list[Event] = []
    for n in range(10):
        execution = execution_on(compilations[n % 2], memory, n, n, n + 1)
        events.append(execution.start_compute_with_dependencies(events[-1:]))
    events[-1].wait()
    np.testing.assert_array_equal(values(memory, 10), np.full(SHAPE, 2**10))
    assert all(event.is_done for event in events)


def test_outputs_of_open_dimensions_take_what_fits(devices: Sequence[nd.Device]) -> None:
    compilations = [nd.CompilationBuilder(add_model((0, 3)), [device]).finish() for device in devices]
    memory = nd.Memory.allocate(4096)
    table = np.frombuffer(memory.view(0, 4096), np.float32).reshape(4, 256)
    for rows in (5, 2, 21, 1, 16, 5):
        table[0, : 3 * rows] = np.arange(3 * rows)
        size = rows * 12
        events: list[Event] = []
        for number, compilation in enumerate(compilations):
            execution = nd.Execution(compilation)
            for index in range(2):
                execution.set_input_from_memory(index, memory, number * 1024, size, (rows, 3))
            execution.set_output_from_memory(0, memory, (number + 1) * 1024, 1024 - 1024 % 12)
            events.append(execution.start_compute_with_dependencies(events))
            last = execution
        events[-1].wait()
        assert last.output_shapes() == [(rows, 3)]
        np.testing.assert_array_equal(table[2, : 3 * rows], 4 * table[0, : 3 * rows])
    execution = nd.Execution(compilations[0])
    for index in range(2):
        execution.set_input_from_memory(index, memory, 0, 60, (5, 3))
    execution.set_output_from_memory(0, memory, 1024, 48)
    event = execution.start_compute_with_dependencies([])
    assert error_code(event.wait) is nd.ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert execution.output_shapes() == [(5, 3)]


def test_bursts_with_outputs_of_open_dimensions(devices: Sequence[nd.Device]) -> None:
    for device in devices:
        compilation = nd.CompilationBuilder(add_model((0, 3)), [device]).finish()
        memory = nd.Memory.allocate(4096)
        table = np.frombuffer(memory.view(0, 4096), np.float32).reshape(4, 256)
        with compilation.create_burst() as burst:
            for rows in (5, 2, 21, 5, 1, 16):
                table[0, : 3 * rows] = np.arange(3 * rows)
                execution = nd.Execution(compilation, reusable=True)
                for index in range(2):
                    execution.set_input_from_memory(index, memory, 0, rows * 12, (rows, 3))
                execution.set_output_from_memory(0, memory, 1024, 1020)
                for _ in range(3):
                    table[1] = 0
                    execution.compute(burst=burst)
                    assert execution.output_shapes() == [(rows, 3)]
                    np.testing.assert_array_equal(table[1, : 3 * rows], 2 * table[0, : 3 * rows])


def test_joins(compilations: list[nd.Compilation]) -> None:
    memory = nd.Memory.allocate(4 * 64)
    values(memory, 0)[:] = 1
    branches = [
        execution_on(compilations[n], memory, 0, 0, 1 + n).start_compute_with_dependencies([]) for n in (0, 1)
    ]
    joined = execution_on(compilations[0], memory, 1, 2, 3).start_compute_with_dependencies(branches)
    joined.wait()
    np.testing.assert_array_equal(values(memory, 3), np.full(SHAPE, 4))


def test_arrays_are_read_once_the_dependencies_are_over(compilations: list[nd.Compilation]) -> None:
    first, between = bound_execution(compilations[0])
    output = np.zeros(SHAPE, np.float32)
    second = nd.Execution(compilations[1])
    second.set_input(0, between)
    second.set_input(1, between)
    second.set_output(0, output)
    fence = Fence()
    gate = Event.from_fence_fd(fence.fd)
    event = first.start_compute_with_dependencies([gate])
    last = second.start_compute_with_dependencies([event])
    assert not last.is_done
    fence.signal()
    last.wait()
    np.testing.assert_array_equal(output, np.full(SHAPE, 6))


def is_complete(execution: nd.Execution) -> bool:
    try:
        execution.output_dimensions(0)
    except BadState:
        return False
    return True


@sweep("where", ["in process", "daemon"])
def test_executions_that_nobody_waits_for(where: str, addresses: tuple[str, str]) -> None:
    """An execution that is over is completed, whether its event was waited for or not."""
    device = nd.devices()[0] if where == "in process" else nd.connect(addresses[0])
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    execution, output = bound_execution(compilation, reusable=True)
    for start in (execution.start_compute, lambda: execution.start_compute_with_dependencies([])):
        for _ in range(3):
            output[:] = 0
            start()
            wait_until(lambda: is_complete(execution))
            np.testing.assert_array_equal(output, np.full(SHAPE, 3))
    execution.start_compute()
    started: list[Event] = []

    def starts_again() -> bool:
        """Returns whether the last execution is over, so that another one could be started."""
        try:
            started.append(execution.start_compute())
        except BadState:
            return False
        return True

    wait_until(starts_again)
    started[0].wait()
    never = Fence()
    event = execution.start_compute_with_dependencies([Event.from_fence_fd(never.fd)])
    with pytest.raises(BadState, match="already computing"):
        execution.compute()
    execution.cancel()
    with pytest.raises(Cancelled):
        event.wait(30)


@sweep("where", ["in process", "daemon"])
def test_fences_of_executions_for_other_processes(where: str, addresses: tuple[str, str]) -> None:
    device = nd.devices()[0] if where == "in process" else nd.connect(addresses[0])
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    for is_short in (False, True):
        execution, output = bound_execution(compilation, reusable=True)
        if is_short:
            execution.compute()
        output[:] = 0
        event = execution.start_compute_with_dependencies([])
        fd = event.fence_fd()
        imported = Event.from_fence_fd(fd)
        os.close(fd)
        imported.wait(30)
        np.testing.assert_array_equal(output, np.full(SHAPE, 3))
        event.wait()


def test_an_event_without_a_fence_is_waited_for_too() -> None:
    device = PausedDevice()
    paused, output = bound_execution(nd.CompilationBuilder(add_model(), [device]).finish())
    event = paused.start_compute()
    execution, result = bound_execution(nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish())
    last = execution.start_compute_with_dependencies([event])
    assert device.started.wait(30)
    assert not last.is_done
    device.proceed.set()
    last.wait()
    np.testing.assert_array_equal(output, result)


def test_a_dependency_that_failed_fails_what_depends_on_it() -> None:
    device = FailingDevice()
    failing = nd.CompilationBuilder(add_model(), [device]).finish()
    device.error = OpFailed("on fire")
    first, _ = bound_execution(failing)
    cpu, _ = bound_execution(nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish())
    event = cpu.start_compute_with_dependencies([first.start_compute_with_dependencies([])])
    with pytest.raises(OpFailed, match="a dependency of the execution failed: on fire"):
        event.wait()


def test_durations_after_fences() -> None:
    execution, _ = bound_execution(nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish())
    execution.set_measure_timing()
    execution.start_compute_with_dependencies([]).wait()
    launched = execution.duration(nd.Duration.IN_DRIVER)
    fenced = execution.duration(nd.Duration.FENCED_IN_DRIVER)
    assert launched is not None
    assert fenced is not None
    assert 0 < fenced <= launched


def test_invalid_dependencies_are_refused() -> None:
    compilation = nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish()
    execution, output = bound_execution(compilation)
    start = execution.start_compute_with_dependencies
    assert error_code(lambda: start([None])) is nd.ResultCode.UNEXPECTED_NULL  # type: ignore[list-item]
    assert error_code(lambda: start([3])) is nd.ResultCode.BAD_DATA  # type: ignore[list-item]
    assert error_code(lambda: start([], -1.0)) is nd.ResultCode.BAD_DATA
    assert error_code(lambda: nd.Execution(compilation).start_compute_with_dependencies([])) is (
        nd.ResultCode.BAD_DATA
    )
    start([]).wait()
    np.testing.assert_array_equal(output, np.full(SHAPE, 3))
    assert error_code(lambda: start([])) is nd.ResultCode.BAD_STATE


def test_strings_have_no_maximum_size() -> None:
    builder = nd.ModelBuilder()
    ends = [builder.add_operand(nd.OperandType.TENSOR_STRING, (2,)) for _ in range(2)]
    times = builder.add_operand(nd.OperandType.TENSOR_INT32, (1,))
    builder.set_operand_value(times, np.ones(1, np.int32))
    builder.add_operation(nd.OperationType.TFLITE_TILE, inputs=[ends[0], times], outputs=ends[1:])
    builder.identify_inputs_and_outputs(ends[:1], ends[1:])
    execution = nd.Execution(nd.CompilationBuilder(builder.finish(), [nd.devices()[0]]).finish())
    execution.set_input(0, np.array(["a", "b"], object))
    execution.set_output(0, np.empty(2, object))
    assert error_code(lambda: execution.start_compute_with_dependencies([])) is nd.ResultCode.BAD_DATA


@sweep("where", ["in process", "daemon"])
def test_cancel(where: str, addresses: tuple[str, str]) -> None:
    device = nd.devices()[0] if where == "in process" else nd.connect(addresses[0])
    compilation = nd.CompilationBuilder(endless_loop(), [device]).finish()
    execution = nd.Execution(compilation)
    execution.set_input(0, np.zeros(1, np.float32))
    execution.set_output(0, np.zeros(1, np.float32))
    execution.set_loop_timeout(15)
    execution.cancel()
    event = execution.start_compute()
    threading.Timer(0.2, execution.cancel).start()
    with pytest.raises(Cancelled):
        event.wait(60)


def test_a_callback_of_a_cancelled_cancellation_is_called_at_once() -> None:
    cancellation = Cancellation()
    calls: list[int] = []
    cancellation.call_on_cancel(lambda: calls.append(1))
    cancellation.cancel()
    cancellation.cancel()
    cancellation.call_on_cancel(lambda: calls.append(2))
    assert calls == [1, 2]


def test_an_execution_that_has_waited_leaves_no_callback() -> None:
    cancellation, event = Cancellation(), Event()
    threading.Timer(0.05, event.signal, (None,)).start()
    fenced._wait_for([event], ExecuteOptions(cancellation=cancellation))
    assert cancellation.is_unused


def test_a_callback_that_was_removed_is_not_called() -> None:
    cancellation = Cancellation()
    calls: list[int] = []

    def call() -> None:
        calls.append(1)

    cancellation.call_on_cancel(call)
    assert not cancellation.is_unused
    cancellation.forget(call)
    cancellation.forget(call)
    assert cancellation.is_unused
    cancellation.cancel()
    assert calls == []


def endless_loop() -> nd.Model:
    """Builds `while x < 1: x = x * 1`."""
    float32 = nd.OperandType.TENSOR_FLOAT32
    condition = nd.ModelBuilder()
    x = condition.add_operand(float32, (1,))
    one = condition.add_operand(float32, (1,))
    condition.set_operand_value(one, np.ones(1, np.float32))
    less = condition.add_operand(nd.OperandType.TENSOR_BOOL8, (1,))
    condition.add_operation(nd.OperationType.LESS, inputs=[x, one], outputs=[less])
    condition.identify_inputs_and_outputs([x], [less])
    body = nd.ModelBuilder()
    x = body.add_operand(float32, (1,))
    one = body.add_operand(float32, (1,))
    body.set_operand_value(one, np.ones(1, np.float32))
    none = body.add_operand(nd.OperandType.INT32)
    body.set_operand_value(none, 0)
    y = body.add_operand(float32, (1,))
    body.add_operation(nd.OperationType.MUL, inputs=[x, one, none], outputs=[y])
    body.identify_inputs_and_outputs([x], [y])
    builder = nd.ModelBuilder()
    graphs = [builder.add_operand(nd.OperandType.MODEL) for _ in range(2)]
    builder.set_operand_value_from_model(graphs[0], condition.finish())
    builder.set_operand_value_from_model(graphs[1], body.finish())
    x = builder.add_operand(float32, (1,))
    y = builder.add_operand(float32, (1,))
    builder.add_operation(nd.OperationType.WHILE, inputs=[*graphs, x], outputs=[y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()

"""Bursts of compilations."""

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.daemon.traffic import Traffic
from support.devices.fakes import FakePreparedModel
from support.errors import error_code
from support.models.addition import AddingDevice
from support.process.interruption import interruptions
from support.waiting import wait_until

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import DeadObject
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer


def sums(number: float) -> nd.Model:
    """Builds `output = input + number`, on four floats."""
    builder = nd.ModelBuilder()
    tensor = nd.OperandType.TENSOR_FLOAT32
    source, constant, result = (builder.add_operand(tensor, (4,)) for _ in range(3))
    activation = builder.add_operand(nd.OperandType.INT32, ())
    builder.set_operand_value(constant, np.full(4, number, np.float32))
    builder.set_operand_value(activation, np.int32(0))
    builder.add_operation(nd.OperationType.ADD, inputs=[source, constant, activation], outputs=[result])
    builder.identify_inputs_and_outputs([source], [result])
    return builder.finish()


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


@pytest.fixture
def server(tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def remote(server: DeviceServer) -> nd.Device:
    return nd.connect(str(server.address))


@pytest.fixture(params=["in process", "behind a socket"])
def compilation(request: pytest.FixtureRequest) -> nd.Compilation:
    if request.param == "in process":
        return compiled(nd.devices()[0])
    return compiled(request.getfixturevalue("remote"))


def compiled(device: nd.Device, number: float = 1) -> nd.Compilation:
    return nd.CompilationBuilder(sums(number), devices=[device]).finish()


class Run:
    """A reusable execution and its arrays."""

    def __init__(self, compilation: nd.Compilation) -> None:
        self.values, self.result = np.zeros(4, np.float32), np.zeros(4, np.float32)
        self.execution = nd.Execution(compilation, reusable=True)
        self.execution.set_input(0, self.values)
        self.execution.set_output(0, self.result)


def test_every_run_is_right(compilation: nd.Compilation) -> None:
    run = Run(compilation)
    with compilation.create_burst() as burst:
        for number in range(20):
            run.values[:] = number
            run.execution.compute(burst=burst)
            assert run.result.tolist() == [number + 1] * 4
            assert run.execution.output_dimensions(0) == (4,)
        once = nd.Execution(compilation)
        once.set_input(0, run.values)
        once.set_output(0, run.result)
        once.compute(burst=burst)
        assert error_code(lambda: once.compute(burst=burst)) == nd.ResultCode.BAD_STATE


def test_a_reusable_execution_makes_no_call(remote: Any, traffic: Traffic) -> None:
    compilation = compiled(remote)
    run = Run(compilation)
    with compilation.create_burst() as burst:
        run.execution.compute(burst=burst)
        messages = traffic.messages_sent
        for _ in range(100):
            run.execution.compute(burst=burst)
        assert traffic.messages_sent == messages


def test_an_execution_of_another_compilation(compilation: nd.Compilation) -> None:
    other = Run(nd.CompilationBuilder(sums(1), devices=[nd.devices()[0]]).finish())
    with compilation.create_burst() as burst:
        assert error_code(lambda: other.execution.compute(burst=burst)) == nd.ResultCode.BAD_DATA
    # Nothing has changed: inputs can still be bound, and the execution can compute in another way.
    other.execution.compute()


def test_two_at_the_same_time(remote: nd.Device, device: AddingDevice) -> None:
    started, proceed = threading.Event(), threading.Event()

    def on_execute(*_: Any) -> None:
        started.set()
        assert proceed.wait(30)

    device.on_execute = on_execute
    compilation = compiled(remote)
    first, second = Run(compilation), Run(compilation)
    with compilation.create_burst() as burst, ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(lambda: first.execution.compute(burst=burst))
        assert started.wait(60)
        assert error_code(lambda: second.execution.compute(burst=burst)) == nd.ResultCode.BAD_STATE
        proceed.set()
        under_way.result(60)
        second.execution.compute(burst=burst)


def test_an_unfinished_compilation_is_refused() -> None:
    builder: Any = nd.CompilationBuilder(sums(1))
    assert error_code(lambda: nd.Burst(builder)) == nd.ResultCode.BAD_STATE
    nothing: Any = None
    assert error_code(lambda: nd.Burst(nothing)) == nd.ResultCode.UNEXPECTED_NULL


def test_a_closed_burst(compilation: nd.Compilation) -> None:
    burst = compilation.create_burst()
    burst.close()
    burst.close()
    assert error_code(lambda: Run(compilation).execution.compute(burst=burst)) == nd.ResultCode.BAD_STATE


def test_memory_of_what_a_closed_burst_gave_up_is_not_used_for_other_values() -> None:
    """The daemon may still run what was sent through the ring, and write to the memory later."""
    compilation = compiled(nd.devices()[0])
    burst = compilation.create_burst()

    class Given(FakePreparedModel):
        """Its bursts are closed, and with them that of the compilation, while they execute."""

        def create_burst(self) -> "Given":
            return Given()

        def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
            if self is prepared:
                return ExecutionResult(output_shapes=())
            burst.close()
            raise DeadObject("the ring is over")

        def close(self) -> None:
            pass

    prepared = Given()
    memory = SharedMemory.create(64)
    burst.begin_use(compilation, object())
    burst.execute(
        compilation.plan.steps[0],
        prepared,
        Request(inputs=(), outputs=(), pools=(memory,)),
        ExecuteOptions(),
    )
    assert memory.is_abandoned


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_burst_and_an_execution_can_be_used_after_any_interruption(compilation: nd.Compilation) -> None:
    """An interruption may come between any two steps, as that of a keyboard."""
    run, interrupted = Run(compilation), 0
    packages = ("neurald.runtime.execution", "neurald.hal.rpc.client", "neurald.hal.rpc.transport.ring_end")
    with compilation.create_burst() as burst:
        run.execution.compute(burst=burst)
        for number in interruptions(lambda: run.execution.compute(burst=burst), *packages):
            interrupted += 1
            for value in (number, number + 1):
                run.values[:] = value
                run.execution.compute(burst=burst)
                assert run.result.tolist() == [value + 1] * 4, number
            run.execution.forget_fast_paths()
    for number in interruptions(run.execution.compute, *packages):
        interrupted += 1
        run.values[:] = number
        run.execution.compute()
        assert run.result.tolist() == [number + 1] * 4
        run.execution.forget_fast_paths()
    assert interrupted > 60


@pytest.mark.parametrize("burst_first", [True, False])
def test_memories_and_bursts_are_freed_in_any_order(
    remote: nd.Device, server: DeviceServer, burst_first: bool
) -> None:
    compilation = compiled(remote)
    (session,) = server.handler.sessions.all()
    before = len(session.memories)
    memory = nd.Memory.allocate(1024)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input_from_memory(0, memory, 0, 16)
    execution.set_output_from_memory(0, memory, 64, 16)
    burst = compilation.create_burst()
    for _ in range(100):
        execution.compute(burst=burst)
    assert len(session.memories) <= before + 2  # the memory, and the daemon's copies
    if burst_first:
        burst.close()
        wait_until(lambda: len(session.memories) == before)
        execution.compute()
    del memory, execution
    gc.collect()
    if not burst_first:
        wait_until(lambda: len(session.memories) <= before + 1)
        Run(compilation).execution.compute(burst=burst)
        burst.close()
    wait_until(lambda: len(session.memories) <= before + burst_first)  # a plain execution leaves its copies


def test_the_code_of_the_device_is_the_callers(remote: nd.Device, device: AddingDevice) -> None:
    from neurald.hal.errors import OutOfMemory

    def on_execute(*_: Any) -> None:
        raise OutOfMemory("no room")

    device.on_execute = on_execute
    compilation = compiled(remote)
    run = Run(compilation)
    with compilation.create_burst() as burst:
        assert error_code(lambda: run.execution.compute(burst=burst)) == nd.ResultCode.OUT_OF_MEMORY
        device.on_execute = lambda *_: None
        run.execution.compute(burst=burst)


def test_durations(remote: nd.Device) -> None:
    compilation = compiled(remote)
    run = nd.Execution(compilation)
    run.set_measure_timing()
    run.set_input(0, np.zeros(4, np.float32))
    run.set_output(0, np.zeros(4, np.float32))
    with compilation.create_burst() as burst:
        run.compute(burst=burst)
    assert run.duration(nd.Duration.IN_DRIVER) == 2


@pytest.mark.timed
@pytest.mark.slow
def test_a_burst_outlives_its_daemon(tmp_path: Path) -> None:
    place = f"unix://{tmp_path}/d.sock"
    with daemon_process("support.models.addition:create", place) as (process, address):
        compilation = compiled(nd.connect(address))
        run = Run(compilation)
        burst = compilation.create_burst()
        run.execution.compute(burst=burst)
        process.kill()
        process.wait()
        killed = time.monotonic()
        assert error_code(lambda: run.execution.compute(burst=burst)) == nd.ResultCode.DEAD_OBJECT
        assert time.monotonic() < killed + 5
    with daemon_process("support.models.addition:create", place):
        for number in range(3):
            run.values[:] = number
            run.execution.compute(burst=burst)
            assert run.result.tolist() == [number + 1] * 4
        burst.close()

"""Fenced executions, in this process and in a daemon."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.models.addition import AddingDevice, addition, request

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.device import Device, ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    BadState,
    Cancelled,
    DeadObject,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
)
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.process.threads.reused_threads import ReusedThreads
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

VALUES = np.array([1, 2, 3], np.float32)
CONSTANT = np.array([10, 20, 30], np.float32)


def shared_request() -> tuple[Request, Memory]:
    """Returns a request in shared memory, and that memory: values first, the result at 64."""
    memory = Memory.allocate(128)
    memory.view(0, 12)[:] = VALUES.tobytes()
    return (
        Request(
            inputs=(Argument(pool=0, length=12, dimensions=(3,)),),
            outputs=(Argument(pool=0, offset=64, length=12, dimensions=(3,)),),
            pools=(memory,),
        ),
        memory,
    )


def result_in(memory: Memory) -> list[float]:
    return list(np.frombuffer(memory.view(64, 12), np.float32))


@pytest.fixture(params=["in process", "unix", "tcp"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[AddingDevice, Device]]:
    """Yields a device, in this process or behind a socket."""
    device = AddingDevice()
    if request.param == "in process":
        yield device, device
        return
    text = f"unix://{tmp_path}/d.sock" if request.param == "unix" else "localhost:0"
    server = DeviceServer(device, Address.parse(text))
    server.start()
    remote = connect(str(server.address))
    yield device, remote
    remote.close()
    server.stop()


def test_it_runs_once_all_fences_have_signalled(served: tuple[AddingDevice, Device]) -> None:
    device, reached = served
    started = threading.Event()
    device.on_execute = lambda request, options: started.set()
    prepared_model = reached.prepare_model(addition(CONSTANT), PrepareOptions())
    work, memory = shared_request()
    fences = [Fence(), Fence()]
    execution = prepared_model.execute_fenced(work, fences, ExecuteOptions(measure=True))
    fences[0].signal()
    assert not execution.fence.wait(0.05)
    assert not started.is_set()
    fences[1].signal()
    assert execution.fence.wait(30)
    result = execution.result()
    assert result.is_sufficient
    assert execution.result() == result
    assert result_in(memory) == list(VALUES + CONSTANT)
    assert execution.timing_after_fences.in_driver_ns == 2
    assert (result.timing.in_driver_ns or 0) > 40_000_000


def test_chains_run_one_after_another(served: tuple[AddingDevice, Device]) -> None:
    _, reached = served
    prepared_model = reached.prepare_model(addition(CONSTANT), PrepareOptions())
    work, memory = shared_request()
    back = Request(
        inputs=(Argument(pool=0, offset=64, length=12, dimensions=(3,)),),
        outputs=(Argument(pool=0, length=12, dimensions=(3,)),),
        pools=work.pools,
    )
    start = Fence()
    executions = [prepared_model.execute_fenced(work, [start], ExecuteOptions())]
    for n in range(9):
        executions.append(
            prepared_model.execute_fenced((back, work)[n % 2], [executions[-1].fence], ExecuteOptions())
        )
    start.signal()
    assert all(execution.result().is_sufficient for execution in executions)
    assert list(np.frombuffer(memory.view(0, 12), np.float32)) == list(VALUES + 10 * CONSTANT)


def test_arguments_in_arrays_are_read_after_the_fences(served: tuple[AddingDevice, Device]) -> None:
    _, reached = served
    prepared_model = reached.prepare_model(addition(CONSTANT), PrepareOptions())
    values, result = np.zeros(3, np.float32), np.zeros(3, np.float32)
    fence = Fence()
    execution = prepared_model.execute_fenced(request(values, result), [fence], ExecuteOptions())
    values[:] = VALUES
    fence.signal()
    execution.result()
    assert list(result) == list(VALUES + CONSTANT)


def test_a_failure_is_told_and_signals_too(served: tuple[AddingDevice, Device]) -> None:
    device, reached = served

    def fail(request: Request, options: ExecuteOptions) -> None:
        raise OpFailed("the device is on fire")

    device.on_execute = fail
    prepared_model = reached.prepare_model(addition(CONSTANT), PrepareOptions())
    execution = prepared_model.execute_fenced(shared_request()[0], [], ExecuteOptions())
    assert execution.fence.wait(30)
    for _ in range(2):
        with pytest.raises(OpFailed, match="on fire"):
            execution.result()


def test_the_deadline_holds_while_it_waits(served: tuple[AddingDevice, Device]) -> None:
    _, reached = served
    prepared_model = reached.prepare_model(addition(CONSTANT), PrepareOptions())
    # Long enough to begin before it has passed, also on a busy machine.
    options = ExecuteOptions(deadline_s=time.monotonic() + 1.0)
    execution = prepared_model.execute_fenced(shared_request()[0], [Fence()], options)
    with pytest.raises(MissedDeadlineTransient):
        execution.result()


def test_the_time_after_the_fences_is_a_deadline(served: tuple[AddingDevice, Device]) -> None:
    device, reached = served
    deadlines: list[float | None] = []
    device.on_execute = lambda request, options: deadlines.append(options.deadline_s)
    prepared_model = reached.prepare_model(addition(CONSTANT), PrepareOptions())
    before = time.monotonic()
    prepared_model.execute_fenced(shared_request()[0], [], ExecuteOptions(), 20.0).result()
    (deadline,) = deadlines
    assert deadline is not None
    assert before + 19 < deadline < time.monotonic() + 21


def test_a_cancelled_one_stops_waiting() -> None:
    cancellation = Cancellation()
    prepared_model = AddingDevice().prepare_model(addition(CONSTANT), PrepareOptions())
    options = ExecuteOptions(cancellation=cancellation)
    execution = prepared_model.execute_fenced(shared_request()[0], [Fence()], options)
    cancellation.cancel()
    with pytest.raises(Cancelled):
        execution.result()


def test_what_came_of_it_is_told_once(tmp_path: Path) -> None:
    server = DeviceServer(AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remote = connect(str(server.address))
    try:
        prepared_model = remote.prepare_model(addition(CONSTANT), PrepareOptions())
        waiting = prepared_model.launch(shared_request()[0], [Fence()], ExecuteOptions())
        done = prepared_model.launch(shared_request()[0], [], ExecuteOptions())
        done.result()
        ask = remote._connection.call
        with pytest.raises(BadData, match="not known"):
            ask("GetFencedExecutionInfo", device_pb2.GetFencedExecutionInfoRequest(execution=done._handle))
        with pytest.raises(BadState, match="not over"):
            ask("GetFencedExecutionInfo", device_pb2.GetFencedExecutionInfoRequest(execution=waiting._handle))
    finally:
        remote.close()
        server.stop()


def test_a_thread_that_cannot_start_leaves_nothing_in_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = DeviceServer(
        AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"), limits=Limits(fenced_executions=1)
    )
    server.start()
    remote = connect(str(server.address))
    try:
        prepared_model = remote.prepare_model(addition(CONSTANT), PrepareOptions())
        work, memory = shared_request()

        def refuse(*_: object) -> None:
            raise RuntimeError("can't start new thread")

        for start in (prepared_model.launch, prepared_model.execute_fenced):
            with monkeypatch.context() as patch:
                patch.setattr(ReusedThreads, "start", refuse)
                for _ in range(2):
                    with pytest.raises(ResourceExhaustedTransient, match="no thread can be started"):
                        start(work, [], ExecuteOptions())
            start(work, [], ExecuteOptions()).result()
        assert result_in(memory) == [11, 22, 33]
    finally:
        remote.close()
        server.stop()


@pytest.mark.parametrize("is_in_daemon", [False, True])
def test_a_session_that_ends_ends_its_fenced_executions(tmp_path: Path, is_in_daemon: bool) -> None:
    device = AddingDevice()
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    try:
        remote = connect(str(server.address))
        prepared_model = remote.prepare_model(addition(CONSTANT), PrepareOptions())
        start = prepared_model.launch if is_in_daemon else prepared_model.execute_fenced
        execution = start(shared_request()[0], [Fence()], ExecuteOptions())
        threads = [t for t in threading.enumerate() if t.name == "neurald fenced execution"]
        assert threads
        remote.close()
        with pytest.raises(DeadObject):
            execution.result()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    finally:
        server.stop()


@pytest.mark.parametrize("is_in_daemon", [False, True])
def test_a_daemon_that_dies_signals_through_its_client(is_in_daemon: bool) -> None:
    with daemon_process("support.models.addition:create") as (process, address):
        prepared_model = connect(address).prepare_model(addition(CONSTANT), PrepareOptions())
        start = prepared_model.launch if is_in_daemon else prepared_model.execute_fenced
        execution = start(shared_request()[0], [Fence()], ExecuteOptions())
        process.kill()
        with pytest.raises(DeadObject):
            execution.result()
        assert execution.fence.is_signalled

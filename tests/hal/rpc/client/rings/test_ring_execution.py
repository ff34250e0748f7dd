"""Executions that rings run while their callers go on."""

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    BadState,
    Cancelled,
    DeadObject,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
)
from neurald.hal.execution.pending import PendingExecution, may_submit, submitted
from neurald.hal.model.extension import Extension
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.process.address import Address
from neurald.hal.process.threads.reused_threads import REUSED_THREADS
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.rings.ring_execution import RingExecution
from neurald.hal.rpc.client.rings.ring_pool import MAX_RINGS
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.cancellation import Cancellation

RUN = ExecuteOptions()


class Gate:
    """Keeps executions of a device from ending until it is opened."""

    def __init__(self, device: AddingDevice) -> None:
        self.started, self.open = threading.Semaphore(0), threading.Event()

        def wait(_: object, options: ExecuteOptions) -> None:
            self.started.release()
            while not self.open.wait(0.005):
                if options.cancellation is not None:
                    options.cancellation.require_not_cancelled("before an operation")

        device.on_execute = wait


@pytest.fixture
def gate(device: AddingDevice) -> Iterator[Gate]:
    gate = Gate(device)
    yield gate
    gate.open.set()


class Run:
    """An execution on arrays, and its result."""

    def __init__(self, prepared: RemotePreparedModel, value: float, options: ExecuteOptions = RUN) -> None:
        self.result = np.zeros(3, np.float32)
        self._expected = value + 1
        found = prepared.submit(request(np.full(3, value, np.float32), self.result), options)
        assert isinstance(found, RingExecution)
        self.execution: PendingExecution = found

    @property
    def is_right(self) -> bool:
        return self.result.tolist() == [self._expected] * 3

    def check(self) -> None:
        assert self.execution.result().is_sufficient
        assert self.is_right


def test_an_execution_ends_when_it_is_waited_for(prepared: RemotePreparedModel, gate: Gate) -> None:
    run = Run(prepared, 1)
    assert gate.started.acquire(timeout=30)
    assert not run.execution.wait(0)
    assert not run.execution.wait(0.0005)
    assert not run.execution.wait(0.05)
    gate.open.set()
    run.check()
    assert run.execution.wait(0)
    assert run.execution.wait(None)
    run.check()
    assert len(prepared.connection.rings) == 1


def test_polling(prepared: RemotePreparedModel) -> None:
    for value in range(20):
        run = Run(prepared, value)
        wait_until(lambda execution=run.execution: execution.wait(0))  # type: ignore[misc]
        assert run.is_right
    assert len(prepared.connection.rings) == 1


def test_inputs_are_read_at_the_start(prepared: RemotePreparedModel, gate: Gate) -> None:
    values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
    execution = prepared.submit(request(values, result), RUN)
    assert execution is not None
    values[:] = 7
    gate.open.set()
    execution.result()
    assert result.tolist() == [2] * 3


def test_several_at_a_time(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    device.executions_at_once = 4
    for _ in range(20):
        runs = [Run(prepared, value) for value in range(5)]
        for run in reversed(runs):
            run.check()
    assert len(prepared.connection.rings) == 5


def test_executions_that_nobody_waits_for_give_way(
    server: DeviceServer, prepared: RemotePreparedModel, traffic: Traffic
) -> None:
    """Those that are over must not keep others from using rings."""
    messages = traffic.messages_sent
    runs = [Run(prepared, value) for value in range(MAX_RINGS)]
    # Clients have their answers before the daemon has counted the executions.
    wait_until(lambda: server.handler.admission.executions == MAX_RINGS)
    more = [Run(prepared, value) for value in range(MAX_RINGS)]
    assert all(run.is_right for run in runs)
    for run in more:
        run.check()
    assert traffic.messages_sent == messages


def test_if_all_rings_are_in_use_nothing_is_submitted(prepared: RemotePreparedModel, gate: Gate) -> None:
    runs = [Run(prepared, value) for value in range(MAX_RINGS)]
    values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert prepared.submit(request(values, result), RUN) is None
    gate.open.set()
    for run in runs:
        run.check()


def test_an_execution_that_is_dropped_ends_nevertheless(prepared: RemotePreparedModel, gate: Gate) -> None:
    gc.disable()
    try:
        run = Run(prepared, 1)
        reference = weakref.ref(run.execution)
        result = run.result
        del run
        assert reference() is None
        gate.open.set()
        wait_until(lambda: result.tolist() == [2] * 3)
        Run(prepared, 2).check()
        wait_until(lambda: len(prepared.connection.rings._free) == 1)
    finally:
        gc.enable()


def test_an_execution_in_a_cycle_that_is_dropped_ends_nevertheless(
    prepared: RemotePreparedModel, gate: Gate
) -> None:
    """The garbage collector finalizes all objects of a cycle, in an order that nobody knows."""
    cancellation = Cancellation()  # has the ring make a descriptor, too

    def start() -> Run:
        run = Run(prepared, 4, ExecuteOptions(cancellation=cancellation))
        assert not run.execution.wait(0.01)
        run.execution.cycle = run.execution  # type: ignore[attr-defined]
        execution, run.execution = run.execution, None  # type: ignore[assignment]
        gate.started.acquire()
        del execution
        return run

    run = start()
    gc.collect()
    gate.open.set()
    wait_until(lambda: run.is_right)
    again = Run(prepared, 5)
    again.execution.result()
    assert again.is_right


@pytest.mark.parametrize("has_threads", [True, False])
def test_the_finalizer_of_an_execution_starts_no_thread(
    prepared: RemotePreparedModel, gate: Gate, monkeypatch: pytest.MonkeyPatch, has_threads: bool
) -> None:
    start, starting = REUSED_THREADS.start, list[threading.Thread]()

    def noting(work: Callable[[], object], name: str) -> None:
        starting.append(threading.current_thread())
        if not has_threads:
            raise RuntimeError("can't start new thread")
        start(work, name)

    monkeypatch.setattr(REUSED_THREADS, "start", noting)
    run = Run(prepared, 1)
    result = run.result
    del run
    gate.open.set()
    wait_until(lambda: result.tolist() == [2] * 3)
    assert len(starting) == 1
    assert starting[0] is not threading.current_thread()


def test_threads_that_wait_for_the_same_execution(prepared: RemotePreparedModel, gate: Gate) -> None:
    run = Run(prepared, 1)
    with ThreadPoolExecutor(6) as pool:
        waits = [pool.submit(run.execution.wait, None) for _ in range(3)]
        limited = [pool.submit(run.execution.wait, 0.02) for _ in range(3)]
        assert [wait.result(30) for wait in limited] == [False] * 3
        gate.open.set()
        assert [wait.result(30) for wait in waits] == [True] * 3
    run.check()


def test_cancelling(prepared: RemotePreparedModel, gate: Gate) -> None:
    cancellation = Cancellation()
    run = Run(prepared, 1, ExecuteOptions(cancellation=cancellation))
    assert gate.started.acquire(timeout=30)
    cancellation.cancel()
    with pytest.raises(Cancelled):
        run.execution.result()
    with pytest.raises(Cancelled):  # each time
        run.execution.result()
    gate.open.set()
    Run(prepared, 2).check()


def test_a_cancellation_that_comes_late_stops_nothing_else(prepared: RemotePreparedModel, gate: Gate) -> None:
    gate.open.set()
    cancellation = Cancellation()
    first = Run(prepared, 1, ExecuteOptions(cancellation=cancellation))
    first.check()
    gate.open.clear()
    second = Run(prepared, 2)
    cancellation.cancel()
    assert not second.execution.wait(0.05)
    gate.open.set()
    second.check()


@pytest.mark.timed
def test_deadlines(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    with pytest.raises(MissedDeadlinePersistent):
        Run(prepared, 1, ExecuteOptions(deadline_s=time.monotonic() - 1))
    gate = Gate(device)
    start = time.monotonic()
    run = Run(prepared, 1, ExecuteOptions(deadline_s=start + 0.05))
    assert not run.execution.wait(0)
    wait_until(lambda: run.execution.wait(0))
    assert time.monotonic() < start + 1
    with pytest.raises(MissedDeadlineTransient):
        run.execution.result()
    gate.open.set()
    Run(prepared, 2).check()


def test_a_ring_that_ends_while_the_daemon_lives(
    prepared: RemotePreparedModel, server: DeviceServer, gate: Gate
) -> None:
    run = Run(prepared, 1)
    assert gate.started.acquire(timeout=30)
    (session,) = server.handler.sessions.all()
    for open_ring in session._rings.values():
        open_ring.ring.stop()
    gate.open.set()
    run.check()  # it is run again
    Run(prepared, 2).check()


def test_closing_ends_executions(remote: RemoteDevice, prepared: RemotePreparedModel, gate: Gate) -> None:
    run = Run(prepared, 1)
    assert gate.started.acquire(timeout=30)
    remote.close()
    for _ in range(2):
        with pytest.raises(DeadObject):
            run.execution.result()
    assert run.execution.wait(0)


def test_a_signal_handler_that_waits_for_what_it_interrupted(
    prepared: RemotePreparedModel, gate: Gate
) -> None:
    run = Run(prepared, 1)
    errors: list[Exception] = []

    def handle(*_: object) -> None:
        try:
            run.execution.wait(None)
        except BadState as error:
            errors.append(error)
        gate.open.set()

    execution = run.execution
    assert isinstance(execution, RingExecution)

    def is_waited_for() -> bool:
        if not execution._turn.take(0):
            return True
        execution._turn.give_back()
        return False

    def interrupt() -> None:
        wait_until(is_waited_for)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        run.check()
        interrupting.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(errors) == 1


def test_what_is_not_submitted(prepared: RemotePreparedModel, device: AddingDevice, tmp_path: Path) -> None:
    values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
    attribute = AttributeValue(extension=Extension(name="example.extension"), code=1, value=b"x")
    assert prepared.submit(request(values, result), ExecuteOptions(attributes=(attribute,))) is None
    server = DeviceServer(device, Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    elsewhere = remote.prepare_model(addition(np.ones(3)), PrepareOptions())
    assert elsewhere.submit(request(values, result), RUN) is None
    remote.close()
    server.stop()


def test_a_prepared_model_that_does_not_submit(device: AddingDevice) -> None:
    prepared = device.prepare_model(addition(np.ones(3)), PrepareOptions())
    values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert not may_submit(prepared)
    assert submitted(prepared, request(values, result), RUN) is None


def test_a_request_that_is_refused_goes_another_way(prepared: RemotePreparedModel) -> None:
    wrong = request(np.ones(4, np.float32), np.zeros(4, np.float32))
    assert prepared.submit(wrong, RUN) is None
    with pytest.raises(BadData):
        prepared.execute(wrong, RUN)


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("phase", ["before", "under way", "over", "polled"])
def test_a_daemon_that_is_killed(phase: str) -> None:
    """No result is wrong, and each wait ends within a second."""
    with daemon_process("support.models.addition:create_slow") as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), PrepareOptions())
        values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
        wanted = request(values, result)
        first = prepared.submit(wanted, RUN)
        assert first is not None
        first.result()
        # The slow device waits for as many seconds as a negative input says.
        values[:] = 2 if phase == "over" else -30
        result[:] = 0
        if phase == "before":
            process.kill()
            process.wait()
            with pytest.raises(DeadObject):
                submit_and_wait(prepared, wanted)
            assert result.tolist() == [0] * 3
            remote.close()
            return
        execution = prepared.submit(wanted, RUN)
        assert execution is not None
        if phase == "over":
            wait_until(lambda: remote.status().calls == 0)
            process.kill()
            process.wait()
            # The result was there before the daemon died.
            assert execution.result().is_sufficient
            assert result.tolist() == [2] * 3
        else:
            time.sleep(0.1)
            process.kill()
            start = time.monotonic()
            if phase == "polled":
                wait_until(lambda: execution.wait(0))
            with pytest.raises(DeadObject):
                execution.result()
            assert time.monotonic() < start + 1
            assert result.tolist() == [0] * 3
        with pytest.raises(DeadObject):
            submit_and_wait(prepared, wanted)
        remote.close()


def submit_and_wait(prepared: RemotePreparedModel, wanted: Any) -> None:
    execution = prepared.submit(wanted, RUN)
    if execution is None:
        prepared.execute(wanted, RUN)
    else:
        execution.result()

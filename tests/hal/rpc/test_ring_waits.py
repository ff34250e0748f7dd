"""Waits for executions that go through a ring: deadlines, cancellations and interruptions."""

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.daemon.open_files import open_files
from support.daemon.peer import ring_threads, session_of
from support.daemon.ring_calls import Caller, blocking, expect_cancelled, stop_rings
from support.models.addition import AddingDevice
from support.process.interruption import interruptions
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import (
    Cancelled,
    DeadObject,
    MissedDeadlineTransient,
)
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.threads.processors import Processors
from neurald.hal.rpc.client.burst import RemoteBurst
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.rings import ring_peer
from neurald.hal.rpc.client.rings.ring import Ring
from neurald.hal.rpc.client.rings.ring_pool import RingPool
from neurald.hal.rpc.server.ring_server import RingServer
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport import ring_end
from neurald.hal.rpc.transport.ring_end import RingEnd
from neurald.hal.sync.cancellation import Cancellation

RUN = ExecuteOptions()


def test_a_burst_that_was_interrupted_while_it_submitted(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, burst, put = Caller(), prepared.create_burst(), RingEnd.put
    assert isinstance(burst, RemoteBurst)
    burst.execute(caller.request, RUN)

    def interrupted(end: RingEnd, entry: bytes) -> None:
        monkeypatch.setattr(RingEnd, "put", put)
        end._put_entry[: len(entry)] = entry
        end._put_number += 1
        raise KeyboardInterrupt

    end = burst._ring._peer._ring
    # A daemon that polls sees the entry.
    wait_until(lambda: bool(end._words[end._peer_sleeps]))
    monkeypatch.setattr(RingEnd, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        burst.execute(caller.request, RUN)
    for value in range(3):
        caller.values[:] = value
        burst.execute(caller.request, RUN)
        assert caller.result.tolist() == [value + 1] * 3
    burst.close()


def test_a_deadline_that_the_driver_does_not_keep(
    prepared: RemotePreparedModel, device: AddingDevice, server: DeviceServer
) -> None:
    _, proceed = blocking(device)
    # Long enough to begin before it has passed, also on a busy machine.
    with pytest.raises(MissedDeadlineTransient):
        Caller().run(prepared, 1, ExecuteOptions(deadline_s=time.monotonic() + 1.0))
    device.on_execute = lambda *_: None
    Caller().run(prepared, 2)  # does not wait for the late execution
    proceed.set()
    wait_until(lambda: ring_threads() == 1)


def test_cancelling(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    expect_cancelled(device, lambda options: Caller().run(prepared, 1, options))
    Caller().run(prepared, 2)


def _submitted(prepared: RemotePreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    pending = prepared.submit(request, options)
    assert pending is not None
    return pending.result()


def _in_burst(prepared: RemotePreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    burst = prepared.create_burst()
    try:
        return burst.execute(request, options)
    finally:
        burst.close()


@pytest.mark.parametrize(
    "execute", [RemotePreparedModel.execute, RemotePreparedModel.call, _in_burst, _submitted]
)
def test_a_cancellation_at_the_end_is_an_error_or_the_outputs_are_right(
    prepared: RemotePreparedModel,
    device: AddingDevice,
    execute: Callable[[RemotePreparedModel, Request, ExecuteOptions], ExecutionResult],
) -> None:
    """The driver does not notice it any more, and outputs that nobody may want are not written."""
    caller, cancellation, started = Caller(), Cancellation(), threading.Event()
    memory = Memory.allocate(24)
    values, result = np.frombuffer(memory.view(), np.float32).reshape(2, 3)
    arguments = [Argument(pool=0, offset=offset, length=12) for offset in (0, 12)]
    shared = Request(inputs=tuple(arguments[:1]), outputs=tuple(arguments[1:]), pools=(memory,))
    caller.run(prepared, 1)
    values[:] = 2

    def on_execute(_: Request, options: ExecuteOptions) -> None:
        started.set()
        found = options.cancellation
        wait_until(lambda: found is not None and found.is_cancelled)

    device.on_execute = on_execute
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(execute, prepared, shared, ExecuteOptions(cancellation=cancellation))
        assert started.wait(60)
        cancellation.cancel()
        try:
            assert run.result(60).is_sufficient
        except Cancelled:
            pass
        else:
            assert result.tolist() == [3] * 3
    device.on_execute = lambda *_: None
    caller.run(prepared, 4)


def test_a_call_inside_of_a_call(prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may run a model while its thread is between any two instructions."""
    bind = Ring.bind
    inner = Caller()

    def interrupted(ring: Ring, *arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        inner.run(prepared, 7)
        return bind(ring, *arguments, **options)

    monkeypatch.setattr(Ring, "bind", interrupted)
    Caller().run(prepared, 1)
    assert inner.result.tolist() == [8] * 3


def test_waits_know_how_many_executions_are_under_way(
    server: DeviceServer, prepared: RemotePreparedModel, device: AddingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that polls for one of them would take its core from the others."""
    found: list[int] = []
    spin = RingEnd.spin

    def noted(end: RingEnd, running: int = 0) -> bool:
        found.append(running)
        return spin(end, running)

    monkeypatch.setattr(RingEnd, "spin", noted)
    device.executions_at_once = 4
    started, proceed = blocking(device)
    before = len(ring_peer._under_way)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(Caller().run, prepared, 0) for _ in range(2)]
        for _ in runs:
            assert started.acquire(timeout=30)
        wait_until(lambda: len(found) >= 2)
        assert len(ring_peer._under_way) == before + 2
        proceed.set()
        for run in runs:
            run.result(30)
    assert before < max(found) <= before + 2
    assert len(ring_peer._under_way) == before
    proceed.clear()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(Caller().run, prepared, 0)
        assert started.acquire(timeout=30)
        # The ring ends with an execution under way.
        stop_rings(session_of(server))
        proceed.set()
        late.exception(30)
    del late, runs
    prepared.connection.rings.close()
    gc.collect()
    wait_until(lambda: len(ring_peer._under_way) == before)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_waits_that_can_be_cancelled_leave_nothing(
    prepared: RemotePreparedModel, device: AddingDevice, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    """A sleeping end can be woken by a cancellation, which many executions may share."""
    monkeypatch.setattr(ring_end, "PROCESSORS", Processors(1, lambda: 9))  # so it sleeps each time
    device.on_execute = lambda *_: time.sleep(0.001)
    caller, cancellation = Caller(), Cancellation()
    options = ExecuteOptions(cancellation=cancellation)
    caller.run(prepared, 1, options)
    files = len(open_files())
    for value in range(100):
        caller.run(prepared, value, options)
        if is_cancelled:
            cancellation.cancel()
            cancellation = Cancellation()
            options = ExecuteOptions(cancellation=cancellation)
    assert cancellation.is_unused
    wait_until(lambda: len(open_files()) <= files)


def test_a_cancellation_right_after_a_wait(
    prepared: RemotePreparedModel, device: AddingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not end the sleep of later executions."""
    monkeypatch.setattr(ring_end, "PROCESSORS", Processors(1, lambda: 9))
    device.on_execute = lambda *_: time.sleep(0.001)
    cancellation = Cancellation()
    forget = Cancellation.forget

    def cancel_first(given: Cancellation, callback: Any) -> None:
        if given is cancellation:
            given.cancel()
        forget(given, callback)

    monkeypatch.setattr(Cancellation, "forget", cancel_first)
    Caller().run(prepared, 1, ExecuteOptions(cancellation=cancellation))
    assert cancellation.is_cancelled
    device.on_execute = lambda *_: time.sleep(0.5)
    polls = 0
    sleep = RingEnd.sleep

    def counted(end: RingEnd, timeout_s: float | None) -> bool:
        nonlocal polls
        polls += 1
        return sleep(end, timeout_s)

    monkeypatch.setattr(RingEnd, "sleep", counted)
    Caller().run(prepared, 2, ExecuteOptions(cancellation=Cancellation()))
    assert polls < 20


def test_a_cancellation_of_an_earlier_execution_during_a_later_one(
    prepared: RemotePreparedModel, device: AddingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends a sleep of the later one, which then sleeps again until its own cancellation."""
    monkeypatch.setattr(ring_end, "PROCESSORS", Processors(1, lambda: 9))
    caller, polls, burst, sleep = Caller(), 0, prepared.create_burst(), RingEnd.sleep

    def counted(end: RingEnd, timeout_s: float | None) -> bool:
        nonlocal polls
        polls += 1
        return sleep(end, timeout_s)

    assert isinstance(burst, RemoteBurst)
    burst.execute(caller.request, RUN)
    peer = burst._ring._peer
    started, proceed = blocking(device)
    monkeypatch.setattr(RingEnd, "sleep", counted)
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(burst.execute, caller.request, ExecuteOptions(cancellation=cancellation))
        assert started.acquire(timeout=30)
        for count in range(1, 4):
            # The first thread may not sleep yet.
            wait_until(lambda: peer._ring.waker is not None and polls >= count)  # noqa: B023
            peer._wake()
            wait_until(lambda: polls > count)  # noqa: B023
        time.sleep(0.05)
        assert polls < 20
        cancellation.cancel()
        with pytest.raises(Cancelled):
            result.result(60)
        proceed.set()
    burst.close()


def test_no_interruption_loses_a_ring(prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may raise an exception after any step of a call."""
    # The one of pytest keeps exceptions of finalizers, and so their objects.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    caller, interrupted, module = Caller(), 0, RingPool.__module__.rpartition(".")[0]
    rings = prepared.connection.rings
    caller.run(prepared, 1)
    ways: list[Callable[[], object]] = [
        lambda: prepared.execute(caller.request, RUN),
        lambda: prepared.submit(caller.request, RUN),
    ]
    for way in ways:
        for value in interruptions(way, module):
            interrupted += 1
            caller.run(prepared, value)
            # An execution that was submitted keeps its ring until it has ended.
            wait_until(lambda: len(rings) == len(rings._free))
    assert interrupted > 40


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_sleeps_that_can_be_cancelled_are_as_before_after_any_interruption(
    prepared: RemotePreparedModel, device: AddingDevice, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    monkeypatch.setattr(ring_end, "PROCESSORS", Processors(1, lambda: 9))  # so it sleeps each time
    caller, interrupted, polls, burst = Caller(), 0, 0, prepared.create_burst()
    sleep = RingEnd.sleep

    def counted(end: RingEnd, timeout_s: float | None) -> bool:
        nonlocal polls
        polls += 1
        return sleep(end, timeout_s)

    monkeypatch.setattr(RingEnd, "sleep", counted)

    def run() -> None:
        cancellation = Cancellation()

        def compute(*_: object) -> None:
            if is_cancelled:
                cancellation.cancel()
            time.sleep(0.01)

        device.on_execute = compute
        with contextlib.suppress(Cancelled):
            burst.execute(caller.request, ExecuteOptions(cancellation=cancellation))

    burst.execute(caller.request, RUN)
    ended = 0
    for number in interruptions(run, ring_peer.__name__, ring_end.__name__):
        interrupted += 1
        polls = 0
        device.on_execute = lambda *_: time.sleep(0.02)
        try:
            burst.execute(caller.request, RUN)
        except DeadObject:
            # The packet that told of the cancellation was taken, and lost.
            ended, burst = ended + 1, prepared.create_burst()
            burst.execute(caller.request, RUN)
            continue
        assert polls < 20, number
        # A cancellation of the next execution ends its sleep, and nothing else does.
        started, proceed = blocking(device)
        cancellation, polls = Cancellation(), 0
        options = ExecuteOptions(cancellation=cancellation)
        with ThreadPoolExecutor(1) as threads:
            late = threads.submit(burst.execute, caller.request, options)
            assert started.acquire(timeout=30)
            time.sleep(0.01)
            assert polls < 20, number
            polls = 0
            cancellation.cancel()
            wait_until(lambda: polls, 5)  # noqa: B023
            proceed.set()
            with contextlib.suppress(Cancelled):
                late.result(30)
    burst.close()
    assert interrupted > 15
    assert ended <= 4 * is_cancelled


@pytest.mark.timed
def test_a_deadline_while_the_daemon_does_not_read(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline also holds while a request is sent."""
    read = RingServer._read_packets

    def late(ring: RingServer) -> None:
        time.sleep(0.3)
        read(ring)

    monkeypatch.setattr(RingServer, "_read_packets", late)
    start = time.monotonic()
    with pytest.raises(MissedDeadlineTransient):
        Caller().run(prepared, 2, ExecuteOptions(deadline_s=time.monotonic() + 0.05))
    assert time.monotonic() < start + 0.28
    monkeypatch.undo()
    Caller().run(prepared, 3)

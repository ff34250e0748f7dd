"""Executions of a prepared model, which share the rings of their connection."""

import contextlib
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.open_files import open_files
from support.daemon.peer import ring_threads, session_of
from support.daemon.traffic import Traffic
from support.interruption import interruptions
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.session import Session
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
    Unmappable,
)
from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.process.processors import Processors
from neurald.hal.rpc.client.burst import RemoteBurst
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.rings import ring_peer, ring_pool
from neurald.hal.rpc.client.rings.ring import Ring
from neurald.hal.rpc.client.rings.ring_pool import RingPool
from neurald.hal.rpc.server.ring_server import RingServer
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport import ring_end
from neurald.hal.rpc.transport.ring_end import RingEnd
from neurald.hal.sync.cancellation import Cancellation

NOW = PrepareOptions()
RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)


@pytest.fixture
def server(tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()
    wait_until(lambda: ring_threads() == 0)


def stop_rings(session: Session) -> None:
    """Ends the rings of a session in the daemon."""
    for open_ring in session._rings.values():
        open_ring.ring.stop()


class Caller:
    """A request of arrays, and its result."""

    def __init__(self, added: float = 1.0) -> None:
        self.values, self.result = np.zeros(3, np.float32), np.zeros(3, np.float32)
        self.request = request(self.values, self.result)
        self._added = added

    def run(self, prepared: RemotePreparedModel, value: float, options: ExecuteOptions = RUN) -> None:
        self.values[:] = value
        assert prepared.execute(self.request, options).is_sufficient
        assert self.result.tolist() == [value + self._added] * 3


def blocking(device: AddingDevice) -> tuple[threading.Semaphore, threading.Event]:
    """Makes executions wait; returns what counts those that have started, and lets them go on."""
    started, proceed = threading.Semaphore(0), threading.Event()

    def on_execute(*_: Any) -> None:
        started.release()
        assert proceed.wait(30)

    device.on_execute = on_execute
    return started, proceed


def test_executions_make_no_calls(
    remote: RemoteDevice, prepared: RemotePreparedModel, traffic: Traffic
) -> None:
    caller = Caller()
    messages = traffic.messages_sent
    for value in range(50):
        caller.run(prepared, value)
        Caller().run(prepared, value)  # new arrays use the arena of the ring
    assert traffic.messages_sent == messages
    assert len(prepared.connection.rings) == 1


def test_prepared_models_share_a_ring(remote: RemoteDevice) -> None:
    models = [remote.prepare_model(addition(np.full(3, n)), NOW) for n in range(80)]
    callers = [Caller(n) for n in range(80)]
    for value in range(3):
        for prepared, caller in zip(models, callers, strict=True):
            caller.run(prepared, value)
    assert len(models[0].connection.rings) == 1


def test_one_request_for_two_models(remote: RemoteDevice, prepared: RemotePreparedModel) -> None:
    other = remote.prepare_model(addition(ONES + 1), NOW)
    caller = Caller()
    for value in range(4):
        caller.run(prepared, value)
        other.execute(caller.request, RUN)
        assert caller.result.tolist() == [value + 2] * 3


def test_a_request_at_the_address_of_an_earlier_one(prepared: RemotePreparedModel) -> None:
    """It is run as it is, although what removes the earlier one was interrupted."""
    first, second = Caller(), Caller()
    first.run(prepared, 1)
    (ring,) = prepared.connection.rings._free
    ring._bound[id(second.request)] = ring._bound[id(first.request)]
    assert ring.knows(first.request)
    assert not ring.knows(second.request)
    assert ring.result(second.request) is None
    for value in range(3):
        second.run(prepared, value)
        assert first.result.tolist() == [2] * 3


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


def test_threads_take_rings_of_their_own(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    device.executions_at_once = 4
    started, proceed = blocking(device)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(Caller().run, prepared, n) for n in range(3)]
        for _ in runs:
            assert started.acquire(timeout=30)
        assert len(prepared.connection.rings) == 3
        proceed.set()
        for run in runs:
            run.result(30)
    Caller().run(prepared, 4)
    assert len(prepared.connection.rings) == 3


def test_more_threads_than_rings(
    remote: RemoteDevice, prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_pool, "MAX_RINGS", 2)

    def work(_: int) -> None:
        caller = Caller()
        for value in range(50):
            caller.run(prepared, value)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))
    # Threads that looked at the same time may each have opened one.
    assert len(prepared.connection.rings) <= 12


def test_a_call_waits_for_a_ring_that_is_given_back(
    remote: RemoteDevice,
    prepared: RemotePreparedModel,
    device: AddingDevice,
    monkeypatch: pytest.MonkeyPatch,
    traffic: Traffic,
) -> None:
    monkeypatch.setattr(ring_pool, "MAX_RINGS", 1)
    monkeypatch.setattr(ring_pool, "_WAIT_S", 30.0)
    started, proceed = blocking(device)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(Caller().run, prepared, 0)
        assert started.acquire(timeout=30)
        messages = traffic.messages_sent
        others = [pool.submit(Caller().run, prepared, n) for n in range(1, 4)]
        wait_until(lambda: len(prepared.connection.rings._waiting) == 3)
        proceed.set()
        for run in (first, *others):
            run.result(30)
    assert traffic.messages_sent == messages
    assert len(prepared.connection.rings) == 1


def test_a_call_goes_by_grpc_while_all_rings_are_in_use(
    remote: RemoteDevice,
    prepared: RemotePreparedModel,
    device: AddingDevice,
    monkeypatch: pytest.MonkeyPatch,
    traffic: Traffic,
) -> None:
    monkeypatch.setattr(ring_pool, "MAX_RINGS", 1)
    started, proceed = blocking(device)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(Caller().run, prepared, 0)
        assert started.acquire(timeout=30)
        messages = traffic.messages_sent
        second = pool.submit(Caller().run, prepared, 1)
        assert started.acquire(timeout=30)
        assert traffic.messages_sent > messages
        proceed.set()
        first.result(30)
        second.result(30)


def test_a_daemon_that_refuses_rings(tmp_path: Path, device: AddingDevice, traffic: Traffic) -> None:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/e.sock"), limits=Limits(bursts=1))
    server.start()
    remote = connect(str(server.address))
    prepared = remote.prepare_model(addition(ONES), NOW)
    burst = prepared.create_burst()
    messages = traffic.messages_sent
    for value in range(3):
        Caller().run(prepared, value)
    assert traffic.messages_sent == messages + 3
    burst.close()
    # A ring is tried again a moment later.
    wait_until(lambda: not session_of(server)._rings.values())
    prepared.connection.rings._refused_until = 0.0
    Caller().run(prepared, 4)
    assert len(prepared.connection.rings) == 1
    remote.close()
    server.stop()


def test_requests_that_rings_cannot_take_go_by_grpc(
    remote: RemoteDevice, prepared: RemotePreparedModel, traffic: Traffic
) -> None:
    class Special(HostMemory):
        pass

    result = np.zeros(3, np.float32)
    wanted = Request(
        inputs=(Argument(pool=0, length=12),),
        outputs=(Argument(pool=1, length=12),),
        pools=(Special(ONES), HostMemory(result)),
    )
    messages = traffic.messages_sent
    assert prepared.execute(wanted, RUN).is_sufficient
    assert result.tolist() == [2, 2, 2]
    assert traffic.messages_sent > messages
    assert not len(prepared.connection.rings)


def test_invalid_requests_are_refused_as_by_grpc(prepared: RemotePreparedModel) -> None:
    memory = SharedMemory.create(1024)
    wrong = Request(
        inputs=(Argument(pool=0, length=16),),
        outputs=(Argument(pool=0, offset=64, length=12),),
        pools=(memory,),
    )
    for _ in range(2):
        with pytest.raises(BadData, match="16 bytes"):
            prepared.execute(wrong, RUN)
    Caller().run(prepared, 3)
    assert len(prepared.connection.rings) == 1


def test_errors_of_the_driver(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    def fail(*_: Any) -> None:
        raise Unmappable("one of its own")

    def end(*_: Any) -> None:
        sys.exit("as a script does")

    device.on_execute = fail
    for _ in range(2):
        with pytest.raises(Unmappable, match="one of its own"):
            Caller().run(prepared, 1)
    device.on_execute = end
    with pytest.raises(OpFailed, match="internal error of the daemon"):
        Caller().run(prepared, 1)
    device.on_execute = lambda *_: None
    Caller().run(prepared, 2)
    assert len(prepared.connection.rings) == 1


def test_shapes_and_timing(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones((1, 2)), dynamic=True), NOW)
    result = np.zeros((2, 2), np.float32)
    for rows in (1, 3, 2, 3, 1):
        values = np.full((rows, 2), rows, np.float32)
        answer = prepared.execute(request(values, result), ExecuteOptions(measure=rows == 2))
        assert answer.output_shapes[0].dimensions == (rows, 2)
        assert answer.is_sufficient == (rows <= 2)
        assert answer.timing.in_driver_ns == (2 if rows == 2 else None)


def test_a_deadline_that_the_driver_does_not_keep(
    prepared: RemotePreparedModel, device: AddingDevice, server: DeviceServer
) -> None:
    _, proceed = blocking(device)
    with pytest.raises(MissedDeadlineTransient):
        Caller().run(prepared, 1, ExecuteOptions(deadline_s=time.monotonic() + 0.05))
    device.on_execute = lambda *_: None
    Caller().run(prepared, 2)  # does not wait for the late execution
    proceed.set()
    wait_until(lambda: ring_threads() == 1)


def test_cancelling(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    started = threading.Event()

    def on_execute(request: Request, options: ExecuteOptions) -> None:
        started.set()
        assert options.cancellation is not None
        while not options.cancellation.is_cancelled:
            time.sleep(0.001)
        options.cancellation.require_not_cancelled("before an operation")

    device.on_execute = on_execute
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(Caller().run, prepared, 1, ExecuteOptions(cancellation=cancellation))
        assert started.wait(60)
        cancellation.cancel()
        with pytest.raises(Cancelled):
            run.result(10)
    device.on_execute = lambda *_: None
    Caller().run(prepared, 2)


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


def test_a_ring_that_ends_while_the_daemon_lives(
    prepared: RemotePreparedModel, server: DeviceServer, device: AddingDevice
) -> None:
    Caller().run(prepared, 1)
    stop_rings(session_of(server))
    wait_until(lambda: ring_threads() == 0)
    Caller().run(prepared, 2)
    # One that ends during an execution: it is run again, since the daemon is well.
    started, proceed = blocking(device)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(Caller().run, prepared, 3)
        assert started.acquire(timeout=30)
        stop_rings(session_of(server))
        assert started.acquire(timeout=30)
        proceed.set()
        run.result(30)


def test_closing_ends_executions_under_way(
    remote: RemoteDevice, prepared: RemotePreparedModel, device: AddingDevice
) -> None:
    started, proceed = blocking(device)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(Caller().run, prepared, 1)
        assert started.acquire(timeout=30)
        remote.close()
        with pytest.raises(DeadObject):
            run.result(30)
        proceed.set()
    with pytest.raises(DeadObject):
        Caller().run(prepared, 1)
    assert not len(prepared.connection.rings)


def test_idle_rings_are_closed(
    remote: RemoteDevice, prepared: RemotePreparedModel, server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(server)
    before = session.memories
    rings = prepared.connection.rings
    Caller().run(prepared, 1)
    assert session.memories > before
    assert rings.close_idle()  # it was used a moment ago
    assert not rings.close_idle(0.0)
    wait_until(lambda: (ring_threads(), session.memories) == (0, before))
    Caller().run(prepared, 2)
    assert len(rings) == 1


def test_the_connection_closes_idle_rings_by_itself(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neurald.hal.rpc.client.background_calls.IDLE_S", 0.02)
    monkeypatch.setattr(ring_pool.RingPool.close_idle, "__defaults__", (0.02,))
    rings = prepared.connection.rings
    for value in range(3):
        Caller().run(prepared, value)
        assert len(rings) <= 1
        wait_until(lambda: not len(rings))


def test_many_cycles_leave_nothing(prepared: RemotePreparedModel, server: DeviceServer) -> None:
    rings, session = prepared.connection.rings, session_of(server)
    caller = Caller()

    def cycle(number: int) -> None:
        caller.run(prepared, number)
        rings.close_idle(0.0)

    def settle() -> tuple[int, int, int, int]:
        wait_until(lambda: ring_threads() == 0)
        descriptors = server.handler.sessions.accounts.descriptors.used
        return len(open_files()), session.memories, descriptors, mappings()

    cycle(0)
    before = settle()
    for number in range(1000):
        cycle(number)
    wait_until(lambda: all(now <= then for now, then in zip(settle(), before, strict=True)))


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
    assert len(open_files()) <= files


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
            result.result(10)
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

    run()
    for number in interruptions(run, ring_peer.__name__, ring_end.__name__):
        interrupted += 1
        polls = 0
        device.on_execute = lambda *_: time.sleep(0.02)
        burst.execute(caller.request, RUN)
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


def mappings() -> int:
    """Returns how many mappings of shared memory this process has."""
    return Path("/proc/self/maps").read_text().count("memfd:neurald")


def test_a_released_model_leaves_its_ring(
    remote: RemoteDevice, prepared: RemotePreparedModel, server: DeviceServer
) -> None:
    other = remote.prepare_model(addition(ONES + 1), NOW)
    session = session_of(server)
    Caller().run(prepared, 1)
    Caller(2).run(other, 1)
    registered = weakref.ref(session.model(other.handle))
    del other
    gc.collect()
    wait_until(lambda: registered() is None)
    Caller().run(prepared, 2)
    assert len(prepared.connection.rings) == 1


def test_a_connection_is_released_without_the_garbage_collector(server: DeviceServer) -> None:
    gc.disable()
    try:
        remote = connect(str(server.address))
        prepared = remote.prepare_model(addition(ONES), NOW)
        Caller().run(prepared, 1)
        connection: weakref.ref[Connection] = weakref.ref(prepared.connection)
        del remote, prepared
        assert connection() is None
        wait_until(lambda: not server.handler.sessions.all())
        wait_until(lambda: ring_threads() == 0)
    finally:
        gc.enable()


def test_on_other_hosts_every_execution_is_a_call(device: AddingDevice, traffic: Traffic) -> None:
    server = DeviceServer(device, Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    prepared = remote.prepare_model(addition(ONES), NOW)
    messages = traffic.messages_sent
    Caller().run(prepared, 1)
    assert traffic.messages_sent > messages
    assert not len(prepared.connection.rings)
    remote.close()
    server.stop()


def test_memory_of_earlier_requests_gives_way(tmp_path: Path, device: AddingDevice, traffic: Traffic) -> None:
    """Later requests can still use what rings keep."""
    limits = Limits(memory_bytes=1 << 20)
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/e.sock"), limits=limits)
    server.start()
    remote = connect(str(server.address))
    prepared = remote.prepare_model(addition(ONES), NOW)
    memories = [SharedMemory.create(300 << 10) for _ in range(8)]
    requests = [
        Request(
            inputs=(Argument(pool=0, length=12),),
            outputs=(Argument(pool=0, offset=64, length=12),),
            pools=(memory,),
        )
        for memory in memories
    ]
    messages = traffic.messages_sent
    for value in range(3):
        for memory, wanted in zip(memories, requests, strict=True):
            view = np.frombuffer(memory.view(), np.float32)
            view[:3] = value
            assert prepared.execute(wanted, RUN).is_sufficient
            assert view[16:19].tolist() == [value + 1] * 3
    assert traffic.messages_sent == messages
    remote.close()
    server.stop()


def test_large_memory_goes_by_grpc(
    remote: RemoteDevice, prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch, traffic: Traffic
) -> None:
    monkeypatch.setattr("neurald.hal.rpc.client.rings.ring._MAX_BYTES", 20)
    messages = traffic.messages_sent
    Caller().run(prepared, 1)
    assert traffic.messages_sent > messages


def test_calls_through_rings_count_as_calls_of_the_session(tmp_path: Path, device: AddingDevice) -> None:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/e.sock"), limits=Limits(calls=2))
    server.start()
    remote = connect(str(server.address))
    prepared = remote.prepare_model(addition(ONES), NOW)
    started, proceed = blocking(device)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(Caller().run, prepared, n) for n in range(2)]
        for _ in runs:
            assert started.acquire(timeout=30)
        with pytest.raises(ResourceExhaustedTransient, match="2 calls"):
            Caller().run(prepared, 2)
        proceed.set()
        for run in runs:
            run.result(30)
    Caller().run(prepared, 3)
    remote.close()
    server.stop()


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


def test_a_daemon_that_breaks_the_protocol(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch, device: AddingDevice
) -> None:
    monkeypatch.setattr("neurald.hal.rpc.server.ring_server.shapes_packet", lambda number, shapes: b"\x05")
    with pytest.raises(OpFailed, match="broke the protocol"):
        Caller().run(prepared, 1)
    monkeypatch.undo()
    Caller().run(prepared, 2)

"""The rings of a connection: who gets one, which calls go by gRPC, and when they end."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.daemon.open_files import open_files
from support.daemon.peer import ring_threads, session_of
from support.daemon.ring_calls import Caller, blocking, request_of_other_memory, stop_rings
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice, addition
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    DeadObject,
    ResourceExhaustedTransient,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.rings import ring_pool
from neurald.hal.rpc.server.server import DeviceServer

NOW = PrepareOptions()
RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)


def test_prepared_models_share_a_ring(remote: RemoteDevice) -> None:
    models = [remote.prepare_model(addition(np.full(3, n)), NOW) for n in range(80)]
    callers = [Caller(n) for n in range(80)]
    for value in range(3):
        for prepared, caller in zip(models, callers, strict=True):
            caller.run(prepared, value)
    assert len(models[0].connection.rings) == 1


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
    result = np.zeros(3, np.float32)
    wanted = request_of_other_memory(result)
    messages = traffic.messages_sent
    assert prepared.execute(wanted, RUN).is_sufficient
    assert result.tolist() == [2, 2, 2]
    assert traffic.messages_sent > messages
    assert not len(prepared.connection.rings)


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
    before = len(session.memories)
    rings = prepared.connection.rings
    Caller().run(prepared, 1)
    assert len(session.memories) > before
    assert rings.close_idle()  # it was used a moment ago
    assert not rings.close_idle(0.0)
    wait_until(lambda: (ring_threads(), len(session.memories)) == (0, before))
    Caller().run(prepared, 2)
    assert len(rings) == 1


def test_the_connection_closes_idle_rings_by_itself(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neurald.hal.rpc.client.calls.background_calls.IDLE_S", 0.02)
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
        return len(open_files()), len(session.memories), descriptors, mappings()

    cycle(0)
    before = settle()
    for number in range(1000):
        cycle(number)
    wait_until(lambda: all(now <= then for now, then in zip(settle(), before, strict=True)))


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
    registered = weakref.ref(session.models.find(other.handle))
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
        # A thread that was using it may be about to leave it.
        wait_until(lambda: connection() is None)
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

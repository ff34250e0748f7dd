"""A server starts and stops in order."""

import socket
import threading
import time
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.daemon.peer import CONSTANT, OPTIONS, RESULTS, Peer, execution, pool, read
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald._proto import device_pb2, types_pb2
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.admission.executions.serving_turns import ServingPlace
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    SESSION_OVER,
    BadData,
    BadState,
    Error,
    ResultCode,
    UnavailableDevice,
    Withdrawn,
)
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.server.session_calls import SessionCalls
from neurald.hal.rpc.transport.status import ONE_REPLY, error_of_status

_MODEL = types_pb2.Model(pools=[b"token"])
_ARTIFACT = device_pb2.Artifact(model_cache=[b"token"], seal=b"seal")


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest, tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    place = f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0"
    server = DeviceServer(device, Address.parse(place))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def session_ends_meanwhile(server: DeviceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends each call's session while the call, which has found it, waits for a turn."""
    turns, sessions = server.handler.admission.turns, server.handler.sessions
    wait = turns.place

    def place(user: Hashable, token: Hashable) -> ServingPlace:
        for session in sessions.all():
            if session.token == token:
                sessions.close(session)
        return wait(user, token)

    monkeypatch.setattr(turns, "place", place)


def test_nothing_is_replaced(tmp_path: Path, device: AddingDevice) -> None:
    (tmp_path / "d.sock").touch()
    with pytest.raises(BadState, match="exists"):
        DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock")).start()
    (tmp_path / "e.sock.memory").touch()
    with pytest.raises(BadState, match=r"e\.sock\.memory cannot be bound"):
        DeviceServer(device, Address.parse(f"unix://{tmp_path}/e.sock")).start()
    assert not (tmp_path / "e.sock").exists()
    with pytest.raises(BadState, match="cannot be bound"):
        DeviceServer(device, Address.parse(f"unix://{tmp_path}/missing/e.sock")).start()


def test_a_port_is_not_shared(device: AddingDevice) -> None:
    first = DeviceServer(device, Address.parse("127.0.0.1:0"))
    first.start()
    assert first.address.port
    with pytest.raises(BadState, match="another process"):
        DeviceServer(device, first.address).start()
    first.stop()


def test_other_hosts_are_not_served_by_mistake(device: AddingDevice) -> None:
    for place in ("0.0.0.0:0", "[::]:0", "192.0.2.1:1", "example.org:1"):
        with pytest.raises(BadData, match="--insecure"):
            DeviceServer(device, Address.parse(place))
    server = DeviceServer(device, Address.parse("0.0.0.0:0"), clients=ServedClients(insecure=True))
    server.start()
    with socket.create_connection(("127.0.0.1", server.address.port), 5):
        pass
    server.stop()


def test_a_drain_waits_for_calls_and_their_results(
    server: DeviceServer, peer: Peer, device: AddingDevice
) -> None:
    handle = peer.prepare()
    entered, leave = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        entered.set()
        leave.wait(60)

    device.on_execute = wait
    replies: list[Any] = []
    message = execution(handle, pool(peer.memory(CONSTANT.tobytes())), RESULTS)
    late = execution(handle, pool(peer.memory(CONSTANT.tobytes())), RESULTS)
    call = threading.Thread(target=lambda: replies.append(peer.call("Execute", message)))
    call.start()
    assert entered.wait(60)
    assert not server.handler.admission.drain(0.0, lambda: False)
    assert peer.call("GetStatus", device_pb2.GetStatusRequest()).status == device_pb2.DEVICE_STATUS_OFFLINE
    with pytest.raises(Error, match="about to stop") as caught:
        peer.call("Execute", late)
    assert caught.value.code is ResultCode.DEAD_OBJECT
    drained: list[bool] = []
    drain = threading.Thread(
        target=lambda: drained.append(server.handler.admission.drain(10.0, lambda: False))
    )
    drain.start()
    leave.set()
    call.join()
    time.sleep(0.1)
    assert not drained
    read(peer, replies[0].results[0])
    drain.join()
    assert drained == [True]


@pytest.fixture
def late_watches(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Has servers handle `Watch` only once the event is set."""
    may_watch = threading.Event()
    watch = SessionCalls.watch_session

    def wait(*arguments: Any) -> None:
        may_watch.wait(30)
        watch(*arguments)

    monkeypatch.setattr(SessionCalls, "watch_session", wait)
    return may_watch


def test_a_client_that_has_just_come_learns_that_its_daemon_was_stopped(
    late_watches: threading.Event, server: DeviceServer
) -> None:
    """It does not take the end for a death that its calls may have caused."""
    client = connect(str(server.address))
    prepared = client.prepare_model(addition(np.ones(2)), PrepareOptions())
    output = np.zeros(2, np.float32)

    def stop() -> None:
        drain(server)
        server.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    wait_until(lambda: server.handler.admission.is_draining)
    time.sleep(0.1)
    assert stopping.is_alive()
    late_watches.set()
    stopping.join()
    with pytest.raises(Withdrawn):
        prepared.execute(request(np.ones(2, np.float32), output), ExecuteOptions())
    client.close()


def test_a_client_whose_session_ends_before_it_watches_was_withdrawn(
    late_watches: threading.Event, server: DeviceServer
) -> None:
    client = connect(str(server.address))
    prepared = client.prepare_model(addition(np.ones(2)), PrepareOptions())
    sessions = server.handler.sessions
    for session in sessions.all():
        sessions.close(session)
    late_watches.set()
    with pytest.raises(Withdrawn):
        prepared.execute(request(np.ones(2, np.float32), np.zeros(2, np.float32)), ExecuteOptions())
    client.close()


@pytest.mark.timed
def test_a_server_that_has_stopped_leaves_no_thread(tmp_path: Path, device: AddingDevice) -> None:
    before = set(threading.enumerate())
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    client = connect(str(server.address))
    prepared = client.prepare_model(addition(np.ones(3)), PrepareOptions())
    result = np.zeros(3, np.float32)
    prepared.execute(request(np.ones(3, np.float32), result), ExecuteOptions())
    assert result.tolist() == [2] * 3
    del prepared
    client.close()
    server.stop()
    # Threads of calls, and idle ones, end within a second.
    try:
        wait_until(lambda: set(threading.enumerate()) <= before, 10)
    except AssertionError:
        pytest.fail(f"{set(threading.enumerate()) - before} are left")


@pytest.mark.timed
def test_clients_that_do_not_watch_hold_up_a_drain_for_a_moment(server: DeviceServer, peer: Peer) -> None:
    started = time.monotonic()
    drain(server)
    assert time.monotonic() - started < 10


def test_a_daemon_that_is_about_to_stop_opens_no_sessions(server: DeviceServer) -> None:
    drain(server)
    with pytest.raises(UnavailableDevice, match="about to stop"):
        connect(str(server.address))
    assert not server.handler.sessions.all()


def drain(server: DeviceServer) -> bool:
    return server.handler.admission.drain(20.0, lambda: False)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("GetSupportedOperations", device_pb2.GetSupportedOperationsRequest(model=_MODEL)),
        ("PrepareModel", device_pb2.PrepareModelRequest(model=_MODEL, options=OPTIONS)),
        (
            "PrepareModelFromCache",
            device_pb2.PrepareModelFromCacheRequest(options=OPTIONS, artifact=_ARTIFACT),
        ),
        ("GetArtifact", device_pb2.GetArtifactRequest(prepared_model=1)),
        ("GetImprovement", device_pb2.GetImprovementRequest(prepared_model=1)),
        ("ReleasePreparedModel", device_pb2.ReleasePreparedModelRequest(prepared_model=1)),
        ("Profile", device_pb2.ProfileRequest(prepared_model=1)),
        ("Execute", execution(1, RESULTS)),
        ("Execute", execution(1, pool(b"token"))),
        ("Execute", execution(1, types_pb2.RequestPool(buffer=1))),
        ("ExecuteFenced", device_pb2.ExecuteFencedRequest(prepared_model=1, fence=b"token")),
        ("GetFencedExecutionInfo", device_pb2.GetFencedExecutionInfoRequest(execution=1)),
        ("Allocate", device_pb2.AllocateRequest(inputs=[device_pb2.BufferRole(prepared_model=1)])),
        ("CopyToBuffer", device_pb2.CopyToBufferRequest(buffer=1, memory=b"token")),
        ("CopyFromBuffer", device_pb2.CopyFromBufferRequest(buffer=1)),
        ("ReleaseBuffer", device_pb2.ReleaseBufferRequest(buffer=1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_calls_that_wait_at_the_end_of_their_session_were_not_begun(
    peer: Peer, session_ends_meanwhile: None, method: str, message: Any
) -> None:
    with pytest.raises(Withdrawn, match=f"^{SESSION_OVER}$"):
        peer.call(method, message)


@pytest.mark.parametrize("how", ["read", "execute", "execute at once"])
def test_streams_that_wait_at_the_end_of_their_session_were_not_begun(
    peer: Peer, session_ends_meanwhile: None, how: str
) -> None:
    request = device_pb2.ExecuteWithDataRequest(request=execution(1, RESULTS))
    if how == "read":
        message = device_pb2.ReadMemoryRequest(memory=b"token")
        stream = peer.stub.ReadMemory(message, metadata=peer.metadata, timeout=20)
    else:
        metadata = (*peer.metadata, ONE_REPLY) if how == "execute at once" else peer.metadata
        stream = peer.stub.ExecuteWithData(iter([request]), metadata=metadata, timeout=20)
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    error = error_of_status(caught.value)
    assert isinstance(error, Withdrawn)
    assert str(error) == SESSION_OVER


@pytest.mark.timed
def test_results_that_nobody_reads_hold_up_a_drain_for_a_moment(server: DeviceServer, peer: Peer) -> None:
    handle = peer.prepare()
    peer.call("Execute", execution(handle, pool(peer.memory(bytes(24))), RESULTS))
    started = time.monotonic()
    assert not server.handler.admission.drain(30.0, lambda: False)
    assert time.monotonic() - started < 10


@pytest.mark.timed
def test_a_drain_can_be_forced(server: DeviceServer, peer: Peer, device: AddingDevice) -> None:
    handle = peer.prepare()
    peer.call("Execute", execution(handle, pool(peer.memory(bytes(24))), RESULTS))
    started = time.monotonic()
    assert not server.handler.admission.drain(30.0, lambda: time.monotonic() > started + 0.1)
    assert time.monotonic() < started + 5

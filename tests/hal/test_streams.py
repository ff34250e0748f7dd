"""Streams that their clients do not go on with: they are counted, cut off, and never in the way of calls."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.addition import AddingDevice, addition
from support.peer import Peer
from support.waiting import wait_until

from neurald._proto import device_pb2
from neurald.hal import rpc
from neurald.hal import server as server_module
from neurald.hal.address import Address
from neurald.hal.errors import DeadObject, ResourceExhaustedTransient
from neurald.hal.limits import Limits
from neurald.hal.rpc import SESSION_KEY, error_from
from neurald.hal.server import SERVICE, DeviceServer
from neurald.hal.streams import Streams
from neurald.hal.wire import model_to_wire


class Context:
    """Of a call; tells when it was cut off."""

    def __init__(self) -> None:
        self.is_cut = threading.Event()

    def cancel(self) -> None:
        self.is_cut.set()


def test_streams_are_counted_in_all_and_for_each_client() -> None:
    streams = Streams(most=3, most_of_one=2, patience_s=60)
    with ExitStack() as first:
        for _ in range(2):
            first.enter_context(streams.open("a", Context()))
        with pytest.raises(ResourceExhaustedTransient, match="2 of one client and 3 of all"):
            first.enter_context(streams.open("a", Context()))
        first.enter_context(streams.open("b", Context()))
        with pytest.raises(ResourceExhaustedTransient):
            first.enter_context(streams.open("c", Context()))
    for _ in range(5):
        with streams.open("a", Context()), streams.open("a", Context()):
            pass


def test_what_stands_still_is_cut_off_and_what_moves_is_not() -> None:
    streams = Streams(most=3, most_of_one=3, patience_s=0.3)
    still, moving = Context(), Context()
    with streams.open("a", still), streams.open("a", moving) as stream:
        end = time.monotonic() + 10
        while not still.is_cut.is_set():
            assert time.monotonic() < end
            stream.moves()
            time.sleep(0.02)
        assert not moving.is_cut.is_set()
    again = Context()
    time.sleep(0.2)
    with streams.open("a", again):
        assert again.is_cut.wait(10)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceServer]:
    monkeypatch.setattr(server_module, "_PATIENCE_S", 1.5)
    server = DeviceServer(
        AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"), limits=Limits(memory_bytes=1 << 30)
    )
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["write", "read"])
def test_stalled_streams_stop_nobody(server: DeviceServer, kind: str) -> None:
    good, bad = Peer(server), [Peer(server) for _ in range(3)]
    ends = threading.Event()

    def stalled() -> Iterator[Any]:
        yield device_pb2.WriteMemoryRequest(size_bytes=1 << 20)
        ends.wait()

    calls: list[Any] = []
    for peer in bad:
        for _ in range(48):
            if kind == "write":
                calls.append(peer.stub.WriteMemory.future(stalled(), metadata=peer.metadata))
            else:
                token = peer.memory(bytes(2 << 20))
                message = device_pb2.ReadMemoryRequest(memory=token)
                calls.append(peer.stub.ReadMemory(message, metadata=peer.metadata))
    started = time.monotonic()
    good.prepare()
    good.call("GetStatus", device_pb2.GetStatusRequest())
    assert time.monotonic() - started < 5
    if kind == "write":
        wait_until(lambda: all(call.done() for call in calls), timeout_s=20)
        assert all(call.code() is not grpc.StatusCode.OK for call in calls)
    ends.set()
    for peer in (good, *bad):
        peer.close()


@pytest.mark.slow
def test_messages_without_a_session_are_not_parsed(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []

    def counted(kind: Any, data: bytes) -> Any:
        parsed.append(len(data))
        return rpc.parse(kind, data)

    monkeypatch.setattr(server_module, "parse", counted)
    peer = Peer(server)
    parsed.clear()
    bomb = device_pb2.PrepareModelRequest(model=model_to_wire(addition(np.ones(3)), [bytes(16)]))
    for metadata in ((), ((SESSION_KEY, "ab" * 16),)):
        with pytest.raises(grpc.RpcError) as caught:
            peer.stub.PrepareModel(bomb, metadata=metadata, timeout=20)
        assert isinstance(error_from(caught.value, ""), DeadObject)
    assert not parsed
    peer.close()


@pytest.mark.slow
def test_messages_of_millions_of_parts(server: DeviceServer) -> None:
    """Each empty operand is two bytes of the message and sixty in memory."""
    peer = Peer(server)
    graph = b"\x0a\x00" * (7 << 20)
    request: Any = device_pb2.PrepareModelRequest.DESCRIPTOR
    model = request.fields_by_name["model"]
    main = model.message_type.fields_by_name["main"]

    def delimited(number: int, content: bytes) -> bytes:
        length, size = b"", len(content)
        while size > 127:
            length += bytes((size & 127 | 128,))
            size >>= 7
        return bytes((number << 3 | 2,)) + length + bytes((size,)) + content

    message = delimited(model.number, delimited(main.number, graph))
    call: Any = peer._channel.unary_unary(f"/{SERVICE}/PrepareModel")
    with pytest.raises(grpc.RpcError, match="7340032 operands"):
        call(message, metadata=peer.metadata, timeout=20)
    assert peer.raw("PrepareModel", message + message) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert peer.raw("Execute", bytes(5 << 20)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert peer.raw("GetStatus", bytes(2 << 10)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    peer.prepare()
    peer.close()


def test_a_server_knows_whether_it_serves(server: DeviceServer) -> None:
    assert server.is_serving
    threads = server._serving
    assert len(threads) == 2, [thread.name for thread in threads]
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    server._serving = (*threads, ended)
    assert not server.is_serving

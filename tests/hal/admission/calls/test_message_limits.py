"""Calls that make a server wait: for their message, or for a client that takes the reply."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from support.daemon.peer import Peer
from support.models.addition import AddingDevice
from support.waiting import wait_until

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.calls import message_limits
from neurald.hal.admission.calls.message_limits import MessageLimitInterceptor
from neurald.hal.errors import BadData, DeadObject, ResultCode
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.status import SESSION_KEY, error_from


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DeviceServer]:
    server = DeviceServer(AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"), limits=Limits())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def peer(server: DeviceServer) -> Iterator[Peer]:
    peer = Peer(server)
    yield peer
    peer.close()


class Silent:
    """Calls that send their headers, and nothing else until `ends` is set."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._channels: list[grpc.Channel] = []
        self.ends = threading.Event()
        self.calls: list[Any] = []

    def start(self, method: str, count: int, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        """Starts calls on a connection of their own."""
        channel = grpc.insecure_channel(self._address.target, (("grpc.use_local_subchannel_pool", 1),))
        self._channels.append(channel)
        call: Any = channel.stream_unary(method)
        self.calls += [call.future(self._nothing(), metadata=metadata) for _ in range(count)]

    def _nothing(self) -> Iterator[bytes]:
        self.ends.wait()
        return
        yield b""

    def close(self) -> None:
        self.ends.set()
        for channel in self._channels:
            channel.close()


@pytest.mark.timed
@pytest.mark.slow
def test_calls_whose_message_does_not_come_stop_nobody(server: DeviceServer, peer: Peer) -> None:
    hostile = [Peer(server) for _ in range(3)]
    silent = Silent(server.address)
    for other, method in zip(hostile, ("Execute", "ReadMemory", "Watch"), strict=True):
        silent.start(f"/{SERVICE}/{method}", 120, other.metadata)
    for method in ("Describe", "GetStatus", "OpenSession"):
        silent.start(f"/{SERVICE}/{method}", 100)
    time.sleep(1.0)
    started = time.monotonic()
    for _ in range(3):
        peer.prepare()
        peer.call("GetStatus", device_pb2.GetStatusRequest())
    stranger = grpc.insecure_channel(server.address.target, (("grpc.use_local_subchannel_pool", 1),))
    describe: Any = stranger.unary_unary(f"/{SERVICE}/Describe")
    describe(b"", timeout=5)
    stranger.close()
    assert time.monotonic() - started < 5
    silent.close()
    for other in hostile:
        other.close()


def test_a_call_without_a_session_is_refused_before_its_message_comes(server: DeviceServer) -> None:
    silent = Silent(server.address)
    for metadata in ((), ((SESSION_KEY, "ab" * 16),), ((SESSION_KEY, "no hexadecimal"),)):
        for method in ("PrepareModel", "Execute", "ReadMemory", "Watch", "ReleaseMemory"):
            silent.start(f"/{SERVICE}/{method}", 1, metadata)
    for call in silent.calls:
        with pytest.raises(grpc.RpcError) as caught:
            call.result(timeout=20)
        assert isinstance(error_from(caught.value, ""), DeadObject)
        assert "session" in str(caught.value.details())
    silent.close()


def test_a_call_ends_without_a_message(server: DeviceServer, peer: Peer) -> None:
    channel: Any = grpc.insecure_channel(server.address.target, (("grpc.use_local_subchannel_pool", 1),))
    with pytest.raises(grpc.RpcError) as caught:
        channel.stream_unary(f"/{SERVICE}/Execute")(iter(()), metadata=peer.metadata, timeout=20)
    error = error_from(caught.value, "")
    assert isinstance(error, BadData)
    assert str(error) == "Execute ended without a message"
    channel.close()


def test_messages_are_as_long_as_their_kind_of_call_needs(peer: Peer) -> None:
    refused = grpc.StatusCode.RESOURCE_EXHAUSTED
    for method, most in (("GetStatus", 1 << 10), ("Execute", 1 << 20), ("ReleaseMemory", 1 << 20)):
        assert peer.raw(method, bytes(most + 1)) is refused, method
        assert peer.raw(method, bytes(most)) is not refused, method


class Counted(grpc.GenericRpcHandler):
    """A service with one call, which replies with this many bytes."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: bytes(self._size_bytes))


def test_replies_that_nobody_takes_are_let_go_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(message_limits, "_LARGE_REPLY_S", 0.5)
    intercept = MessageLimitInterceptor(lambda method, context: None, owner_limit=8)
    server: Any = grpc.server(ThreadPoolExecutor(8), interceptors=[intercept])
    server.add_generic_rpc_handlers((Counted(3 << 20),))
    server.add_insecure_port(f"unix:{tmp_path}/s")
    server.start()
    small_window = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16))
    with grpc.insecure_channel(f"unix:{tmp_path}/s", small_window) as channel:
        call: Any = channel.unary_unary("/a/b")
        assert len(call(b"", timeout=20)) == 3 << 20
        # What is not asked for stays where it is, but for what the connection takes ahead.
        stream: Any = channel.unary_stream("/a/b")
        unread: list[Any] = [stream(b"") for _ in range(20)]
        wait_until(lambda: len(server._state.rpc_states) > 10)
        wait_until(lambda: not server._state.rpc_states)
        assert not intercept._large_replies._streams
        assert len(call(b"", timeout=20)) == 3 << 20
        del unread
    server.stop(None).wait()


def test_errors_of_handlers_are_told(server: DeviceServer, peer: Peer) -> None:
    with pytest.raises(BadData) as caught:
        peer.call("ReleaseBuffer", device_pb2.ReleaseBufferRequest(buffer=7))
    assert caught.value.code is ResultCode.BAD_DATA

"""Attack with stalled streams of every kind that takes a thread of the daemon, and useless
connections.
"""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import grpc
from faults.attacks.attack import MIB, Attack
from support.daemon.raw_client import SERVICE, Held, RawClient, closed

from neurald._proto import device_pb2
from neurald.hal.process.address import Address

_STREAMS = 64
_REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
_MEMORY_BYTES = 16 * MIB
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _PING = 4, 6
_CONNECTIONS = 200


class _Streams(Attack):
    """Keeps this many stalled streams, reopening those that the daemon has ended."""

    most_ratio = 1.5

    def start(self) -> None:
        self._clients: list[RawClient] = []
        self._held: list[Held] = []
        self._calls: list[Any] = []

    def step(self) -> None:
        self._calls = [call for call in self._calls if call.is_active()]
        self.outcomes["streams"] += (missing := self.scaled(_STREAMS) - len(self._calls))
        for _ in range(missing):
            with contextlib.suppress(grpc.RpcError, ConnectionError):
                self._calls.append(self._open())

    def _open(self) -> Any:
        raise NotImplementedError

    def _client(self) -> RawClient:
        if not self._clients:
            self._clients.append(RawClient.opened(self.target.address))
        return self._clients[0]

    def _hold(self, *first: bytes) -> Held:
        self._held.append(Held(*first))
        return self._held[-1]

    def stop(self) -> None:
        for held in self._held:
            held.let_go()
        for call in self._calls:
            call.cancel()
        closed(*self._clients)


class StalledReflection(_Streams):
    """Reflection streams without requests, which need no session."""

    name = "stalled reflection"

    def _client(self) -> RawClient:
        if not self._clients:
            self._clients.append(RawClient(self.target.address))
        return self._clients[0]

    def _open(self) -> Any:
        return self._client().channel.stream_stream(_REFLECTION)(self._hold())


class StalledWrites(_Streams):
    """Memories that are announced but never sent."""

    name = "stalled writes"

    def _open(self) -> Any:
        client = self._client()
        first = device_pb2.WriteMemoryRequest(size_bytes=1 << 20).SerializeToString()
        call = client.channel.stream_unary(f"{SERVICE}WriteMemory")
        return call.future(self._hold(first), metadata=client.metadata)


class StalledReads(_Streams):
    """Results that are read only in part."""

    name = "stalled reads"

    def _open(self) -> Any:
        client = self._client()
        token = client.memory(_MEMORY_BYTES)
        message = device_pb2.ReadMemoryRequest(memory=token).SerializeToString()
        call = client.channel.unary_stream(f"{SERVICE}ReadMemory")(message, metadata=client.metadata)
        next(call)
        return call


class Connections(Attack):
    """Connections that flood the daemon with pings, and silent ones."""

    name = "floods and silent connections"
    most_ratio = 1.5

    def start(self) -> None:
        path = Address.parse(self.target.address).path
        assert path is not None
        self._path = str(path)
        self._silent: list[socket.socket] = []

    def step(self) -> None:
        while len(self._silent) < self.scaled(_CONNECTIONS):
            self._silent.append(self._connected())
        frames: tuple[Callable[[], bytes], ...] = (
            lambda: _frame(_PING, b"12345678"),
            lambda: _frame(_SETTINGS, b""),
            lambda: b"\xff" * 64,
        )
        for frame in frames:
            self._flood(frame())

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1.0)
        connection.connect(self._path)
        return connection

    def _flood(self, frame: bytes) -> None:
        with self._connected() as connection:
            try:
                connection.sendall(_PREFACE + _frame(_SETTINGS, b""))
                for _ in range(self.scaled(500)):
                    connection.sendall(frame * 10)
            except OSError:
                self.outcomes["floods cut off"] += 1
            else:
                self.outcomes["floods taken"] += 1

    def stop(self) -> None:
        for connection in self._silent:
            connection.close()


def _frame(kind: int, body: bytes) -> bytes:
    """Builds a connection-level HTTP/2 frame."""
    return len(body).to_bytes(3, "big") + bytes((kind, 0, 0, 0, 0, 0)) + body

"""Encrypted connections: what they send, and what is left of them when they end."""

import asyncio
import gc
import socket
import ssl
from typing import Any

import pytest
from support.daemon import certificates

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")

from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.inference.server.http.http_server import BoundedProtocol, HttpServer
from neurald.service.inference.server.http.tls_protocol import TlsProtocol

_REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TlsFiles]:
    authority = certificates.make_authority(tmp_path_factory.mktemp("authority"))
    return {
        "server": certificates.issue(authority, "server", ["localhost"]),
        "client": certificates.issue(authority, "client"),
    }


def context(files: TlsFiles, protocol: Any) -> ssl.SSLContext:
    found = ssl.SSLContext(protocol)
    found.load_cert_chain(files.certificate, files.key)
    found.load_verify_locations(files.authority)
    found.verify_mode = ssl.CERT_REQUIRED
    return found


def received(place: Any, data: bytes, client: ssl.SSLContext | None) -> bytes:
    """Returns what a client receives that sends bytes, encrypted if it has a context."""
    with socket.create_connection(place, timeout=30) as connection:
        if client is None:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(4096), b""))
        with client.wrap_socket(connection, server_hostname="localhost") as encrypted:
            encrypted.sendall(data)
            return b"".join(iter(lambda: encrypted.recv(4096), b""))


async def exchanged(files: dict[str, TlsFiles], data: bytes, name: str, count: int = 1) -> bytes:
    """Serves clients one after the other; returns what the last one has received.

    Args:
        files: certificates by name.
        data: what each client sends.
        name: the name of its certificate; empty if it does not encrypt.
        count: how many there are.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    tls = context(files["server"], ssl.PROTOCOL_TLS_SERVER)
    server = HttpServer(hello, listener, connections=4, drain_s=1, tls=tls)
    await server.start()
    client = context(files[name], ssl.PROTOCOL_TLS_CLIENT) if name else None
    found = b""
    for _ in range(count):
        found = await asyncio.to_thread(received, listener.getsockname(), data, client)
    await server.stop()
    return found


def protocols_in_memory() -> int:
    return sum(type(each) in (TlsProtocol, BoundedProtocol) for each in gc.get_objects())


def test_encrypted_requests_are_answered(files: dict[str, TlsFiles]) -> None:
    assert asyncio.run(exchanged(files, _REQUEST, "client")).endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (_REQUEST, "", b""),
        (b"\x16\x03\x01\x02\x00\x01", "", b""),
        (b"", "", b""),
        # That of a server is for no client.
        (_REQUEST, "server", b""),
        (b"none\r\n\r\n", "client", b"HTTP/1.1 400"),
        (_REQUEST, "client", b"HTTP/1.1 200"),
    ],
    ids=("plain", "part", "nothing", "certificate", "damaged", "answered"),
)
def test_nothing_is_left_of_connections_that_have_ended(
    files: dict[str, TlsFiles], data: bytes, name: str, expected: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Counts protocols without collections: one of a failed handshake takes 256 KiB."""
    gc.collect()
    before = protocols_in_memory()
    gc.disable()
    try:
        found = asyncio.run(exchanged(files, data, name, count=5))
        assert found.startswith(expected)
        assert (b"hello" in found) == expected.endswith(b"200")
        assert protocols_in_memory() == before
    finally:
        gc.enable()
    assert not [each for each in caplog.records if each.levelname == "ERROR"]

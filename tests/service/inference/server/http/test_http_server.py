"""The HTTP server: which connections it closes, and what it logs."""

import asyncio
import gc
import json
import logging
import re
import socket
import struct
import weakref
from typing import Any
from unittest.mock import Mock

import pytest
from support.sweeps import sweep

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")

from neurald.service.inference.server.http import http_server
from neurald.service.inference.server.http.http_server import BoundedProtocol, ClientWarnings, HttpServer
from neurald.service.inference.server.http.request_events import EVENTS

_REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def answer(client: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(client, 4096)


async def received_when_idle(*, asks: bool, makes_room: bool) -> bytes:
    """Has an idle connection be closed; returns what its client receives.

    Args:
        asks: whether its client has sent a request that was not read yet.
        makes_room: whether another client needs its place; else it was idle for too long.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(hello, listener, connections=1, drain_s=1, tls=None)
    await server.start()
    with socket.create_connection(listener.getsockname()) as client:
        client.setblocking(False)
        client.sendall(_REQUEST)
        assert (await answer(client)).endswith(b"hello")
        (idle,) = server.server_state.connections
        assert isinstance(idle, BoundedProtocol)
        # The loop, which is in this thread, reads nothing before it is closed.
        if asks:
            client.sendall(_REQUEST)
        if makes_room:
            newer = BoundedProtocol(server.config, server.server_state, {})
            newer.connection_made(Mock(get_extra_info=lambda _: None))
            newer.connection_lost(None)
        else:
            idle.timeout_keep_alive_handler()
        received = await answer(client)
    await server.stop()
    return received


@pytest.mark.parametrize("makes_room", [False, True])
def test_an_idle_connection_is_closed_unless_its_next_request_has_come(makes_room: bool) -> None:
    assert asyncio.run(received_when_idle(asks=False, makes_room=makes_room)) == b""
    assert asyncio.run(received_when_idle(asks=True, makes_room=makes_room)).endswith(b"hello")


async def answered(request: bytes, failures: list[object]) -> bytes:
    """Returns what a client receives that sends bytes, and adds what the loop reports."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(hello, listener, connections=4, drain_s=1, tls=None)
    await server.start()
    with socket.create_connection(listener.getsockname()) as client:
        client.setblocking(False)
        client.sendall(request)
        found = await answer(client)
    await server.stop()
    return found


@sweep("target", [b"/", b"http://a", b"http://a:99999/", b"http:", b"?"])
@sweep("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
def test_heads_that_would_change_the_protocol_are_refused_like_others(
    target: bytes, upgrade: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[object] = []
    head = b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n" + upgrade + b"\r\n"
    status = b"200" if target == b"/" else b"400"
    assert asyncio.run(answered(head, failures)).startswith(b"HTTP/1.1 " + status)
    assert not failures
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body, after a while."""
    body = b""
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body += event["body"]
        more = event["more_body"]
    await asyncio.sleep(0.05)
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


async def conversation(request: bytes, app: Any = echo, *, sends_no_more: bool = False) -> bytes:
    """Returns all that a client receives until its connection ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(app, listener, connections=4, drain_s=1, tls=None)
    await server.start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(request)
    await writer.drain()
    if sends_no_more:
        writer.write_eof()
    found = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await server.stop()
    return found


def statuses_and_error(received: bytes) -> tuple[list[int], str]:
    """Returns the statuses of all answers, and the error in the last one."""
    statuses = [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+) ", received)]
    return statuses, json.loads(received.rpartition(b"\r\n\r\n")[2])["error"]


_POST = b"POST / HTTP/1.1\r\nHost: a\r\n"


@sweep(
    ("wrong", "status", "text"),
    [
        (b"NONSENSE / HTTP/1.1\r\n\r\n", 400, "Invalid method"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "Invalid header token"),
        (b"GET / HTTP/7.3\r\n\r\n", 400, "Invalid HTTP version"),
        (
            _POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n",
            400,
            "Invalid character in chunk size",
        ),
        (_POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400, "Content-Length overflow"),
        (b"CONNECT a:1 HTTP/1.1\r\n\r\n", 501, "tunnels"),
        (b"GET / HTTP/1.1\r\nLong: " + b"a" * 20_000 + b"\r\n\r\n", 431, "16384"),
        # So much is on its way that closing the connection at once would reset it.
        (b"GET / HTTP/1.1\r\nLong: " + b"a" * 900_000, 431, "16384"),
        (b"GET /" + b"a" * 900_000, 431, "16384"),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 257 + b"\r\n", 431, "256 headers"),
        (
            _POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * 257 + b"\r\n",
            431,
            "256 headers",
        ),
    ],
)
@sweep("earlier", [0, 1, 3])
def test_the_last_answer_says_what_is_not_understood(
    wrong: bytes, status: int, text: str, earlier: int
) -> None:
    """Requests that have come before on the connection are answered first."""
    good = _POST + b"Content-Length: 5\r\n\r\nhello"
    received = asyncio.run(conversation(good * earlier + wrong))
    statuses, error = statuses_and_error(received)
    assert statuses == [200] * earlier + [status]
    assert text in error
    assert received.count(b"\r\n\r\nhello") == earlier


def test_each_request_may_have_many_headers() -> None:
    request = _POST + b"a:\r\n" * 253 + b"Content-Length: 5\r\n\r\nhello"
    received = asyncio.run(conversation(request * 3 + b"NONSENSE"))
    assert statuses_and_error(received)[0] == [200, 200, 200, 400]


@sweep(("begun", "statuses"), [(b"", []), (b"GET / HT", [408]), (_POST + b"\r\nGET / HT", [200, 408])])
def test_heads_that_come_late_are_answered_if_they_have_begun(
    begun: bytes, statuses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_HEAD_S", 0.2)
    received = asyncio.run(conversation(begun))
    if statuses:
        assert statuses_and_error(received)[0] == statuses
    else:
        assert received == b""


async def beyond_limit() -> bytes:
    """Returns what the client of a connection receives for which there is no room."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(echo, listener, connections=1, drain_s=1, tls=None)
    await server.start()
    busy_reader, busy = await asyncio.open_connection(*listener.getsockname())
    busy.write(_POST + b"Content-Length: 5\r\n\r\nhel")
    while not any(each._unanswered for each in server.server_state.connections):  # type: ignore[union-attr]
        await asyncio.sleep(0.01)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(_POST + b"Content-Length: 500000\r\n\r\n" + b"a" * 500_000)
    found = await asyncio.wait_for(reader.read(), 10)
    busy.write(b"lo")
    assert b"hello" in await asyncio.wait_for(busy_reader.read(4096), 10)
    for each in (busy, writer):
        each.close()
    await server.stop()
    return found


def test_one_connection_too_many_is_told_so() -> None:
    statuses, error = statuses_and_error(asyncio.run(beyond_limit()))
    assert statuses == [503]
    assert "1 connections" in error


async def slow_echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers after a time in which the first bytes of an answer have been sent ahead."""
    await asyncio.sleep(0.1)
    await echo(scope, receive, send)


@sweep("app", [echo, slow_echo])
@sweep("count", [1, 3])
@sweep("rest", [b"", _POST + b"Content-Length: 5\r\n\r\nhe", b"GET / HT"])
@sweep("fields", [b"", b"Expect: 100-continue\r\n"])
def test_a_client_that_sends_no_more_is_answered(app: Any, count: int, rest: bytes, fields: bytes) -> None:
    request = (_POST + fields + b"Content-Length: 5\r\n\r\nhello") * count + rest
    received = asyncio.run(conversation(request, app, sends_no_more=True))
    undated = re.sub(rb"date: .*\r\n", b"", received)
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    assert undated.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"") == answer * count


@sweep("ends_first", [False, True])
def test_a_client_that_has_left_is_noticed(ends_first: bool) -> None:
    """Its request is cancelled, also if it waited for a while before it left."""
    ended: list[str] = []

    async def long(scope: Any, receive: Any, send: Any) -> None:
        left = asyncio.Event()
        scope["extensions"][EVENTS].on_gone = left.set
        await left.wait()
        ended.append(scope["path"])

    async def leave() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        server = HttpServer(long, listener, connections=4, drain_s=1, tls=None)
        await server.start()
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(_REQUEST)
        await writer.drain()
        if ends_first:
            writer.write_eof()
            await asyncio.sleep(0.1)
            assert not ended
        writer.close()
        async with asyncio.timeout(10):
            while not ended:
                await asyncio.sleep(0.01)
        await server.stop()

    asyncio.run(leave())
    assert ended == ["/"]


async def kept_after_reset() -> bool:
    """Returns whether a connection is still there that its client has reset."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(hello, listener, connections=1, drain_s=1, tls=None)
    await server.start()
    with socket.create_connection(listener.getsockname()) as client:
        client.setblocking(False)
        client.sendall(_REQUEST)
        assert (await answer(client)).endswith(b"hello")
        (connection,) = map(weakref.ref, server.server_state.connections)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    async with asyncio.timeout(10):
        while server.server_state.connections:
            await asyncio.sleep(0.01)
    gc.collect()
    await server.stop()
    return connection() is not None


def test_a_connection_that_is_reset_is_forgotten() -> None:
    assert not asyncio.run(kept_after_reset())


_EXPECTS = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"


async def read_body(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, and answers only if all of it has come, as the application does."""
    while (event := await receive()).get("more_body"):
        pass
    if event["type"] == "http.request":
        await hello(scope, receive, send)


async def left(data: bytes, *, resets: bool) -> None:
    """Sends bytes and leaves at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(read_body, listener, connections=4, drain_s=1, tls=None)
    await server.start()
    with socket.create_connection(listener.getsockname()) as client:
        client.setblocking(False)
        client.sendall(data)
        if resets:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            while await answer(client):
                pass
    async with asyncio.timeout(10):
        while server.server_state.connections or server.server_state.tasks:
            await asyncio.sleep(0.01)
    await server.stop()


_LEFT = pytest.mark.parametrize(
    "data",
    [
        _EXPECTS + b"zz\r\n",
        _EXPECTS,
        _EXPECTS + b"5\r\nhello\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        _REQUEST + _EXPECTS + b"zz\r\n",
        _REQUEST + b"no request\r\n\r\n",
        _REQUEST * 20 + _EXPECTS,
    ],
    ids=range(7),
)


@_LEFT
def test_clients_cause_no_errors_in_the_log(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """They may send what is wrong, leave before their answers, and reset the connection."""
    is_refused = b"zz" in data or b"no request" in data
    for resets in (True, False) if is_refused else (True,):
        for _ in range(5):
            asyncio.run(left(data, resets=resets))
    assert not [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


_MANY_FIELDS = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 300


def connections_in_memory() -> int:
    return sum(type(each) is BoundedProtocol for each in gc.get_objects())


@_LEFT
@pytest.mark.parametrize("resets", [False, True], ids=("ends", "resets"))
def test_connections_that_end_wait_for_no_collection_of_garbage(data: bytes, resets: bool) -> None:
    """Full collections are rare in the front end, and clients open thousands of connections."""
    gc.collect()
    before = connections_in_memory()
    gc.disable()
    try:
        for each in (data, _MANY_FIELDS, _REQUEST):
            is_answered = b"zz" in each or b"no request" in each or each is _MANY_FIELDS
            asyncio.run(left(each, resets=resets or not is_answered))
        assert connections_in_memory() == before
    finally:
        gc.enable()


def test_clients_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test of uvicorn.error")
    logger.addFilter(ClientWarnings())
    for _ in range(100):
        logger.warning("Invalid HTTP request received.")
    logger.warning("Unsupported upgrade request.")
    logger.error("100 %")
    assert caplog.messages == ["Invalid HTTP request received.", "Unsupported upgrade request.", "100 %"]

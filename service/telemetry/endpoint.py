"""Serves metrics over HTTP to programs of this host."""

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Callable
from typing import Final

from neurald.hal.accounting.exposition import CONTENT_TYPE
from neurald.hal.errors import BadData, BadState

logger = logging.getLogger(__name__)

DEFAULT_PORT: Final = 9464
#: Limits for requests: bytes, seconds, and connections at a time.
_MAX_REQUEST_BYTES: Final = 8192
_REQUEST_S: Final = 5.0
_MAX_CONNECTIONS: Final = 16


def metrics_address(text: str) -> tuple[str, int]:
    """Returns host and port of an address such as `127.0.0.1:9464` or `:9464`.

    Raises:
        BadData: it is not an address of this host itself, or not an address.
    """
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        is_own = ipaddress.ip_address(host).is_loopback
        number = int(port)
    except ValueError:
        raise BadData(f"{text!r} is not an address such as 127.0.0.1:{DEFAULT_PORT}") from None
    if not colon or not 0 <= number <= 65535:
        raise BadData(f"{text!r} is not an address such as 127.0.0.1:{DEFAULT_PORT}")
    if not is_own:
        raise BadData(
            f"{text!r}: metrics have no access control, and are served to this host only, at 127.0.0.1 or [::1]"
        )
    return host, number


class MetricsEndpoint:
    """Answers GET /metrics. An asynchronous context manager.

    Args:
        address: host and port.
        text: returns the metrics.
    """

    def __init__(self, address: tuple[str, int], text: Callable[[], str]) -> None:
        self._address = address
        self._text = text
        self._connections = 0
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port, once it is served."""
        if self._server is None:
            return self._address[1]
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> "MetricsEndpoint":
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_MAX_REQUEST_BYTES)
        except OSError as error:
            raise BadState(f"metrics cannot be served at {host}:{port}: {error.strerror or error}") from None
        logger.info("metrics are at http://%s:%d/metrics", host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_REQUEST_S):
                    answer = await self._answer(reader)
                    writer.write(answer)
                    await writer.drain()
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        if self._connections > _MAX_CONNECTIONS:
            return _response("503 Service Unavailable", "too many connections\n")
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response("431 Request Header Fields Too Large", "the request is too long\n")
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "GET is expected\n")
        if path != b"/metrics":
            return _response("404 Not Found", "metrics are at /metrics\n")
        text = self._text()
        return _response("200 OK", text if method == b"GET" else "", CONTENT_TYPE)


def _response(status: str, text: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body

"""Serves an ASGI application over HTTP with uvicorn, with limits of its own."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.server.http.http_app import CHUNKS

#: The largest head of a request, and how long it may take to arrive.
MAX_HEAD_BYTES: Final = 16 << 10
_HEAD_S: Final = 30.0
_KEEP_ALIVE_S: Final = 75


class ClientWarnings(logging.Filter):
    """Passes on few of uvicorn's warnings, which clients cause as often as they like."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: defaultdict[str, RateLimitedLogger] = defaultdict(
            partial(RateLimitedLogger, logging.getLogger(__name__))
        )

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns False for a warning, and logs one line for those of its kind in a while."""
        if record.levelno != logging.WARNING:
            return True
        self._lines[record.msg].warning("%s", record.getMessage())
        return False


_CLIENT_WARNINGS: Final = ClientWarnings()


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose head of a request is too large or too slow; counts chunks of bodies."""

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first head."""
        super().connection_made(transport)
        # A length beside chunks does not count (RFC 9112, 6.3); the application closes the connection.
        self.parser.set_dangerous_leniencies(lenient_chunked_length=True)
        self._chunks = 0
        self._head_bytes = 0
        self._is_in_head = True
        self._head_timer = self.loop.call_later(_HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Parses what has arrived; closes the connection if a head is too large."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """Begins with the head of the next request."""
        self._head_bytes, self._is_in_head = 0, True
        self._head_timer.cancel()
        self._head_timer = self.loop.call_later(_HEAD_S, self.transport.close)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Ends the head of a request."""
        self._is_in_head = False
        self._head_timer.cancel()
        self._chunks = 0
        scope: Any = self.scope
        scope["extensions"] = {CHUNKS: lambda: self._chunks}
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Counts a chunk."""
        self._chunks += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._head_timer.cancel()
        super().connection_lost(exc)


class HttpServer(uvicorn.Server):
    """A server that leaves signals to its process. Belongs to one event loop.

    Args:
        app: the ASGI application.
        listener: a bound socket.
        connections: how many there may be at once.
        drain_s: how long requests may take at the end.
        tls: for encrypted connections; None without.
    """

    def __init__(
        self,
        app: Any,
        listener: socket.socket,
        *,
        connections: int,
        drain_s: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=connections,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, int(drain_s)),
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_CLIENT_WARNINGS)
        self._listener = listener
        self._tls = tls
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield

    async def start(self) -> None:
        """Begins to serve.

        Raises:
            OSError: the socket cannot be listened at.
        """
        self.config.load()
        config: Any = self.config
        config.ssl = self._tls
        self._task = asyncio.create_task(self.serve(sockets=[self._listener]))
        while not self.started:
            if self._task.done():
                self._task.result()
                raise OSError("the HTTP server has ended")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Accepts no more connections, and waits for running requests."""
        self.should_exit = True
        if self._task is not None:
            await self._task

"""Serves an ASGI application over HTTP with uvicorn, with limits of its own."""

import asyncio
import contextlib
import fcntl
import logging
import socket
import ssl
import struct
import termios
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.server.http.presence_check import PresenceCheck
from neurald.service.inference.server.http.request_events import EVENTS, RequestEvents
from neurald.service.inference.server.http.tls_protocol import TlsProtocol

#: The largest head of a request, and how long it may take to arrive.
MAX_HEAD_BYTES: Final = 16 << 10
_HEAD_S: Final = 30.0
#: Limit on the fields of a request, in its head and behind its body. Each takes more memory than
#: its bytes.
_MAX_FIELDS: Final = 256
#: How long a connection may be idle. A request that is sent while its connection is closed fails,
#: so it is done rarely: those that are in the way are closed earlier.
_KEEP_ALIVE_S: Final = 3600
#: How long a connection is read from after its last answer, and how much. It would be reset if it
#: were closed with bytes that nobody has read, and the client might not see the answer.
_LINGER_S: Final = 1.0
_MAX_LINGER_BYTES: Final = 1 << 20
#: Copying a larger body behind its head takes longer than another call of the kernel.
_MAX_JOINED_BYTES: Final = 1 << 16
#: The form in which the kernel says how many bytes wait to be read.
_SIZE: Final = struct.Struct("i")


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


class _HeadFault(ValueError):
    """A fault of a head of a request, apart from its form.

    Args:
        status: the status of the answer.
        text: the text of the error.
    """

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def _fault_of(error: httptools.HttpParserError) -> _HeadFault:
    """Returns why the parser does not go on."""
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
    if isinstance(cause, _HeadFault):
        # The connection keeps it, and its frames have what has arrived.
        return cause.with_traceback(None)
    # Other callbacks fail at the target: uvicorn wants a path of ASCII.
    reason = quoted(str(cause)) if isinstance(cause, httptools.HttpParserError) else "its target has no path"
    return _HeadFault(HTTPStatus.BAD_REQUEST, f"the request is not understood as HTTP/1.1: {reason}")


def _large_head() -> _HeadFault:
    return _HeadFault(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"the head of the request has more than {MAX_HEAD_BYTES} bytes; send fewer or shorter headers",
    )


class AnswerTransport:
    """Sends the head of an answer together with its body, which takes one call of the kernel less.

    uvicorn writes each of them once, and closes the transport, or tells the protocol, at the end.

    Args:
        transport: the transport of the connection.
        presence: the check of the connection, which may have sent the first bytes of the head.
    """

    def __init__(self, transport: asyncio.WriteTransport, presence: PresenceCheck) -> None:
        self._transport = transport
        self._presence = presence
        self._head: bytes | None = None
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Sends what follows the head; keeps the head for it."""
        if not self._is_begun:
            self._head, self._is_begun = self._presence.rest_of(data), True
        elif self._head is not None and len(data) <= _MAX_JOINED_BYTES:
            data, self._head = self._head + data, None
            self._transport.write(data)
        else:
            self.flush()
            self._transport.write(data)

    def flush(self) -> None:
        """Sends the head alone if nothing has followed."""
        head, self._head = self._head, None
        if head is not None:
            self._transport.write(head)

    def is_closing(self) -> bool:
        """Returns whether the connection is being closed."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Closes the connection when everything is sent."""
        self.flush()
        self._transport.close()


class BoundedProtocol(HttpToolsProtocol):
    """Ends connections whose request is not understood, or its head is too large or too slow.

    The last answer on such a connection says why, after those to earlier requests. It keeps what
    arrives of each request in `RequestEvents`. If there are too many connections, the one that has
    been idle for the longest time is closed, so that idle ones keep no client away. None is closed
    for being idle whose next request has arrived.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # It refers to the connection, which might never be made; `connection_made` begins another.
        self.parser: Any = None

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first head."""
        super().connection_made(transport)
        self._begin_parser()
        #: The request of which something arrives, and those without an answer.
        self._events: RequestEvents | None = None
        #: The requests without an answer, with their cycles of uvicorn.
        self._unanswered: dict[RequestEvents, Any] = {}
        #: Why nothing that arrives is understood any more, and the timer that ends the connection
        #: once its client has been told. None before.
        self._fault: _HeadFault | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._presence = PresenceCheck(transport, self.loop)
        self._discarded_bytes = 0
        #: Whether there is no room for this connection.
        self._is_too_many = False
        #: How much of the head has arrived, and how much of that is parsed.
        self._head_bytes = self._parsed_bytes = 0
        #: The fields of the request that have arrived.
        self._fields = 0
        self._is_in_head = True
        self._idle_since_s = self.loop.time()
        self._make_room()
        self._head_timer = self.loop.call_later(_HEAD_S, self._note_late_head)

    def _make_room(self) -> None:
        """Closes an idle connection if there are too many; if all are busy, this one gets 503."""
        most = self.config.limit_concurrency
        assert most is not None  # noqa: S101 - the server sets it
        # uvicorn would refuse the requests of all connections.
        self.limit_concurrency = None
        if len(self.connections) <= most:
            return
        present: list[BoundedProtocol] = [each for each in self._others() if not each.transport.is_closing()]
        if len(present) < most:
            return
        idle = [each for each in present if not each._unanswered]
        for each in sorted(idle, key=lambda each: each._idle_since_s):
            if not each._is_asked():
                each.transport.close()
                return
        self._is_too_many = True

    def _is_asked(self) -> bool:
        """Returns whether something has arrived that was not read yet."""
        connection = self.transport.get_extra_info("socket")
        found = fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(_SIZE.size))
        return found != bytes(_SIZE.size)

    def timeout_keep_alive_handler(self) -> None:
        """Closes the connection, unless a request has arrived meanwhile."""
        if not self._is_asked():
            super().timeout_keep_alive_handler()

    def _others(self) -> "Iterator[BoundedProtocol]":
        for each in self.connections:
            if isinstance(each, BoundedProtocol) and each is not self:
                yield each

    def _begin_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        # A length beside chunks does not count (RFC 9112, 6.3); the application closes the
        # connection.
        self.parser.set_dangerous_leniencies(lenient_chunked_length=True, lenient_data_after_close=True)

    def data_received(self, data: bytes) -> None:
        """Parses what has arrived; refuses heads that are too large.

        A client that would change to another protocol, as Java's does, is answered in this one.
        """
        if self._fault is not None:
            self._discarded_bytes += len(data)
            if self._linger is not None and self._discarded_bytes > _MAX_LINGER_BYTES:
                self.transport.close()
            return
        rest = data
        while True:
            try:
                self.parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # The parser takes no body after such a head.
                rest = self._head_without_upgrade() + rest[upgrade.args[0] :]
                self._begin_parser()
            except httptools.HttpParserError as error:
                self._refuse(_fault_of(error))
                return
        self._unset_keepalive_if_required()
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(_large_head())

    def _note_late_head(self) -> None:
        """Ends the connection, since the head of a request has not arrived in time."""
        if self._head_bytes:
            text = f"the head of the request has not arrived within {_HEAD_S:g} s"
            self._refuse(_HeadFault(HTTPStatus.REQUEST_TIMEOUT, text))
        else:
            self.transport.close()

    def _refuse(self, fault: _HeadFault) -> None:
        """Answers the request that arrives with an error, after the earlier ones, and no other."""
        if self._fault is not None or self.transport.is_closing():
            return
        self._fault = fault
        self._head_timer.cancel()
        self.logger.warning("a request over HTTP is refused: %s", fault)
        arriving = self._events
        if arriving is not None and arriving in self._unanswered and not arriving.is_complete:
            # It is this one that is refused. The rest of its body does not come any more.
            self._leave(arriving)
        if self._unanswered:
            self.flow.pause_reading()
        else:
            self._answer_fault(fault)

    def _answer_fault(self, fault: _HeadFault) -> None:
        """Sends the last answer, and closes the connection when its client has probably read it."""
        if self.transport.is_closing():
            return
        self._presence.end()
        self._unset_keepalive_if_required()
        content = msgspec.json.encode({"error": str(fault)})
        head = (
            f"HTTP/1.1 {fault.status.value} {fault.status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + content)
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except OSError:  # its client has reset it
            self.transport.close()
            return
        self.flow.resume_reading()
        self._linger = self.loop.call_later(_LINGER_S, self.transport.close)

    def _head_without_upgrade(self) -> bytes:
        line = b" ".join(
            (self.parser.get_method(), self.url, b"HTTP/" + self.parser.get_http_version().encode())
        )
        fields = [b": ".join(field) for field in self.headers if field[0] != b"upgrade"]
        return b"\r\n".join((line, *fields, b"", b""))

    def on_message_begin(self) -> None:
        """Begins with the head of the next request."""
        self._head_bytes, self._parsed_bytes, self._fields, self._is_in_head = 0, 0, 0, True
        self._events = None
        self._head_timer.cancel()
        self._head_timer = self.loop.call_later(_HEAD_S, self._note_late_head)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Takes a part of the target of a request."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a field of the head of a request."""
        self._count(len(name) + len(value))
        self._fields += 1
        if self._fields > _MAX_FIELDS:
            raise _HeadFault(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request has more than {_MAX_FIELDS} headers; send fewer",
            )
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        """Raises _HeadFault, so that the parser stops, if the head of the request is too large."""
        self._parsed_bytes += size
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise _large_head()

    def on_headers_complete(self) -> None:
        """Ends the head of a request, which is answered from now on."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _HeadFault(HTTPStatus.NOT_IMPLEMENTED, "tunnels (CONNECT) are not supported")
            return
        if self._is_too_many:
            raise _HeadFault(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"there are {self.config.limit_concurrency} connections with requests already; try again later",
            )
        self._is_in_head = False
        self._head_timer.cancel()
        events = RequestEvents(self.flow)
        scope: Any = self.scope
        scope["extensions"] = {EVENTS: events}
        super().on_headers_complete()
        self._events = events
        cycle: Any = self.cycle
        self._unanswered[events] = cycle
        send_continue = cycle.waiting_for_100_continue

        async def receive() -> dict[str, Any]:
            nonlocal send_continue
            is_waiting = not (events.is_complete or events.is_gone or cycle.response_started)
            if send_continue and is_waiting and not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            send_continue = False
            return await events.receive()

        cycle.receive = receive
        cycle.transport = answer = AnswerTransport(self.transport, self._presence)

        def on_response() -> None:
            self._unanswered.pop(events, None)
            _release(cycle)
            self._idle_since_s = self.loop.time()
            answer.flush()  # of a request HEAD, whose answer has no body
            self._presence.answered()
            self.on_response_complete()
            if self._fault is not None and not self._unanswered:
                self._answer_fault(self._fault)
            elif self._presence.is_begun and not self._is_asked_completely:
                self.transport.close()

        cycle.on_response = on_response

    def on_body(self, body: bytes) -> None:
        """Keeps a part of a body, unless the request has its answer already."""
        if self._events is not None and not self.cycle.response_complete:
            self._events.add(body)

    def on_message_complete(self) -> None:
        """Ends a request."""
        if self._events is not None:
            self._events.complete()

    def on_chunk_header(self) -> None:
        """Counts a chunk."""
        if self._events is not None:
            self._events.chunks += 1

    @property
    def _is_asked_completely(self) -> bool:
        """True if there is a request without an answer of which all has arrived."""
        return any(events.is_complete for events in self._unanswered)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answers what the client has asked, unless it has left; returns False to close.

        An encrypted connection is closed in both directions at once.
        """
        if self._fault is not None or not self._is_asked_completely or not self.transport.can_write_eof():
            return False
        self._presence.begin()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._presence.end()
        for timer in (self._head_timer, self._linger):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        # uvicorn leaves this timer to a connection that was reset, which it would keep for so long.
        self._unset_keepalive_if_required()
        for events in tuple(self._unanswered):
            self._leave(events)

    def _leave(self, events: RequestEvents) -> None:
        """Says that nobody waits for the answer of a request any more, which has none yet."""
        # uvicorn does so for the latest one alone, and logs an error for others.
        cycle = self._unanswered.pop(events)
        cycle.disconnected = True
        _release(cycle)
        events.gone()


def _release(cycle: Any) -> None:
    """Takes the functions from uvicorn's cycle of a request that refer to it and to its connection.

    So the memory of a connection is freed as soon as it ends, and not by the next full collection
    of garbage. An application that begins later is told by uvicorn's own function that its client
    has left.
    """
    del cycle.receive
    cycle.on_response = _nothing


def _nothing() -> None:
    """Does nothing: the answer of the request is sent, or nobody waits for it."""


def _encrypted(tls: ssl.SSLContext, **arguments: Any) -> TlsProtocol:
    """Returns the protocol of an encrypted connection; see `BoundedProtocol` for the arguments."""
    return TlsProtocol(BoundedProtocol(**arguments), tls)


class HttpServer(uvicorn.Server):
    """A server that leaves signals to its process. Belongs to one event loop.

    Args:
        app: the ASGI application.
        listener: a bound socket.
        connections: how many there may be at once.
        drain_s: how long requests may take at the end.
        tls: the files for encrypted connections; None without.
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
        if self._tls is not None:
            config: Any = self.config
            config.http_protocol_class = partial(_encrypted, self._tls)
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

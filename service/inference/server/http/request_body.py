"""The body of a request over HTTP, of which no more is read than may be."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from neurald.hal.rpc.transport.call_times import TRACE_KEY
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.protocol.trace_context import trace_id_of
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.http.compression import (
    IDENTITY,
    decompressed,
    encoding_of,
)
from neurald.service.inference.server.http.request_events import EVENTS, RequestEvents
from neurald.service.inference.server.http.time_limit import time_limit_s

HEADER_LENGTH: Final = b"inference-header-content-length"
#: How long nothing of a body may arrive; and how long it may take in all: that time, and more for a
#: client that sends this many bytes per second. One that sends a byte now and then would keep a
#: connection, of which there are few, for as long as it likes.
_BODY_S: Final = 60.0
_MIN_BYTES_PER_S: Final = 1 << 10
#: The most chunks of a body.
_MAX_CHUNKS: Final = 65_536
#: How much of a body that is too large is received, and for how long: some time, and more for a
#: client that sends this many bytes per second. One that is still sending when its connection is
#: closed may not see the answer.
_MAX_DISCARDED_BYTES: Final = 4 << 30
_DISCARD_S: Final = 5.0
_DISCARDED_PER_S: Final = 4 << 20
#: How an operator lets clients send more, in Triton's words.
_RAISE_LIMIT: Final = "Use --http-max-input-size to increase the limit."
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class ClientGone(Exception):
    """The client has closed the connection."""


class RequestBody:
    """The body of a request, of which no more is read than may be.

    Args:
        scope, receive: the scope and receive of ASGI.
        budget: counts the bytes until `release`.
    """

    def __init__(self, scope: Scope, receive: Receive, budget: RequestBudget) -> None:
        self.headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            before = self.headers.get(name)
            # Fields of one name are one list (RFC 9110, 5.3).
            self.headers[name] = value if before is None else b", ".join((before, value))
        self._events: RequestEvents = scope["extensions"][EVENTS]
        self._receive = receive
        self._budget = budget
        self._held = 0
        limit_s = time_limit_s(self.headers)
        self._end_s = None if limit_s is None else asyncio.get_running_loop().time() + limit_s
        #: True if everything was read, so that the connection can be used again.
        self.is_complete = scope["method"] in ("GET", "HEAD")
        self._is_refused = False
        #: True if something of it was awaited, so that the client was told to send it; and if the
        #: rest is not awaited any more.
        self._is_asked_for = self._is_given_up = False

    @property
    def trace_id(self) -> str:
        """The client's trace; empty if it takes none."""
        return trace_id_of(self.headers.get(TRACE_KEY.encode(), b""))

    @property
    def needs_close(self) -> bool:
        """True if the connection must not be used again.

        Some of the body may not have been read, the head is not sound, or the body has a length and
        chunks, as attempts to smuggle a request through a proxy have.
        """
        is_ambiguous = {b"content-length", b"transfer-encoding"} <= self.headers.keys()
        return self._is_refused or not self.is_complete or is_ambiguous

    @property
    def remaining_s(self) -> float | None:
        """The time for which the client still waits for the answer; None if it does not say."""
        return None if self._end_s is None else max(0.0, self._end_s - asyncio.get_running_loop().time())

    def header_number(self, name: bytes) -> int | None:
        """Returns the length that a header has; None if the request has no such header.

        Args:
            name: the name of the header, in small letters.

        Raises:
            ServiceError: it is not a length.
        """
        found = self.headers.get(name)
        if found is None:
            return None
        text = found.strip()
        if not text.isdigit() or len(text) > 18:
            raise ServiceError(
                Status.INVALID,
                f"the header {name.decode().title()} is {quoted(text.decode('latin-1'))}; a length in bytes "
                "is expected",
            )
        return int(text)

    def refuse(self) -> None:
        """Lets the connection be closed, since the head of the request is not sound."""
        self._is_refused = True

    async def discard(self) -> None:
        """Receives some of what is left, which a client may send before it reads the answer.

        A client that waits for permission to send its body (RFC 9110, 10.1.1) is not given it.

        Raises:
            ClientGone: the client has left.
        """
        is_sent = self._is_asked_for or self._events.is_begun
        is_withheld = not is_sent and self.headers.get(b"expect", b"").lower() == b"100-continue"
        if is_withheld or self._is_given_up:
            return
        size = 0
        end_s = asyncio.get_running_loop().time() + _DISCARD_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end_s) as limit:
                while not self.is_complete and size < _MAX_DISCARDED_BYTES:
                    event = await self._received()
                    if event["type"] == "http.disconnect":
                        raise ClientGone
                    size += len(event.get("body", b""))
                    limit.reschedule(end_s + size / _DISCARDED_PER_S)
                    self.is_complete = not event.get("more_body", False)

    async def read(self, limit_bytes: int, envelope: int = 0) -> bytes:
        """Reads the body.

        Args:
            limit_bytes: the most bytes, also after it was decompressed.
            envelope: how many more it may have.

        Raises:
            ServiceError: it is too large or too slow, or not compressed as it says.
            ClientGone: the client has left.
        """
        most = limit_bytes + envelope
        length = None if b"transfer-encoding" in self.headers else self.headers.get(b"content-length")
        if length is not None and (announced := int(length)) > most:
            raise self._too_large(announced, limit_bytes, has_tensors=envelope > 0)
        parts: list[bytes] = []
        size = 0
        began_s = asyncio.get_running_loop().time()
        while not self.is_complete:
            # Most bodies have arrived with their heads, and need no limit of time.
            event = self._events.next() or await self._awaited(began_s, size)
            if event["type"] == "http.disconnect":
                raise ClientGone
            part = event.get("body", b"")
            size += len(part)
            if size > most:
                self.is_complete = not event.get("more_body", False)
                raise self._too_large(size, limit_bytes, has_tensors=envelope > 0)
            if self._events.chunks > _MAX_CHUNKS + 1:  # the last one is empty
                self.is_complete = not event.get("more_body", False)
                raise ServiceError(
                    Status.TOO_LARGE,
                    f"Chunked request body exceeds maximum of {_MAX_CHUNKS} non-empty chunks. Send fewer or larger "
                    "HTTP chunks.",
                )
            self._hold(len(part))
            parts.append(part)
            self.is_complete = not event.get("more_body", False)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        encoding = encoding_of(self.headers.get(b"content-encoding", b""))
        if encoding == IDENTITY:
            return content
        self._hold(most)
        result = await decompressed(content, encoding, most)
        self._release(most - min(most, len(result)))
        if len(result) > most:
            raise ServiceError(
                Status.TOO_LARGE,
                f"Decompressed data size exceeds the maximum allowed value of {limit_bytes} bytes. {_RAISE_LIMIT}",
            )
        return result

    async def _awaited(self, began_s: float, size: int) -> dict[str, Any]:
        """Returns the next event; raises ServiceError if it does not come, or the body is too slow.

        Args:
            began_s: the time of the loop at which the first event was awaited.
            size: how many bytes have come.
        """
        now_s = asyncio.get_running_loop().time()
        end_s = began_s + _BODY_S + size / _MIN_BYTES_PER_S
        try:
            async with asyncio.timeout_at(min(end_s, now_s + _BODY_S)):
                return await self._received()
        except TimeoutError:
            self._is_given_up = True
            if size and end_s < now_s + _BODY_S:
                raise ServiceError(
                    Status.LATE,
                    f"{size} bytes of the request arrived in {end_s - began_s:.0f} s, and not the rest; after "
                    f"{_BODY_S:g} s, at least {_MIN_BYTES_PER_S} bytes per second are expected",
                ) from None
            raise ServiceError(Status.LATE, f"nothing of the request arrived for {_BODY_S:g} s") from None

    async def _received(self) -> dict[str, Any]:
        """Returns the next event."""
        self._is_asked_for = True
        return await self._receive()

    def _too_large(self, size: int, limit_bytes: int, *, has_tensors: bool) -> ServiceError:
        """Returns the error for one of at least this many bytes, of JSON and perhaps tensors."""
        length = self.headers.get(HEADER_LENGTH)
        if length is not None and not length.strip(b"0"):
            reason = (
                f"Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of "
                f"{limit_bytes} bytes"
            )
        else:
            what = "request size" if has_tensors else "request JSON size"
            reason = f"{what} of {size} bytes exceeds the maximum allowed input size of {limit_bytes} bytes"
        return ServiceError(Status.TOO_LARGE, f"{reason}. {_RAISE_LIMIT}")

    async def unless_gone(self, call: Awaitable[Any]) -> Any:
        """Awaits a call; cancels it if the client closes the connection.

        Raises:
            ClientGone: the client has left.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        self._events.on_gone = task.cancel
        if self._events.is_gone:
            task.cancel()
        try:
            return await call
        except asyncio.CancelledError:
            if not self._events.is_gone:
                raise
            task.uncancel()
            raise ClientGone from None
        finally:
            self._events.on_gone = None

    def _hold(self, size: int) -> None:
        self._budget.take(size)
        self._held += size

    def _release(self, size: int) -> None:
        self._budget.give_back(size)
        self._held -= size

    def release(self) -> None:
        """Gives back what was counted."""
        self._release(self._held)

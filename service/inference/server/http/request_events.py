"""Keeps the events of one request over HTTP: parts of the body, and the end of the connection."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

#: The extension of ASGI's scope with the `RequestEvents` of a request.
EVENTS: Final = "neurald.events"
#: How much of a body is there before no more is received until it is taken.
_HELD_BYTES: Final = 1 << 18


class Reading(Protocol):
    """Receives from a connection, or does not."""

    def pause_reading(self) -> None:
        """Receives nothing."""

    def resume_reading(self) -> None:
        """Receives again."""


class RequestEvents:
    """The events of a request, in the order of ASGI. Belongs to one event loop.

    The parts of a body are passed on as they came, where uvicorn copies each of them three times.

    Args:
        reading: the reading of the connection.

    Attributes:
        chunks: how many chunks of the body have begun.
        is_begun: whether something of the body has arrived.
        is_complete: whether all of the body has arrived.
        is_gone: whether the client has closed the connection, or the rest of the request does not
            come for another reason.
        on_gone: the function that is called when it does.
    """

    def __init__(self, reading: Reading) -> None:
        self.chunks = 0
        self.is_begun = self.is_gone = False
        self.on_gone: Callable[[], object] | None = None
        self._reading = reading
        self._parts: list[bytes] = []
        self._held = 0
        self.is_complete = False
        self._waiter: asyncio.Future[None] | None = None

    def add(self, part: bytes) -> None:
        """Adds a part of the body."""
        self.is_begun = True
        self._parts.append(part)
        self._held += len(part)
        if self._held > _HELD_BYTES:
            self._reading.pause_reading()
        self._wake()

    def complete(self) -> None:
        """Says that all of the body has arrived."""
        self.is_complete = True
        self._wake()

    def gone(self) -> None:
        """Says that the client has closed the connection."""
        self.is_gone = True
        self._wake()
        if self.on_gone is not None:
            self.on_gone()

    async def receive(self) -> dict[str, Any]:
        """Returns the next event, as ASGI defines it."""
        while (event := self.next()) is None:
            self._reading.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return event

    def next(self) -> dict[str, Any] | None:
        """Returns the next event if it is there, as ASGI defines it."""
        if not (self._parts or self.is_complete or self.is_gone):
            return None
        if self.is_gone:
            return {"type": "http.disconnect"}
        parts, self._parts, self._held = self._parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": not self.is_complete}

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

"""Finds out whether a client of HTTP that sends no more waits for its answer or has left."""

import asyncio
from typing import Final, Protocol

#: With what the head of every answer begins.
_BEGINNING: Final = b"HTTP/1.1 "
#: How long after the first byte the second one is sent, and by what each further time is longer.
_FIRST_S: Final = 0.02
_FACTOR: Final = 3


class Sending(Protocol):
    """Sends to a client, see `asyncio.WriteTransport`."""

    def write(self, data: bytes, /) -> None:
        """Sends bytes."""


class PresenceCheck:
    """Sends a client that sends no more the beginning of its answer, byte by byte.

    TCP says the same of a client that has closed its connection and of one that has only ended what
    it sends. But the host of the former refuses what it gets, so that sending the next byte fails,
    and the connection ends. Every answer begins with the same bytes, so a client that waits sees
    nothing but its answer, whose first bytes come early. Belongs to one event loop.

    Args:
        transport: the connection.
        loop: the event loop.
    """

    def __init__(self, transport: Sending, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        #: How much of the next answer is sent, and whether the rest is being sent, too.
        self._sent = 0
        self._is_answering = False
        self._delay_s = _FIRST_S
        self.is_begun = False

    def begin(self) -> None:
        """Begins, since the client sends no more. Does nothing if it was called before."""
        if not self.is_begun:
            self.is_begun = True
            self._send()

    def rest_of(self, head: bytes) -> bytes:
        """Returns what of the head of an answer is not sent yet, for sending it."""
        self._is_answering = True
        return head[self._sent :] if self._sent else head

    def answered(self) -> None:
        """Goes on with the next answer, since the one before is sent completely."""
        self._sent = 0
        self._is_answering = False
        if self.is_begun:
            self.end()
            self._delay_s = _FIRST_S
            self._wait()

    def end(self) -> None:
        """Sends nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        if self._is_answering or self._sent == len(_BEGINNING):
            return
        self._sent += 1
        self._transport.write(_BEGINNING[self._sent - 1 : self._sent])
        self._wait()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self._delay_s, self._send)
        self._delay_s *= _FACTOR

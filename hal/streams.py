"""Calls that are streams: each takes a thread for as long as its client likes, so they are counted, and cut off if they stall."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from neurald.hal.errors import ResourceExhaustedTransient

_LOOKS = 10


class _Context(Protocol):
    """What a stream is cut off by."""

    def cancel(self) -> object:
        """Ends the call, for the thread that works on it and for the client."""


class Stream:
    """One stream that is under way."""

    __slots__ = ("context", "moved_s")

    def __init__(self, context: _Context) -> None:
        self.context = context
        self.moved_s = time.monotonic()

    def moves(self) -> None:
        """A part has come, or was taken."""
        self.moved_s = time.monotonic()


class Streams:
    """The streams of a server. Thread-safe.

    Args:
        most: how many may be under way.
        most_of_one: how many of these may be of one owner.
        patience_s: how long a stream may stand still before it is cut off.
    """

    def __init__(self, *, most: int, most_of_one: int, patience_s: float) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._streams: set[Stream] = set()
        self._owners: Counter[object] = Counter()
        self._watch: threading.Thread | None = None

    @contextlib.contextmanager
    def open(self, owner: object, context: _Context) -> Iterator[Stream]:
        """A stream, from its beginning to its end.

        Args:
            owner: whose it is; hashable.
            context: of the call.

        Raises:
            ResourceExhaustedTransient: there are too many.
        """
        stream = Stream(context)
        with self._lock:
            if len(self._streams) >= self._most or self._owners[owner] >= self._most_of_one:
                raise ResourceExhaustedTransient(
                    f"too many streams are under way; at most {self._most_of_one} of one client and "
                    f"{self._most} of all may be"
                )
            self._streams.add(stream)
            self._owners[owner] += 1
            if self._watch is None:
                self._watch = threading.Thread(target=self._cut, name="neurald streams", daemon=True)
                self._watch.start()
        try:
            yield stream
        finally:
            with self._lock:
                self._streams.discard(stream)
                self._owners[owner] -= 1
                if not self._owners[owner]:
                    del self._owners[owner]

    def _cut(self) -> None:
        """Cuts off the streams that stand still; ends when there is no stream."""
        while True:
            time.sleep(self._patience_s / _LOOKS)
            with self._lock:
                if not self._streams:
                    self._watch = None
                    return
                limit_s = time.monotonic() - self._patience_s
                stalled = [stream for stream in self._streams if stream.moved_s < limit_s]
            for stream in stalled:
                stream.context.cancel()

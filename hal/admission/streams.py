"""Calls that wait for their clients: each takes a thread, or memory, for as long as its client likes.

So they are counted, and cut off if they stand still. Where no more may be under way, one that stands still gives way to the
next, of the client that has most of them: who takes all places keeps nobody out.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, Protocol

from neurald.hal.errors import ResourceExhaustedTransient

_LOOKS: Final = 10
#: How many looks the watch stays awake for after the last stream.
_IDLE_LOOKS: Final = 20
#: How often who waits for room looks for it.
_LOOK_S: Final = 0.02
#: A stream stands still that does not move so many bytes.
_STEP_BYTES: Final = 1 << 14


class _Context(Protocol):
    """What a stream is cut off by."""

    def cancel(self) -> object:
        """Ends the call, for the thread that works on it and for the client."""


class Stream:
    """One stream that is under way."""

    __slots__ = ("_moved_bytes", "context", "moved_s", "owner")

    def __init__(self, owner: object, context: _Context) -> None:
        self.owner = owner
        self.context = context
        self.moved_s = time.monotonic()
        self._moved_bytes = 0

    def moves(self, size_bytes: int = _STEP_BYTES) -> None:
        """A part of that size has come, or was taken; a small one is no progress by itself."""
        self._moved_bytes += size_bytes
        if self._moved_bytes >= _STEP_BYTES:
            self._moved_bytes = 0
            self.moved_s = time.monotonic()


class Streams:
    """The streams of a server. Thread-safe.

    Args:
        most: how many may be under way.
        patience_s: how long a stream may stand still before it is cut off.
        grace_s: how long it must have stood still to give way.
        most_of_one: how many may be of one owner; None for no limit of that kind.
    """

    def __init__(
        self, *, most: int, patience_s: float, grace_s: float, most_of_one: int | None = None
    ) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        self._patience_s = patience_s
        self._grace_s = grace_s
        self._changed = threading.Condition()
        self._streams: set[Stream] = set()
        self._owners: Counter[object] = Counter()
        self._watch: threading.Thread | None = None

    @contextlib.contextmanager
    def open(self, owner: object, context: _Context) -> Iterator[Stream]:
        """A stream, from its beginning to its end; see `begin`."""
        stream = self.begin(owner, context)
        try:
            yield stream
        finally:
            self.end(stream)

    def begin(self, owner: object, context: _Context) -> Stream:
        """A stream begins; `end` follows.

        Args:
            owner: whose it is; hashable. None for all who have no session: they do not wait until one has stood still.
            context: of the call.

        Raises:
            ResourceExhaustedTransient: there are too many, and they all move.
        """
        stream = Stream(owner, context)
        with self._changed:
            if len(self._streams) >= self._most:
                self._make_room(owner)
            if owner is not None and self._owners[owner] >= self._most_of_one:
                raise self._too_many()
            self._streams.add(stream)
            self._owners[owner] += 1
            if self._watch is None:
                self._watch = threading.Thread(target=self._cut, name="neurald streams", daemon=True)
                self._watch.start()
        return stream

    def end(self, stream: Stream) -> None:
        """A stream is over; one that is already stays so."""
        with self._changed:
            self._remove(stream)

    def _make_room(self, owner: object) -> None:
        """Waits for a moment until there is room, and makes it; the lock is held."""
        end = time.monotonic() + 2 * self._grace_s
        while len(self._streams) >= self._most:
            now = time.monotonic()
            stalled = [stream for stream in self._streams if stream.moved_s <= now - self._grace_s]
            if stalled:
                first = max(stalled, key=lambda each: (self._owners[each.owner], -each.moved_s))
                if self._owners[first.owner] >= self._owners[owner]:
                    self._remove(first)
                    first.context.cancel()
                    continue
            if owner is None or now >= end:
                raise self._too_many()
            self._changed.wait(min(end - now, _LOOK_S))

    def _too_many(self) -> ResourceExhaustedTransient:
        return ResourceExhaustedTransient(
            f"too many streams are under way; at most {self._most_of_one} of one client and {self._most} of all may be"
        )

    def _remove(self, stream: Stream) -> None:
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        self._owners[stream.owner] -= 1
        if not self._owners[stream.owner]:
            del self._owners[stream.owner]
        if len(self._streams) == self._most - 1:
            self._changed.notify_all()

    def _cut(self) -> None:
        """Cuts off the streams that stand still; ends when there has been none for a while."""
        idle = 0
        while True:
            time.sleep(self._patience_s / _LOOKS)
            with self._changed:
                idle = 0 if self._streams else idle + 1
                if idle > _IDLE_LOOKS:
                    self._watch = None
                    return
                limit_s = time.monotonic() - self._patience_s
                stalled = [stream for stream in self._streams if stream.moved_s < limit_s]
            for stream in stalled:
                stream.context.cancel()

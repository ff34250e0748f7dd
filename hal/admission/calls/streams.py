"""Limits streams: calls that hold a thread, or memory, for as long as their clients like.

They are counted, and cut off if they stall. If there are too many, a stalled one is cut off for the
next, one of the owner that has most of them: so an owner that takes all of them does not lock out
the others.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, Protocol

from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.process.threads.checked_thread import CheckedThread

_CHECKS_PER_PATIENCE: Final = 10
#: After how many checks without a stream the watching thread ends.
_IDLE_CHECKS: Final = 20
#: How often a call that waits for another one to end checks for it.
_POLL_S: Final = 0.02
#: A stream stalls while it moves fewer bytes than that.
_MIN_PROGRESS_BYTES: Final = 1 << 14


class _Context(Protocol):
    """The context of a call, which can cut it off."""

    def cancel(self) -> object:
        """Ends the call, for the thread that serves it and for the client."""


class Stream:
    """One stream that is under way.

    Attributes:
        owner: the owner of the stream.
        context: the context of its call.
        moved_s: when it last made progress, on the clock of `time.monotonic()`.
    """

    __slots__ = ("_moved_bytes", "context", "moved_s", "owner")

    def __init__(self, owner: object, context: _Context) -> None:
        self.owner = owner
        self.context = context
        self.moved_s = time.monotonic()
        self._moved_bytes = 0

    def moves(self, size_bytes: int = _MIN_PROGRESS_BYTES) -> None:
        """Records that bytes have arrived or were taken; a few bytes do not count as progress."""
        self._moved_bytes += size_bytes
        if self._moved_bytes >= _MIN_PROGRESS_BYTES:
            self._moved_bytes = 0
            self.moved_s = time.monotonic()


class StreamLimiter:
    """Counts the streams of a server, and cuts off those that stall. Thread-safe.

    Args:
        limit: how many may be under way.
        patience_s: how long a stream may stall before it is cut off.
        grace_s: how long a stream must have stalled to be cut off for another one.
        owner_limit: how many of one owner may be under way; None for no such limit.
    """

    def __init__(
        self, *, limit: int, patience_s: float, grace_s: float, owner_limit: int | None = None
    ) -> None:
        self._limit = limit
        self._owner_limit = limit if owner_limit is None else owner_limit
        self._patience_s = patience_s
        self._grace_s = grace_s
        self._changed = threading.Condition()
        self._streams: set[Stream] = set()
        self._owners: Counter[object] = Counter()
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    @contextlib.contextmanager
    def open(self, owner: object, context: _Context) -> Iterator[Stream]:
        """Counts a stream for the duration of the context; see `begin`."""
        stream = self.begin(owner, context)
        try:
            yield stream
        finally:
            self.end(stream)

    def begin(self, owner: object, context: _Context) -> Stream:
        """Begins a stream; `end` follows.

        Args:
            owner: the owner of the stream; hashable. None for clients without a session, which do
                not wait until another stream stalls.
            context: the context of the call.

        Raises:
            ResourceExhaustedTransient: there are too many, and none of them stalls; or there is no
                thread that can watch it.
        """
        stream = Stream(owner, context)
        with self._changed:
            if len(self._streams) >= self._limit:
                self._make_room(owner)
            if owner is not None and self._owners[owner] >= self._owner_limit:
                raise self._too_many()
            if self._watch is None and not self._closed.is_set():
                watch = CheckedThread(target=self._cut, name="neurald streams", daemon=True)
                try:
                    watch.start()
                except RuntimeError as error:
                    raise ResourceExhaustedTransient(f"the stream cannot be watched: {error}") from None
                self._watch = watch
            self._streams.add(stream)
            self._owners[owner] += 1
        return stream

    def close(self) -> None:
        """Ends the watching thread for a server that has stopped. No more streams are cut off."""
        self._closed.set()

    def has_room(self) -> bool:
        """Returns True if a stream of a client without a session may begin now."""
        with self._changed:
            return len(self._streams) < self._limit or bool(self._stalled())

    def end(self, stream: Stream) -> None:
        """Ends a stream; does nothing if it has ended already."""
        with self._changed:
            self._remove(stream)

    def _make_room(self, owner: object) -> None:
        """Cuts off a stalled stream, waiting for a moment until there is one. The lock is held."""
        end = time.monotonic() + 2 * self._grace_s
        while len(self._streams) >= self._limit:
            if stalled := self._stalled():
                first = max(stalled, key=lambda each: (self._owners[each.owner], -each.moved_s))
                if self._owners[first.owner] >= self._owners[owner]:
                    self._remove(first)
                    first.context.cancel()
                    continue
            left_s = end - time.monotonic()
            if owner is None or left_s <= 0:
                raise self._too_many()
            self._changed.wait(min(left_s, _POLL_S))

    def _stalled(self) -> list[Stream]:
        """Returns the streams that may be cut off for another one. The lock is held."""
        limit_s = time.monotonic() - self._grace_s
        return [stream for stream in self._streams if stream.moved_s <= limit_s]

    def _too_many(self) -> ResourceExhaustedTransient:
        return ResourceExhaustedTransient(
            f"too many streams are under way: at most {self._owner_limit} of one client and {self._limit} of all "
            "clients are allowed"
        )

    def _remove(self, stream: Stream) -> None:
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        self._owners[stream.owner] -= 1
        if not self._owners[stream.owner]:
            del self._owners[stream.owner]
        if len(self._streams) == self._limit - 1:
            self._changed.notify_all()

    def _cut(self) -> None:
        """Cuts off stalled streams; ends after a while without a stream, or at `close`."""
        idle = 0
        while not self._closed.wait(self._patience_s / _CHECKS_PER_PATIENCE):
            with self._changed:
                idle = 0 if self._streams else idle + 1
                if idle > _IDLE_CHECKS:
                    self._watch = None
                    return
                limit_s = time.monotonic() - self._patience_s
                stalled = [stream for stream in self._streams if stream.moved_s < limit_s]
            for stream in stalled:
                stream.context.cancel()

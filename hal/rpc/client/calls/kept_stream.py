"""A call to a daemon on another host that stays open, for one request after another.

A message of an open call costs both sides much less than a call of its own. Each reply follows its
request, so one thread uses it at a time; the requests of others go by calls of their own, and so do
those that the daemon may not begin twice, since a call that was cut off has to be made again. A
request has one message or several, which are made when they are sent, and so has its reply.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Final

import grpc

from neurald.hal.errors import Cancelled
from neurald.hal.process.fork import at_fork, forkable_lock
from neurald.hal.rpc.client.calls.answer_silence import rest_of_answer
from neurald.hal.rpc.client.calls.call_start import start_call
from neurald.hal.rpc.transport.call_times import LatestTimes
from neurald.hal.sync.cancellation import Cancellation

CANCELLED_UNDER_WAY: Final = "the execution was cancelled while it was under way"
#: How long no call is opened after the daemon has cut one off, because it has too many.
_REFUSED_S: Final = 5.0
#: The daemon cut it off, or takes no more of them. What else they may mean, another call will tell.
_CUT: Final = (grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED)


class KeptStream:
    """The call of one connection that stays open. Thread-safe.

    Args:
        start: begins the call, with the messages that it sends; returns those of the replies.
        host: where the daemon is.

    Attributes:
        wants_times: whether requests ask for their times. Traces replace this.
        times: the times of the latest request that asked for them.
    """

    wants_times: ClassVar[bool] = False

    def __init__(self, start: Callable[[Iterator[bytes]], Any], host: str) -> None:
        self._start = start
        self.times = LatestTimes(host)
        self._lock = forkable_lock()
        self._call: Any = None
        self._requests: SimpleQueue[Iterable[bytes] | None] = SimpleQueue()
        self._refused_until = 0.0
        self._is_closed = False
        self._was_inherited = False
        at_fork(self)

    def forked(self) -> None:
        """Leaves the call to the parent; in a child, anything done with it would wait for ever."""
        self._was_inherited = True

    def exchange(
        self,
        request: Iterable[bytes],
        take: Callable[[bytes], bool],
        cancellation: Cancellation | None = None,
    ) -> bool:
        """Sends a request, and takes the reply.

        Args:
            request: the messages of one that the daemon may begin more than once.
            take: takes a message of the reply; returns whether it was the last one.
            cancellation: ends the call, and so the execution in the daemon. The next request opens
                another call.

        Returns:
            False if the request must go by a call of its own.

        Raises:
            Cancelled: `cancellation` was cancelled before the reply arrived.
            OpFailed: the daemon is silent in the middle of its reply.
            RpcError: the daemon's error, or the connection was lost.
        """
        if self._was_inherited or not self._lock.acquire(False):
            return False
        try:
            call = self._opened()
            if call is None:
                return False
            if cancellation is None:
                return self._is_answered(call, request, take)
            with cancellation.calling(call.cancel):
                return self._is_answered(call, request, take, cancellation)
        finally:
            self._lock.release()
            if self._is_closed:
                self.close()

    def _opened(self) -> Any:
        if self._is_closed or time.monotonic() < self._refused_until:
            return None
        if self._call is not None and not self._call.is_active():
            self._drop()
        if self._call is None:
            self._requests = SimpleQueue()
            try:
                self._call = start_call(partial(self._start, _messages(self._requests)))
            except BaseException:  # also that of a signal's handler
                self._drop()
                raise
        return self._call

    def _is_answered(
        self,
        call: Any,
        request: Iterable[bytes],
        take: Callable[[bytes], bool],
        cancellation: Cancellation | None = None,
    ) -> bool:
        is_complete = False
        try:
            self._requests.put(request)
            first: bytes | None = next(call, None)
            is_complete = first is not None and (take(first) or self._is_completed(call, take))
            if not is_complete:
                return False
        except grpc.RpcError as error:
            if cancellation is not None and cancellation.is_cancelled:
                raise Cancelled(CANCELLED_UNDER_WAY) from None
            status = call.code()
            if status is grpc.StatusCode.UNIMPLEMENTED:  # a daemon of an older version
                self._refused_until = math.inf
            elif status in _CUT:
                self._refused_until = time.monotonic() + _REFUSED_S
            else:
                # The error is the call itself, which must not keep the frames that it has passed.
                raise error.with_traceback(None) from None
            return False
        else:
            return True
        finally:
            if not is_complete:  # also if a signal's handler has raised an exception
                self._drop()

    @staticmethod
    def _is_completed(call: Any, take: Callable[[bytes], bool]) -> bool:
        """Takes the messages after the first; returns False if the call ends before the last."""
        with contextlib.closing(rest_of_answer(call)) as replies:
            return any(map(take, replies))

    def _drop(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        self._requests.put(None)  # ends the thread that sends

    def close(self) -> None:
        """Ends the call, if it is open. One that is in use ends with the connection."""
        self._is_closed = True
        if not self._was_inherited and self._lock.acquire(False):
            try:
                self._drop()
            finally:
                self._lock.release()


def _messages(requests: SimpleQueue[Iterable[bytes] | None]) -> Iterator[bytes]:
    """Yields the messages of requests, until there is None."""
    for request in iter(requests.get, None):
        yield from request

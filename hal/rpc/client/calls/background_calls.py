"""Calls of a connection that no caller waits for, and those that its end waits for."""

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import Message

from neurald._proto import device_pb2
from neurald.hal.process.threads.reused_threads import REUSED_THREADS
from neurald.hal.rpc.client.connection_life import ConnectionLife
from neurald.hal.rpc.client.rings.ring_pool import IDLE_S, RingPool

#: How long background calls may take.
BACKGROUND_TIMEOUT_S = 3.0
#: How long replies that a daemon sent before it stopped may take to arrive.
_LAST_REPLIES_S = 1.0


class PendingCalls:
    """Counts the calls of a connection that wait for their replies. Thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            if not self._count:
                self._changed.notify_all()

    def wait_until_none(self, timeout_s: float) -> None:
        """Waits until no call is pending, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, timeout_s)


#: The name of a call of the contract, and its message.
BackgroundCall: TypeAlias = tuple[str, Message]
#: Makes the other thread look at the rings.
NO_CALL: Final[BackgroundCall] = ("", device_pb2.GetStatusRequest())


class BackgroundQueue(SimpleQueue[BackgroundCall | Callable[[], object] | threading.Event | None]):
    """The work of the other thread, in order of arrival.

    The thread makes calls, starts work in threads of its own, sets events in their turn, and ends
    at None. Finalizers may add all of these.

    Attributes:
        answered: the number of calls that have ended. Only the thread changes it.
        is_over: whether the thread takes no more work.
    """

    answered = 0
    is_over = False

    def wait(self, deadline_s: float | None) -> bool:
        """Waits until the calls so far have been answered, or for some seconds.

        Args:
            deadline_s: the deadline on the clock of `time.monotonic()`.

        Returns:
            False if there were none.
        """
        left_s = BACKGROUND_TIMEOUT_S if deadline_s is None else deadline_s - time.monotonic()
        # An empty queue does not tell that there are none: since Python 3.13, a call is handed to
        # the thread that waits for it, which may begin it much later.
        answered, reached = self.answered, threading.Event()
        self.put(reached)
        if self.is_over:
            return False
        was_reached = reached.wait(max(0.0, min(left_s, BACKGROUND_TIMEOUT_S)))
        return not was_reached or self.answered != answered

    def end(self) -> None:
        """Lets nobody wait for the thread any longer, which takes no more work."""
        self.is_over = True
        with contextlib.suppress(Empty):
            while True:
                work = self.get_nowait()
                if isinstance(work, threading.Event):
                    work.set()


def _start(work: Callable[[], object]) -> None:
    """Does work in a thread of its own, or here if there can be no other."""
    try:
        REUSED_THREADS.start(work, "neurald execution")
    except RuntimeError:
        work()


def run_background_calls(
    work: BackgroundQueue,
    stub: Any,
    metadata: tuple[tuple[str, str], ...],
    resources: contextlib.ExitStack,
    life: ConnectionLife,
    pending_calls: PendingCalls,
    rings: RingPool,
) -> None:
    """Makes background calls until the connection ends, and then closes its resources.

    Closes idle rings meanwhile.
    """
    with resources:
        has_rings = False
        while True:
            try:
                call = work.get(timeout=IDLE_S / 2 if has_rings else None)
            except Empty:
                call = NO_CALL
            if call is None:
                break
            if isinstance(call, threading.Event):
                call.set()
                continue
            if callable(call):
                _start(call)
                continue
            if call is NO_CALL:
                has_rings = rings.close_idle()
                continue
            method, message = call
            with contextlib.suppress(grpc.RpcError, ValueError):
                getattr(stub, method)(message, timeout=BACKGROUND_TIMEOUT_S, metadata=metadata)
            work.answered += 1
        work.end()
        rings.close()
        if life.was_stopped:
            # Closing the channel would cancel calls whose replies are already on their way.
            pending_calls.wait_until_none(_LAST_REPLIES_S)

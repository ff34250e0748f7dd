"""Calls of a connection that no caller waits for, and those that its end waits for."""

import contextlib
import threading
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import Message

from neurald._proto import device_pb2
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


def run_background_calls(
    work: "SimpleQueue[BackgroundCall | None]",
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
            if call is NO_CALL:
                has_rings = rings.close_idle()
                continue
            method, message = call
            with contextlib.suppress(grpc.RpcError, ValueError):
                getattr(stub, method)(message, timeout=BACKGROUND_TIMEOUT_S, metadata=metadata)
        rings.close()
        if life.was_stopped:
            # Closing the channel would cancel calls whose replies are already on their way.
            pending_calls.wait_until_none(_LAST_REPLIES_S)

"""The calls of one session with a daemon, and the errors that their failures become."""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from neurald.hal.errors import DeadObject, Error, OpFailed, ResourceExhaustedPersistent
from neurald.hal.process.address import Address
from neurald.hal.process.fork import notice_fork
from neurald.hal.rpc.client.calls import answer_silence
from neurald.hal.rpc.client.calls.background_calls import PendingCalls
from neurald.hal.rpc.client.calls.call_start import start_call
from neurald.hal.rpc.client.connection_life import ConnectionLife
from neurald.hal.rpc.transport.status import MAX_MESSAGE_BYTES, error_from, is_lost
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import remaining_s

#: How long to wait for the daemon's own error after a deadline.
_SLACK_S: Final = 0.05
#: Bytes reserved for other fields of a message than its large one.
_ENVELOPE_BYTES: Final = 1 << 16


class ClientCalls:
    """Makes the calls of one session. Thread-safe.

    Args:
        address: the address of the daemon.
        life: whether the daemon lives.

    Attributes:
        host: the place of the daemon, for messages.
        is_local: whether memory can be shared with the daemon.
        is_closed: whether this side has closed the connection.
        metadata: identifies the session in calls; empty until it is open.
        pending: counts the calls that wait for their replies.
    """

    def __init__(self, address: Address, life: ConnectionLife) -> None:
        self.host = str(address)
        self.is_local = False
        self.is_closed = False
        self.metadata: tuple[tuple[str, str], ...] = ()
        self.pending = PendingCalls()
        self._life = life

    def invoke(
        self,
        method: str,
        stub: Any,
        message: Any,
        timeout_s: float | None,
        metadata: tuple[tuple[str, str], ...],
        cancellation: Cancellation | None = None,
    ) -> Any:
        """Makes a call with one reply; traces replace this method.

        Args:
            method: name of the call in the contract.
            stub: makes it.
            message: the request, or an iterator of its parts.
            timeout_s: the time limit of the call.
            metadata: the metadata of the call.
            cancellation: ends the call.
        """
        del method
        if cancellation is None:
            return stub(message, timeout=timeout_s, metadata=metadata)
        future = start_call(partial(stub.future, message, timeout=timeout_s, metadata=metadata))
        with cancellation.calling(future.cancel):
            return future.result()

    def replies(
        self,
        method: str,
        stub: Any,
        messages: Iterator[bytes],
        timeout_s: float | None,
        metadata: tuple[tuple[str, str], ...],
        cancellation: Cancellation | None = None,
    ) -> Iterator[bytes]:
        """Makes a call with many replies; see `invoke`."""
        del method
        call = start_call(partial(stub, messages, timeout=timeout_s, metadata=metadata))
        with cancelling(call, cancellation):
            first = next(call, None)
            if first is not None:
                yield first
                yield from answer_silence.rest_of_answer(call)

    def require_answer(self, method: str, reply: Any) -> None:
        """Raises OpFailed if the daemon ended a call without a message, a success for gRPC."""
        if reply is None:
            raise OpFailed(f"the daemon at {self.host} has ended {method} without an answer")

    def require_sendable(self, message: Message) -> None:
        """Raises ResourceExhaustedPersistent if a message is too large for a call."""
        size = message.ByteSize()
        if size > MAX_MESSAGE_BYTES - _ENVELOPE_BYTES:
            raise ResourceExhaustedPersistent(
                f"{message.DESCRIPTOR.name} has {size} bytes; {MAX_MESSAGE_BYTES - _ENVELOPE_BYTES} "
                "can be sent; put large constants into a memory"
            )

    @contextlib.contextmanager
    def failures(self, method: str = "") -> Iterator[None]:
        """Converts failures of a call, or of the side channel, to errors.

        Args:
            method: name of the call; empty for the side channel.
        """
        notice_fork()
        if self._life.is_over:  # in a child of this process, too, which must not touch its parent's channel
            raise self._life.death(method)
        try:
            with self.pending:
                yield
        except grpc.RpcError as failure:
            # A client that had a session and is unauthenticated now has reached a daemon started
            # since.
            if is_lost(failure) or (self.metadata and failure.code() is grpc.StatusCode.UNAUTHENTICATED):
                self._life.lose(failure)
                error: Error = self._life.death(method)
            else:
                error = error_from(failure, f"the daemon at {self.host}")
        except DeadObject as failure:
            error = self._life.death(method, f"is gone: {failure}")
        except ValueError:  # gRPC raises it for a channel that was closed
            if not self.is_closed and not self._life.is_over:
                raise
            error = self._life.death(method, "is no longer connected")
        else:
            return
        try:
            raise error from None
        finally:
            # The error refers to this frame, so the frame must not refer to it: callers' frames
            # hold memory.
            del error


def call_timeout_s(deadline_s: float | None) -> float | None:
    """Returns the time limit of a call with a deadline, at which the daemon's own error arrives."""
    left = remaining_s(deadline_s)
    return None if left is None else left + _SLACK_S


@contextlib.contextmanager
def cancelling(call: Any, cancellation: Cancellation | None) -> Iterator[None]:
    """Cancels a call with many replies if its execution is cancelled during the context.

    Raises:
        grpc.FutureCancelledError: it was cancelled.
    """
    if cancellation is None:
        yield
        return
    try:
        with cancellation.calling(call.cancel):
            yield
    except grpc.RpcError:
        if cancellation.is_cancelled and call.cancelled():
            raise grpc.FutureCancelledError from None
        raise

"""One call of a gRPC server, and the methods whose calls are begun without a task."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined]

_NO_FLAGS: Final = 0
_NO_METADATA: Final[tuple[()]] = ()
_OK: Final = 0
#: Later deadlines, in seconds since 1970, are none.
_NEVER_S: Final = 1e15
_CODES: Final = {code: code.value[0] for code in grpc.StatusCode}

Metadata = Sequence[tuple[str, str | bytes]]
#: Is called by a thread of the server before it waits.
WillWait = Callable[[], None] | None


class CallServer(Protocol):
    """The server that received a call, as far as the call needs it.

    Attributes:
        has_shut_down: whether calls must not use the core any more.
    """

    has_shut_down: bool

    def begin_directly(self, call: "ServerCall", message: bytes) -> bool:
        """Begins a call in this thread; returns False if it is none of a `DirectMethod`."""
        ...

    def answer(self, call: "ServerCall", message: bytes | None) -> None:
        """Begins the handler of a call with its only message, or with None for a stream."""
        ...

    def serializer_of(self, call: "ServerCall") -> Callable[[Any], bytes]:
        """Returns what encodes the answers of a call."""
        ...

    def pass_on(self, function: Callable[[Any], None], argument: Any) -> None:
        """Makes the loop call a function soon."""
        ...

    def forget(self, call: "ServerCall") -> None:
        """Forgets a call that is over."""
        ...


class BeginCall(Protocol):
    """Begins a call; see `DirectMethod`."""

    def __call__(
        self, message: bytes, call: "ServerCall", will_wait: WillWait, /
    ) -> Callable[[], None] | None:
        """Begins the call."""


class DirectMethod:
    """A method with one message and one answer, whose handler is not a coroutine.

    Args:
        begin: the function that is called in a thread of the server with the message, with the
            call, which it ends at once, or later, by `ServerCall.finish` or `refuse`, and with
            `will_wait`, which it calls before it waits for longer than a millisecond; None if it
            must not wait at all. Returns what has to be called in the loop to go on, also if the
            client has left; None for nothing.
        refuses: the function that is called in a thread of the server before the message is
            received; returns True if it has ended the call. None to receive all messages.
    """

    def __init__(self, begin: "BeginCall", refuses: Callable[["ServerCall"], bool] | None = None) -> None:
        self._begin = begin
        self.refuses: Final = refuses

    def __call__(self, message: bytes, call: "ServerCall", will_wait: WillWait) -> Callable[[], None] | None:
        """Begins a call."""
        return self._begin(message, call, will_wait)


class ServerCall:
    """One call, the context of its handler. Belongs to the event loop, except what says otherwise.

    A call of a `DirectMethod` may be ended by any thread.

    Args:
        server: the server that received it.
        event: the event of the core, with which it came.
    """

    def __init__(self, server: CallServer, event: Any) -> None:
        self._server = server
        self._call = event.call
        self._metadata: Metadata = event.invocation_metadata or _NO_METADATA
        self.method: str = event.call_details.method.decode("ascii", "replace")
        #: The handler that `grpc` has for the method; None if the server has no such method.
        self.handler: Any = None
        #: Whether its handler has found that its client may make it.
        self.is_admitted = False
        self._deadline_s: float = event.call_details.deadline
        self._task: asyncio.Task[None] | None = None
        self._abandon: Callable[[], None] | None = None
        self._arrived: Callable[[], None] | None = None
        self._reading: asyncio.Future[bytes | None] | None = None
        self._sending: asyncio.Future[None] | None = None
        self._has_begun_answer = False
        #: Whether the core says when the client has gone, before the answer is sent.
        self._awaits_end = False
        self._is_over = False
        self._is_gone = False

    def invocation_metadata(self) -> Metadata:
        """Returns the metadata that the client sent."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Returns the seconds until the client's deadline; None if it has none."""
        if self._deadline_s > _NEVER_S:
            return None
        return max(0.0, self._deadline_s - time.time())

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        """Ends the call with an error.

        Raises:
            grpc.aio.AbortError: always, for the handler to end.
        """
        self._send_status(_CODES[code], details)
        raise grpc.aio.AbortError(details)

    async def write(self, message: Any) -> None:
        """Sends one message of a stream, which the encoder of the call's method encodes."""
        await self.send(self._server.serializer_of(self)(message))

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """Ends the call with an error, unless it is over."""
        self._send_status(_CODES[code], details)

    # In a thread of the server.

    def abandon_by(self, abandon: Callable[[], None]) -> None:
        """Registers a function that is called if the client leaves before the call has ended."""
        self._abandon = abandon
        if self._is_gone:
            abandon()

    def message_follows(self, arrived: Callable[[], None]) -> None:
        """Registers a function that is called when the message has come, or can no longer come."""
        self._arrived = arrived

    def await_message(self) -> None:
        """Makes the server receive the next message."""
        self._call.start_server_batch((cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._message_arrived)

    def await_end(self) -> None:
        """Makes the server find out when the client has gone, also before the call has ended.

        Each event costs as much as the rest of a short call, so the end of one that is answered at
        once comes with the event that its answer was sent.
        """
        if not self._awaits_end and not self._server.has_shut_down:
            self._awaits_end = True
            end = cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS)
            self._call.start_server_batch((end,), self._note_close)

    def _message_arrived(self, event: Any) -> None:
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            arrived()
        message = event.batch_operations[0].message()
        if message is None or not self._server.begin_directly(self, message):
            self.await_end()
            self._server.pass_on(self._received, message)

    def _note_close(self, event: Any) -> None:
        if event.batch_operations[0].cancelled():
            self._server.pass_on(self._left, None)
        self._server.forget(self)

    def _note_sent(self, event: Any) -> None:
        if self._sending is not None:
            self._server.pass_on(self._sent, None)

    def _note_status_sent(self, _: Any) -> None:
        self._server.forget(self)

    # In the thread of the loop.

    @property
    def _is_closed(self) -> bool:
        """True if nothing can be sent or received any more."""
        return self._is_over or self._server.has_shut_down

    def begin(self, task: "asyncio.Task[None]") -> None:
        """Notes the task that answers the call."""
        self._task = task
        if self._is_gone:
            task.cancel()

    async def read(self) -> bytes | None:
        """Returns the next message; None after the last one."""
        if self._is_closed:
            return None
        self._reading = asyncio.get_running_loop().create_future()
        self.await_message()
        return await self._reading

    def finish(self, answer: bytes, trailing: Metadata = _NO_METADATA) -> None:
        """Sends the answer of a call that has one, and ends the call.

        Args:
            answer: the answer.
            trailing: the metadata behind it.
        """
        if self._is_closed:
            return
        self._is_over = True
        self._abandon = None  # which refers to the call
        self._start_last(
            (
                cygrpc.SendInitialMetadataOperation(_NO_METADATA, _NO_FLAGS),
                cygrpc.SendMessageOperation(answer, _NO_FLAGS),
                cygrpc.SendStatusFromServerOperation(trailing, _OK, b"", _NO_FLAGS),
            )
        )

    def end(self) -> None:
        """Ends a call whose answers were sent."""
        self._send_status(_OK, "")

    async def send(self, message: bytes) -> None:
        """Sends one of several answers; returns when the client has room for more."""
        if self._is_closed:
            raise asyncio.CancelledError
        self._sending = asyncio.get_running_loop().create_future()
        operations: tuple[Any, ...] = (cygrpc.SendMessageOperation(message, _NO_FLAGS),)
        if not self._has_begun_answer:
            self._has_begun_answer = True
            operations = (cygrpc.SendInitialMetadataOperation(_NO_METADATA, _NO_FLAGS), *operations)
        self._call.start_server_batch(operations, self._note_sent)
        try:
            await self._sending
        finally:
            self._sending = None

    def _send_status(self, code: int, details: str) -> None:
        if self._is_closed:
            return
        self._is_over = True
        self._abandon = None
        operations: tuple[Any, ...] = (
            cygrpc.SendStatusFromServerOperation(
                _NO_METADATA, code, details.encode(errors="replace"), _NO_FLAGS
            ),
        )
        if not self._has_begun_answer:
            operations = (cygrpc.SendInitialMetadataOperation(_NO_METADATA, _NO_FLAGS), *operations)
        self._start_last(operations)

    def _start_last(self, operations: tuple[Any, ...]) -> None:
        """Sends the rest of a call."""
        if self._awaits_end:
            self._call.start_server_batch(operations, self._note_sent)
        else:
            self._awaits_end = True
            end = cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS)
            self._call.start_server_batch((*operations, end), self._note_status_sent)

    def _received(self, message: bytes | None) -> None:
        if self._task is None:
            self._server.answer(self, message)
        elif self._reading is not None and not self._reading.done():
            self._reading.set_result(message)

    def _sent(self, _: None) -> None:
        if self._sending is not None and not self._sending.done():
            self._sending.set_result(None)

    def _left(self, _: None) -> None:
        """Ends the handler, since the client has gone."""
        self._is_gone = self._is_over = True
        if self._task is not None:
            self._task.cancel()
        abandon, self._abandon = self._abandon, None
        if abandon is not None:
            abandon()

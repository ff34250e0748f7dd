"""The calls of the contract over gRPC: decodes messages, finds sessions, and reports errors.

An `Error` is reported with its code and text; any other exception is logged with its traceback, and
reported without any detail.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import certificate_user
from neurald.hal.accounting.pacing import step
from neurald.hal.admission.access import MAX_CONNECTION_SESSIONS
from neurald.hal.admission.certificates import peer_certificate
from neurald.hal.admission.kept_calls import KeptCalls
from neurald.hal.admission.message_reader import MessageReader
from neurald.hal.admission.peer_user import peer_user
from neurald.hal.admission.serving_turns import ServingPlace
from neurald.hal.admission.session import Session
from neurald.hal.admission.streams import Stream, StreamLimiter
from neurald.hal.errors import (
    BadData,
    BadState,
    DeadObject,
    Error,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    UnavailableDevice,
    error_for,
)
from neurald.hal.rpc.server.call_trace import timed_call, timed_request, timed_stream
from neurald.hal.rpc.server.execution_handler import RunWithData
from neurald.hal.rpc.server.failure_log import note_failure
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.transport.certificate import Certificate
from neurald.hal.rpc.transport.data_message import DataMessage, split
from neurald.hal.rpc.transport.message_scan import count_parts
from neurald.hal.rpc.transport.status import CHUNK_BYTES, ONE_REPLY, abort, parse, set_status, token_of
from neurald.hal.rpc.wire.device import Access
from neurald.hal.sync.cancellation import Cancellation

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

SERVICE = device_pb2.DESCRIPTOR.services_by_name["Device"].full_name
#: The largest message of a call that sends several: a request, and 1 MiB of content. No other
#: thread runs while protobuf decodes one.
_MAX_PART_BYTES = CHUNK_BYTES + (1 << 18)
#: How many nested messages and byte strings it may have, those of some thousand arguments.
_MAX_REQUEST_PARTS = 20_000
#: How many calls all clients together may keep open, each of which has a thread, and how long one
#: must have waited for its client to be cut off for another.
MAX_KEPT_CALLS = 64
_KEPT_GRACE_S = 1.0
#: The time that the threads that serve all clients spend on a byte of memory sent over gRPC.
_BYTE_S = 1e-3 / CHUNK_BYTES


class GrpcService:
    """The gRPC side of the calls.

    Args:
        handler: of the calls.
        streams: limits streams.
        has_channel: whether sessions are opened over the side channel.
        find_access: returns who may call, for status calls.
    """

    def __init__(
        self,
        handler: DeviceHandler,
        streams: StreamLimiter,
        *,
        has_channel: bool,
        find_access: Callable[[], Access],
    ) -> None:
        self._handler = handler
        self._find_access = find_access
        self._streams = streams
        self._has_channel = has_channel
        self._admission = handler.admission
        self._reader = MessageReader(self._admission.turns, self._admission.weights)
        #: The actual port, once it is known; 0 on UNIX sockets.
        self.port = 0
        self._ends: dict[Session, Callable[[None], None]] = {}
        self._peers: dict[Session, str] = {}
        self._certificates: dict[Session, Certificate] = {}
        self._peers_lock = threading.Lock()
        self._watches: dict[Session, _SessionWatch] = {}
        self._kept = KeptCalls(limit=MAX_KEPT_CALLS, grace_s=_KEPT_GRACE_S)
        handler.admission.on_hang.append(self._tell_end)

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Returns handlers for all calls of the contract; requests arrive as bytes."""
        handler = self._handler
        unary: dict[str, _CallHandler] = {
            "Describe": self._without_session(handler.describe),
            "GetCapabilities": self._without_session(handler.get_capabilities),
            "GetStatus": self._without_session(lambda: handler.get_status(self._find_access())),
            "ReleaseMemory": self._in_session(handler.release_memory),
            "GetSupportedOperations": self._limited(handler.models.get_supported_operations),
            "PrepareModel": lambda message, context: self._limited(
                lambda session, message: handler.models.prepare_model(
                    session, message, _cancellation(context)
                )
            )(message, context),
            "GetArtifact": self._limited(handler.models.get_artifact),
            "GetImprovement": self._in_session(handler.models.get_improvement),
            "PrepareModelFromCache": self._limited(handler.models.prepare_model_from_cache),
            "ReleasePreparedModel": self._in_session(handler.models.release_prepared_model),
            "Profile": self._limited(handler.executions.profile),
            "Allocate": self._limited(handler.allocate),
            "CopyToBuffer": self._limited(handler.copy_to_buffer),
            "CopyFromBuffer": self._limited(handler.copy_from_buffer),
            "ReleaseBuffer": self._in_session(handler.release_buffer),
            "Execute": lambda message, context: self._limited(
                lambda session, message: handler.executions.execute(session, message, _cancellation(context))
            )(message, context),
            "ExecuteFenced": self._in_session(handler.executions.execute_fenced),
            "GetFencedExecutionInfo": self._in_session(handler.executions.get_fenced_execution_info),
        }
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "OpenSession": grpc.unary_stream_rpc_method_handler(
                _without_thread(self._open_session), None, _encode
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(_without_thread(self._watch), None, _encode),
            "WriteMemory": grpc.stream_unary_rpc_method_handler(
                timed_call(self._write_memory), None, _encode
            ),
            "ReadMemory": grpc.unary_stream_rpc_method_handler(self._read_memory, None, _encode),
            "ExecuteWithData": grpc.stream_stream_rpc_method_handler(timed_stream(self._execute_with_data)),
            "ExecuteEach": grpc.stream_stream_rpc_method_handler(self._execute_each),
        }
        contract = device_pb2.DESCRIPTOR.services_by_name["Device"].methods_by_name
        for name, answer in unary.items():
            behaviour = _answering(self._reader, GetMessageClass(contract[name].input_type), answer)
            methods[name] = grpc.unary_unary_rpc_method_handler(timed_call(behaviour), None, _encode)
        at_once: grpc.RpcMethodHandler[Any, Any] = grpc.stream_unary_rpc_method_handler(
            timed_call(self._execute_at_once)
        )
        return _OneReply("ExecuteWithData", at_once), grpc.method_handlers_generic_handler(SERVICE, methods)

    def session(self, context: grpc.ServicerContext) -> Session:
        """Returns the session that a call carries.

        Raises:
            DeadObject: it carries none that is open.
        """
        try:
            token = bytes.fromhex(token_of(context) or "")
        except ValueError:
            token = b""
        if not token:
            raise DeadObject("the call carries no session")
        return self._handler.sessions.find(token)

    def _without_session(self, answer: Callable[[], Message]) -> "_CallHandler":
        """Answers a message that has no content; all such calls take turns like one more user."""

        def call(message: Callable[[Session | None], Any], context: grpc.ServicerContext) -> Message:
            message(None)
            with self._admission.turns.turn(None, None):
                return answer()

        return call

    def _in_session(self, call: Callable[[Session, Any], Message]) -> "_CallHandler":
        # The session is checked before the message is decoded: calls without a session cost
        # nothing.
        def call_in_session(
            message: Callable[[Session | None], Any], context: grpc.ServicerContext
        ) -> Message:
            session = self.session(context)
            with self._admission.turns.turn(session.user, session.token):
                return call(session, message(session))

        return call_in_session

    def _limited(self, call: Callable[[Session, Any], Message]) -> "_CallHandler":
        """Like `_in_session`, for calls that take long: a session may have only so many of them."""

        def counted(message: Callable[[Session | None], Any], context: grpc.ServicerContext) -> Message:
            session = self.session(context)
            with session.call(), self._admission.serving(session):
                return call(session, message(session))

        return counted

    def _write_memory(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Message:
        def write() -> Message:
            session = self.session(context)
            with (
                self._streams.open(session, context) as stream,
                self._admission.serving(session) as place,
            ):
                return self._handler.write_memory(session, moving(stream, place))

        def moving(stream: Stream, place: ServingPlace) -> Iterator[device_pb2.WriteMemoryRequest]:
            for part in _arriving(parts, stream, place):
                yield parse(device_pb2.WriteMemoryRequest, part)

        return _run_or_abort(context, write)

    def _read_memory(self, data: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        try:
            session = self.session(context)
            message = parse(device_pb2.ReadMemoryRequest, data)
            with (
                self._streams.open(session, context) as stream,
                self._admission.serving(session),
            ):
                parts = self._handler.read_memory(session, message)
                yield from _paced(parts, stream, lambda part: part.ByteSize())
        except Exception as error:
            failure = _failure(error)
        else:
            return
        abort(context, failure)

    def _execute_with_data(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            session = self.session(context)
            with session.call(), self._admission.serving(session) as place:
                received = self._receive_with_data(session, parts, context, place)
                replies = self._handler.executions.run_with_data(session, received)
                # The request has run when its first reply is there, and may take long until then.
                first = next(replies)
                with self._streams.open(session, context) as stream:
                    yield from _paced(itertools.chain((first,), replies), stream, len)
        except Exception as error:
            failure = _failure(error)
        else:
            return
        abort(context, failure)

    def _execute_each(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Executes one request after another in a call that its client keeps open."""
        try:
            session = self.session(context)
            cancellation = _cancellation(context)
            with self._kept.open(session, context) as kept:
                for part in parts:
                    with kept.serving():
                        last = yield from self._execute_one(session, part, parts, context, cancellation)
                    yield last
                    kept.has_replied()
                    if kept.is_over:
                        return
        except Exception as error:
            failure = _failure(error)
        else:
            return
        abort(context, failure)

    def _execute_one(
        self,
        session: Session,
        first: bytes,
        parts: Iterator[bytes],
        context: grpc.ServicerContext,
        cancellation: Cancellation,
    ) -> Generator[bytes, None, bytes]:
        """Executes a request, which may have more parts; yields all replies but the last, which it returns."""
        _require_size(first)
        arrived_ns = time.monotonic_ns()
        with session.call(), self._admission.serving(session) as place:
            step(is_interpreted=True, beside_s=len(first) * _BYTE_S)
            message = _with_data(first)
            pools = message.head.request.request.pools
            if any(pool.WhichOneof("kind") == "buffer" for pool in pools):
                raise BadData("a call that is kept open takes no device buffers")
            takes_parts = bool(message.head.part_bytes)
            others = self._other_parts(session, parts if takes_parts else iter(()), context, place)
            with timed_request(arrived_ns if message.head.wants_times else None):
                with contextlib.closing(others):
                    received = self._handler.executions.receive_with_data(
                        session, message, others, cancellation
                    )
                if not takes_parts:
                    return self._only_reply(session, received)
                replies = self._handler.executions.run_with_data(session, received)
                first_replies = tuple(itertools.islice(replies, 2))
            if len(first_replies) == 1:
                step(is_interpreted=True, beside_s=len(first_replies[0]) * _BYTE_S)
                return first_replies[0]
            with self._streams.open(session, context) as stream:
                all_replies = itertools.chain(first_replies, replies)
                return (yield from _all_but_last(_paced(all_replies, stream, len)))

    def _other_parts(
        self, session: Session, parts: Iterator[bytes], context: grpc.ServicerContext, place: ServingPlace
    ) -> Generator[DataMessage[device_pb2.ExecuteWithDataRequest], None, None]:
        """Yields further messages of a request; the call is a stream from the first of them on."""
        with self._streams.open(session, context) as stream:
            yield from map(_with_data, _arriving(parts, stream, place))

    def _only_reply(self, session: Session, received: RunWithData) -> bytes:
        """Runs a request whose results must fit in one message, and returns that."""
        size = sum(memory.size for memory in received.results)
        if size > CHUNK_BYTES:
            raise BadData(f"{size} bytes of results do not fit in one reply of {CHUNK_BYTES} bytes")
        (reply,) = self._handler.executions.run_with_data(session, received, is_whole=True)
        step(is_interpreted=True, beside_s=len(reply) * _BYTE_S)
        return reply

    def _execute_at_once(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Executes with data whose results fit in one message, which needs no stream."""

        def execute() -> bytes:
            session = self.session(context)
            with session.call(), self._admission.serving(session) as place:
                return self._only_reply(session, self._receive_with_data(session, parts, context, place))

        return _run_or_abort(context, execute)

    def _receive_with_data(
        self,
        session: Session,
        parts: Iterator[bytes],
        context: grpc.ServicerContext,
        place: ServingPlace,
    ) -> RunWithData:
        """Receives a request with its data."""
        with self._streams.open(session, context) as stream:
            messages = map(_with_data, _arriving(parts, stream, place))
            first = next(messages, None) or _with_data(b"")
            return self._handler.executions.receive_with_data(
                session, first, messages, _cancellation(context)
            )

    def _open_session(
        self, data: bytes, context: grpc.ServicerContext, send: Callable[[Message | None], None]
    ) -> None:
        """Opens a session for as long as the call stays open, which needs no thread."""

        def open_session() -> None:
            parse(device_pb2.OpenSessionRequest, data)
            if self._has_channel:
                raise BadState("sessions of a UNIX socket are opened over the side channel")
            # Its successor may already listen at the same port.
            self._admission.require_open()
            session = self._open_counted(context)
            self._ends[session] = send
            if not context.add_callback(lambda: self._end(session)):
                self._end(session)
            with self._streams.open(session, context):
                send(device_pb2.OpenSessionReply(session=session.token))

        _run_or_abort(context, open_session)

    def _open_counted(self, context: grpc.ServicerContext) -> Session:
        """Opens a session; raises ResourceExhaustedTransient if its connection has too many."""
        peer = context.peer()
        with self._peers_lock:
            if tuple(self._peers.values()).count(peer) >= MAX_CONNECTION_SESSIONS:
                raise ResourceExhaustedTransient(
                    f"{MAX_CONNECTION_SESSIONS} sessions of one connection are open, which is the most that it may have"
                )
            certificate = peer_certificate(context)
            user = peer_user(peer, self.port) if certificate is None else certificate_user(certificate.name)
            session = self._handler.sessions.open(user)
            self._peers[session] = peer
            if certificate is not None:
                self._certificates[session] = certificate
        return session

    def _end(self, session: Session) -> None:
        self._ends.pop(session, None)
        with self._peers_lock:
            self._peers.pop(session, None)
            self._certificates.pop(session, None)
        self._handler.sessions.close(session)
        self._kept.end(session)

    def _watch(
        self, data: bytes, context: grpc.ServicerContext, send: Callable[[Message | None], None]
    ) -> None:
        """Keeps the call open, without a thread, until the session or the daemon ends."""

        def watch() -> None:
            parse(device_pb2.WatchRequest, data)
            session = self.session(context)
            watch = _SessionWatch(context, send)
            if self._watches.setdefault(session, watch) is not watch:
                raise BadState("the session is watched already")
            session.is_watched = True

            def forget() -> None:
                self._watches.pop(session, None)

            if not context.add_callback(forget):
                forget()

        _run_or_abort(context, watch)

    def _tell_end(self, session: Session, error: Error) -> None:
        """Tells the client of a session that has ended why it has."""
        watch = self._watches.pop(session, None)
        if watch is not None:
            watch.end(error)
        self._kept.end(session)

    def end_refused(self, refusal: Callable[[Certificate], str]) -> None:
        """Ends the sessions of clients whose certificates are refused, and tells them why.

        Args:
            refusal: returns why a certificate is refused; empty if it is not.
        """
        with self._peers_lock:
            found = tuple(self._certificates.items())
        for session, certificate in found:
            if reason := refusal(certificate):
                send = self._ends.get(session)
                self._tell_end(session, UnavailableDevice(reason))
                self._end(session)
                if send is not None:
                    send(None)

    def end_sessions(self) -> None:
        """Ends the sessions that calls hold open; tells all other clients that the daemon stops."""
        for watch in tuple(self._watches.values()):
            watch.end(None)
        for session, send in tuple(self._ends.items()):
            self._end(session)
            send(None)


class _OneReply(grpc.GenericRpcHandler):
    """Handles the calls of a method whose clients announce that they expect one reply.

    Args:
        method: its name in the contract.
        handler: of these calls.
    """

    def __init__(self, method: str, handler: "grpc.RpcMethodHandler[Any, Any]") -> None:
        self._path = f"/{SERVICE}/{method}"
        self._handler = handler

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """See `grpc.GenericRpcHandler.service`; other calls are left to other handlers."""
        if handler_call_details.method != self._path:
            return None
        metadata = handler_call_details.invocation_metadata or ()
        return self._handler if any(tuple(each) == ONE_REPLY for each in metadata) else None


class _SessionWatch:
    """The call that tells a client about the end of its session."""

    def __init__(self, context: grpc.ServicerContext, send: Callable[[Message | None], None]) -> None:
        self._context = context
        self._send = send

    def end(self, error: Error | None) -> None:
        """Ends the call, with an error, or normally when the daemon stops."""
        if error is not None:
            set_status(self._context, error)
        self._send(None)


def _arriving(parts: Iterator[bytes], stream: Stream, place: ServingPlace) -> Iterator[bytes]:
    """Yields messages of a client, each in a turn, as progress of the stream and as paced work.

    Raises:
        ResourceExhaustedPersistent: a message is too large.
    """
    while True:
        place.end()
        part = next(parts, None)
        if part is None:
            return
        _require_size(part)
        place.take()
        stream.moves(len(part))
        yield part
        place.end()
        step(is_interpreted=True, beside_s=len(part) * _BYTE_S)


def _require_size(part: bytes) -> None:
    if len(part) > _MAX_PART_BYTES:
        raise ResourceExhaustedPersistent(
            f"a message has {len(part)} bytes; where a call sends several, each may have at most "
            f"{_MAX_PART_BYTES}"
        )


def _paced(messages: Iterable[_T], stream: Stream, size_of: Callable[[_T], int]) -> Iterator[_T]:
    """Yields messages, each of which is progress of the stream and work of the interpreter."""
    for message in messages:
        yield message
        size = size_of(message)
        stream.moves(size)
        step(is_interpreted=True, beside_s=size * _BYTE_S)


def _all_but_last(messages: Iterator[_T]) -> Generator[_T, None, _T]:
    """Yields all messages but the last one, which it returns; there is one at least."""
    last = next(messages)
    for message in messages:
        yield last
        last = message
    return last


def _with_data(data: bytes) -> DataMessage[device_pb2.ExecuteWithDataRequest]:
    """Decodes a message of an execution with data, whose size is that of its chunks.

    Raises:
        BadData: the bytes are not a message, or have fields that are not known here.
        ResourceExhaustedPersistent: the message has too many parts.
    """
    head, chunks = split(device_pb2.ExecuteWithDataRequest, data, is_strict=True)
    # This refuses unknown fields, too.
    count_parts(device_pb2.ExecuteWithDataRequest, head, _MAX_REQUEST_PARTS)
    try:
        return DataMessage(device_pb2.ExecuteWithDataRequest.FromString(head), chunks)
    except DecodeError:
        raise BadData(f"ExecuteWithData: the {len(data)} bytes received are not a valid message") from None


def _cancellation(context: grpc.ServicerContext) -> Cancellation:
    """Returns a cancellation that is cancelled once the client no longer waits for the reply."""
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()
    return cancellation


def _encode(message: Message) -> bytes:
    return message.SerializeToString()


def _without_thread(behaviour: Callable[..., None]) -> Callable[..., None]:
    """Makes gRPC pass a function that sends replies, instead of iterating in a thread."""

    def call(*arguments: Any) -> None:
        behaviour(*arguments)

    call.experimental_non_blocking = True  # type: ignore[attr-defined]
    return call


def _run_or_abort(context: grpc.ServicerContext, call: Callable[[], _T]) -> _T:
    """Returns the result of `call`; if it raises, the gRPC call ends with the error for the client.

    Ending the call raises another exception, which gRPC keeps for a while. This happens outside of
    the `except` block: an exception that is kept also keeps the one during which it was raised,
    with its frames and the memory of the call.
    """
    try:
        return call()
    except Exception as error:
        failure = _failure(error)
    note_failure(failure, "a call")
    return abort(context, failure)


def _failure(error: Exception) -> Error:
    """Returns the error that the client is sent.

    Raises:
        RpcError: it is `error`: the client has gone, and its stream with it.
    """
    if isinstance(error, Error):
        # Not the error itself, which refers to the frames that it passed.
        return error_for(error.code, str(error))
    if isinstance(error, MemoryError):
        return OutOfMemory("the daemon has no memory left for this call")
    if isinstance(error, grpc.RpcError):
        # gRPC expects this very exception, and keeps it.
        raise error.with_traceback(None)
    logger.error("a call failed", exc_info=error)
    return OpFailed("internal error of the daemon; its log has the details")


#: Answers a call; the message is decoded when the function in the first argument is called with the
#: session, if the call needs one.
_CallHandler = Callable[[Callable[[Session | None], Any], grpc.ServicerContext], Message]


def _answering(
    reader: MessageReader, kind: type[Message], answer: _CallHandler
) -> Callable[[bytes, grpc.ServicerContext], Message]:
    def call(data: bytes, context: grpc.ServicerContext) -> Message:
        with reader.reading(kind, data) as message:
            return _run_or_abort(context, lambda: answer(message, context))

    return call

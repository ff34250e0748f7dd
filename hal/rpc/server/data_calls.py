"""The calls that carry data: memory that is read and written, and executions with their data.

Their messages arrive one after another. Each is progress of its stream, and work of the threads
that serve all clients.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from neurald._proto import device_pb2
from neurald.hal.accounting.pacing import step
from neurald.hal.admission.calls.kept_calls import KeptCalls
from neurald.hal.admission.calls.streams import Stream, StreamLimiter
from neurald.hal.admission.executions.serving_turns import ServingPlace
from neurald.hal.admission.sessions.session import Session
from neurald.hal.errors import THREAD_FAULTS, BadData, ResourceExhaustedPersistent
from neurald.hal.rpc.server.call_cancellation import cancellation_of
from neurald.hal.rpc.server.call_failures import failure_to_report, run_or_abort
from neurald.hal.rpc.server.execution_handler import RunWithData
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.transport.data_message import DataMessage, split
from neurald.hal.rpc.transport.message_scan import count_parts
from neurald.hal.rpc.transport.status import CHUNK_BYTES, abort, parse
from neurald.hal.sync.cancellation import Cancellation

_T = TypeVar("_T")

#: The largest message of a call that sends several: a request, and 1 MiB of content. No other
#: thread runs while protobuf decodes one.
_MAX_PART_BYTES = CHUNK_BYTES + (1 << 18)
#: How many nested messages and byte strings it may have, those of some thousand arguments.
_MAX_REQUEST_PARTS = 20_000
#: The time that the threads that serve all clients spend on a byte of memory sent over gRPC.
_BYTE_S = 1e-3 / CHUNK_BYTES


class DataCalls:
    """The calls of the contract that carry data.

    Args:
        handler: the handler of the calls.
        streams: limits streams.
        kept: the calls that clients keep open.
        find_session: returns the session that a call carries.
    """

    def __init__(
        self,
        handler: DeviceHandler,
        streams: StreamLimiter,
        kept: KeptCalls,
        find_session: Callable[[grpc.ServicerContext], Session],
    ) -> None:
        self._handler = handler
        self._admission = handler.admission
        self._streams = streams
        self._kept = kept
        self._session = find_session

    def write_memory(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Message:
        """Receives a memory, and returns its token."""

        def write() -> Message:
            session = self._session(context)
            with (
                self._streams.open(session, context) as stream,
                self._admission.serving(session) as place,
            ):
                return self._handler.write_memory(session, moving(stream, place))

        def moving(stream: Stream, place: ServingPlace) -> Iterator[device_pb2.WriteMemoryRequest]:
            for part in _arriving(parts, stream, place):
                yield parse(device_pb2.WriteMemoryRequest, part)

        return run_or_abort(context, write)

    def read_memory(self, data: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        """Sends a memory in parts."""
        try:
            session = self._session(context)
            message = parse(device_pb2.ReadMemoryRequest, data)
            with (
                self._streams.open(session, context) as stream,
                self._admission.serving(session),
            ):
                parts = self._handler.read_memory(session, message)
                yield from _paced(parts, stream, lambda part: part.ByteSize())
        except THREAD_FAULTS as error:
            failure = failure_to_report(error)
        else:
            return
        abort(context, failure)

    def execute_with_data(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Executes a request that arrives with its data, and sends its results."""
        try:
            session = self._session(context)
            with session.call(), self._admission.serving(session) as place:
                received = self._receive_with_data(session, parts, context, place)
                replies = self._handler.executions.run_with_data(session, received)
                # The request has run when its first reply is there, and may take long until then.
                first = next(replies)
                with self._streams.open(session, context) as stream:
                    yield from _paced(itertools.chain((first,), replies), stream, len)
        except THREAD_FAULTS as error:
            failure = failure_to_report(error)
        else:
            return
        abort(context, failure)

    def execute_at_once(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Executes with data whose results fit in one message, which needs no stream."""

        def execute() -> bytes:
            session = self._session(context)
            with session.call(), self._admission.serving(session) as place:
                return self._only_reply(session, self._receive_with_data(session, parts, context, place))

        return run_or_abort(context, execute)

    def execute_each(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Executes one request after another in a call that its client keeps open."""
        try:
            session = self._session(context)
            cancellation = cancellation_of(context)
            with self._kept.open(session, context) as kept:
                for part in parts:
                    with kept.serving():
                        last = yield from self._execute_one(session, part, parts, context, cancellation)
                    yield last
                    kept.note_reply()
                    if kept.is_over:
                        return
        except THREAD_FAULTS as error:
            failure = failure_to_report(error)
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
        """Executes a request of any parts; yields all replies but the last, its result."""
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
            times_ns = [arrived_ns] if message.head.request.wants_times else None
            with contextlib.closing(others):
                received = self._handler.executions.receive_with_data(
                    session, message, others, cancellation, times_ns
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
                session, first, messages, cancellation_of(context)
            )


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

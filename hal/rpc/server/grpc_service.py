"""The calls of the contract over gRPC: decodes their messages and finds their sessions."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from neurald._proto import device_pb2
from neurald.hal.admission.calls.kept_calls import KeptCalls
from neurald.hal.admission.calls.message_reader import MessageReader
from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.admission.sessions.session import Session
from neurald.hal.rpc.server.call_cancellation import cancellation_of
from neurald.hal.rpc.server.call_failures import run_or_abort
from neurald.hal.rpc.server.call_trace import timed_call, timed_stream
from neurald.hal.rpc.server.data_calls import DataCalls
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.server.session_calls import SessionCalls
from neurald.hal.rpc.transport.status import ONE_REPLY
from neurald.hal.rpc.wire.device import Access

SERVICE = device_pb2.DESCRIPTOR.services_by_name["Device"].full_name
#: How many calls all clients together may keep open, each of which has a thread, and how long one
#: must have waited for its client to be cut off for another.
MAX_KEPT_CALLS = 64
_KEPT_GRACE_S = 1.0


class GrpcService:
    """The gRPC side of the calls.

    Args:
        handler: the handler of the calls.
        streams: limits streams.
        has_channel: whether sessions are opened over the side channel.
        find_access: returns who may call, for status calls.

    Attributes:
        sessions: opens, finds and ends the sessions of clients.
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
        self._admission = handler.admission
        self._reader = MessageReader(self._admission.turns, self._admission.weights)
        self._kept = KeptCalls(limit=MAX_KEPT_CALLS, grace_s=_KEPT_GRACE_S)
        self.sessions = SessionCalls(handler, streams, self._kept, has_channel=has_channel)
        self._data = DataCalls(handler, streams, self._kept, self.sessions.find)

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
                    session, message, cancellation_of(context)
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
                lambda session, message: handler.executions.execute(
                    session, message, cancellation_of(context)
                )
            )(message, context),
            "ExecuteFenced": self._in_session(handler.executions.execute_fenced),
            "GetFencedExecutionInfo": self._in_session(handler.executions.get_fenced_execution_info),
        }
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "OpenSession": grpc.unary_stream_rpc_method_handler(
                _without_thread(self.sessions.open_session), None, _encode
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                _without_thread(self.sessions.watch_session), None, _encode
            ),
            "WriteMemory": grpc.stream_unary_rpc_method_handler(
                timed_call(self._data.write_memory), None, _encode
            ),
            "ReadMemory": grpc.unary_stream_rpc_method_handler(self._data.read_memory, None, _encode),
            "ExecuteWithData": grpc.stream_stream_rpc_method_handler(
                timed_stream(self._data.execute_with_data)
            ),
            "ExecuteEach": grpc.stream_stream_rpc_method_handler(self._data.execute_each),
        }
        contract = device_pb2.DESCRIPTOR.services_by_name["Device"].methods_by_name
        for name, answer in unary.items():
            behaviour = _answering(self._reader, GetMessageClass(contract[name].input_type), answer)
            methods[name] = grpc.unary_unary_rpc_method_handler(timed_call(behaviour), None, _encode)
        at_once: grpc.RpcMethodHandler[Any, Any] = grpc.stream_unary_rpc_method_handler(
            timed_call(self._data.execute_at_once)
        )
        return _OneReply("ExecuteWithData", at_once), grpc.method_handlers_generic_handler(SERVICE, methods)

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
            session = self.sessions.find(context)
            with self._admission.turns.turn(session.user, session.token):
                return call(session, message(session))

        return call_in_session

    def _limited(self, call: Callable[[Session, Any], Message]) -> "_CallHandler":
        """Does what `_in_session` does, for long calls, whose number in a session is limited."""

        def counted(message: Callable[[Session | None], Any], context: grpc.ServicerContext) -> Message:
            session = self.sessions.find(context)
            with session.call(), self._admission.serving(session):
                return call(session, message(session))

        return counted


class _OneReply(grpc.GenericRpcHandler):
    """Handles the calls of a method whose clients announce that they expect one reply.

    Args:
        method: its name in the contract.
        handler: the handler of these calls.
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


def _encode(message: Message) -> bytes:
    return message.SerializeToString()


def _without_thread(behaviour: Callable[..., None]) -> Callable[..., None]:
    """Makes gRPC pass a function that sends replies, instead of iterating in a thread."""

    def call(*arguments: Any) -> None:
        behaviour(*arguments)

    call.experimental_non_blocking = True  # type: ignore[attr-defined]
    return call


#: Answers a call; the message is decoded when the function in the first argument is called with the
#: session, if the call needs one.
_CallHandler = Callable[[Callable[[Session | None], Any], grpc.ServicerContext], Message]


def _answering(
    reader: MessageReader, kind: type[Message], answer: _CallHandler
) -> Callable[[bytes, grpc.ServicerContext], Message]:
    def call(data: bytes, context: grpc.ServicerContext) -> Message:
        with reader.reading(kind, data) as message:
            return run_or_abort(context, lambda: answer(message, context))

    return call

"""How requests get into a daemon: whose they are is known before they are received, and what they hold before it is made.

gRPC hands over every call before its message has come. So a call without a session is refused without it, and calls that wait
for their message, or for somebody to take their reply, are counted and cut off.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError

from neurald.hal.admission.streams import Streams
from neurald.hal.errors import (
    BadData,
    Error,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    error_for,
)
from neurald.hal.rpc.transport.status import MAX_MESSAGE_BYTES, abort, token_of

_T = TypeVar("_T")

#: Calls whose message has not come yet. Each takes a thread, and as much memory as a message may have.
MAX_ARRIVING: Final = 64
_ARRIVAL_S: Final = 30.0
#: How long a call must have waited to give way to others, where too many wait.
_GRACE_S: Final = 0.25
#: Replies that nobody has taken yet, small and large.
_MAX_REPLIES: Final = 2048
_MAX_LARGE_REPLIES: Final = 32
_LARGE_REPLY_BYTES: Final = 1 << 16
_REPLY_S: Final = 10.0
_LARGE_REPLY_S: Final = 60.0
_LARGE_GRACE_S: Final = 2.0

#: Bytes of a message by the name of its call.
_MESSAGE_LIMITS: Final = {
    **dict.fromkeys(("PrepareModel", "GetSupportedOperations"), MAX_MESSAGE_BYTES),
    # They hold nothing, and need no session.
    **dict.fromkeys(("Describe", "GetCapabilities", "GetStatus", "OpenSession", "Watch", "Check"), 1 << 10),
}
_USUAL_LIMIT_BYTES: Final = 1 << 20


class Intake(grpc.ServerInterceptor):
    """Has the calls of a server wait for their messages, and for who takes their replies, within limits. Thread-safe.

    Args:
        owner: whose a call is, by its method and context: None for those that anybody may make. Raises an `Error` for a
            call that is refused.
        most_of_one: how many calls of one owner may wait for their messages.
    """

    def __init__(self, owner: Callable[[str, Any], Hashable], *, most_of_one: int) -> None:
        self._owner = owner
        self._arriving = Streams(
            most=MAX_ARRIVING, patience_s=_ARRIVAL_S, grace_s=_GRACE_S, most_of_one=most_of_one
        )
        self._replies = Streams(most=_MAX_REPLIES, patience_s=_REPLY_S, grace_s=_GRACE_S)
        self._large_replies = Streams(
            most=_MAX_LARGE_REPLIES, patience_s=_LARGE_REPLY_S, grace_s=_LARGE_GRACE_S
        )

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """A handler that is called before the message has come, for each that is called with it."""
        handler = continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        method: str = handler_call_details.method
        if handler.response_streaming:
            behaviour = self._receiving(method, handler, handler.unary_stream)
            return grpc.stream_stream_rpc_method_handler(behaviour, None, handler.response_serializer)
        answer = self._receiving(method, handler, handler.unary_unary)
        serialize = handler.response_serializer or bytes

        def reply(parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            response: bytes = serialize(answer(parts, context))
            self._leaves(response, context)
            return response

        return grpc.stream_unary_rpc_method_handler(reply, None, None)

    def _receiving(self, method: str, handler: Any, behaviour: Callable[..., _T]) -> Callable[..., _T]:
        """A behaviour that is given the parts of a request, and waits for the only one."""
        deserialize = handler.request_deserializer
        name = method.rpartition("/")[2]
        limit = _MESSAGE_LIMITS.get(name, _USUAL_LIMIT_BYTES)

        def receive(parts: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with self._arriving.open(self._owner(method, context), context):
                data = next(parts, None)
            if data is None:
                raise BadData(f"{name} ended without a message")
            if len(data) > limit:
                raise ResourceExhaustedPersistent(f"{name} of {len(data)} bytes; at most {limit} are allowed")
            try:
                return data if deserialize is None else deserialize(data)
            except DecodeError:
                raise BadData(f"{name}: these {len(data)} bytes are no such message") from None

        def call(parts: Iterator[bytes], context: grpc.ServicerContext, *more: Any) -> _T:
            # What is raised while another exception is handled keeps that, and so the frames that it passed.
            failure: Error | None = None
            try:
                request = receive(parts, context)
            except Error as error:
                failure = error_for(error.code, str(error))
            if failure is not None:
                abort(context, failure)
            return behaviour(request, context, *more)

        for attribute in ("experimental_non_blocking", "experimental_thread_pool"):
            if hasattr(behaviour, attribute):
                setattr(call, attribute, getattr(behaviour, attribute))
        return call

    def _leaves(self, reply: bytes, context: grpc.ServicerContext) -> None:
        """Counts a reply until it has been taken."""
        streams = self._replies if len(reply) <= _LARGE_REPLY_BYTES else self._large_replies
        try:
            stream = streams.begin(token_of(context), context)
        except ResourceExhaustedTransient as error:
            text = str(error)
        else:
            if not context.add_callback(lambda: streams.end(stream)):
                streams.end(stream)
            return
        abort(context, ResourceExhaustedTransient(text))

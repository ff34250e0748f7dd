"""Limits the requests that a daemon receives and the replies that it keeps until they are taken.

gRPC calls the handler of every call before the request message has arrived. So a call without a
session is refused without receiving it, and calls that wait for their message, or for the client to
take the reply, are counted and cut off.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError

from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.errors import (
    BadData,
    Error,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    error_for,
)
from neurald.hal.rpc.transport.status import MAX_MESSAGE_BYTES, abort, token_of

_T = TypeVar("_T")

#: Calls whose message has not arrived yet. Each takes a thread, and as much memory as its message.
MAX_AWAITED_MESSAGES: Final = 64
_ARRIVAL_S: Final = 30.0
#: If too many calls wait, one that has waited for this long is cut off for a new one.
_GRACE_S: Final = 0.25
#: Replies that clients have not taken yet, small and large.
_MAX_REPLIES: Final = 2048
_MAX_LARGE_REPLIES: Final = 32
_LARGE_REPLY_BYTES: Final = 1 << 16
_REPLY_S: Final = 10.0
_LARGE_REPLY_S: Final = 60.0
_LARGE_GRACE_S: Final = 2.0

#: The largest request of each call in bytes.
_MESSAGE_LIMITS: Final = {
    **dict.fromkeys(("PrepareModel", "GetSupportedOperations"), MAX_MESSAGE_BYTES),
    # They have no content, and need no session.
    **dict.fromkeys(("Describe", "GetCapabilities", "GetStatus", "OpenSession", "Watch", "Check"), 1 << 10),
}
_USUAL_LIMIT_BYTES: Final = 1 << 20


class MessageLimitInterceptor(grpc.ServerInterceptor):
    """Limits calls that wait for their messages, and replies that wait for clients. Thread-safe.

    Args:
        owner: returns the owner of a call by its method and context, None for calls that need no
            session. Raises an `Error` for a call that is refused.
        owner_limit: how many calls of one owner may wait for their messages.
    """

    def __init__(self, owner: Callable[[str, Any], Hashable], *, owner_limit: int) -> None:
        self._owner = owner
        self._arriving = StreamLimiter(
            limit=MAX_AWAITED_MESSAGES, patience_s=_ARRIVAL_S, grace_s=_GRACE_S, owner_limit=owner_limit
        )
        self._replies = StreamLimiter(limit=_MAX_REPLIES, patience_s=_REPLY_S, grace_s=_GRACE_S)
        self._large_replies = StreamLimiter(
            limit=_MAX_LARGE_REPLIES, patience_s=_LARGE_REPLY_S, grace_s=_LARGE_GRACE_S
        )

    def close(self) -> None:
        """Ends its threads; the server has stopped."""
        for streams in (self._arriving, self._replies, self._large_replies):
            streams.close()

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """Returns a handler that runs before the request message has arrived, and waits for it."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        if handler.request_streaming:
            if handler.response_streaming:
                return handler
            return self._counted(handler, handler.stream_unary, handler.request_deserializer)
        method: str = handler_call_details.method
        if handler.response_streaming:
            behaviour = self._receiving(method, handler, handler.unary_stream)
            return grpc.stream_stream_rpc_method_handler(behaviour, None, handler.response_serializer)
        return self._counted(handler, self._receiving(method, handler, handler.unary_unary), None)

    def _counted(self, handler: Any, answer: Callable[..., Any], deserializer: Any) -> Any:
        """Returns a handler of request streams whose reply counts until the client takes it."""
        serialize = handler.response_serializer or bytes

        def reply(parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            response: bytes = serialize(answer(parts, context))
            self._leaves(response, context)
            return response

        return grpc.stream_unary_rpc_method_handler(reply, deserializer, None)

    def _receiving(self, method: str, handler: Any, behaviour: Callable[..., _T]) -> Callable[..., _T]:
        """Wraps a behaviour to take the stream of requests, and to wait for the only one."""
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
                raise BadData(f"{name}: the {len(data)} bytes received are not a valid request") from None

        def call(parts: Iterator[bytes], context: grpc.ServicerContext, *more: Any) -> _T:
            # An exception raised while another one is handled would keep that one, and the frames
            # it passed.
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
        """Counts a reply until the client has taken it."""
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

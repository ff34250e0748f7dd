"""gRPC reflection of a daemon: tools such as grpcurl ask for its calls and messages."""

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2

from neurald._proto import device_pb2, types_pb2
from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.errors import BadData, ResourceExhaustedTransient, error_for
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.reflection_pool import (
    REFLECTION_METHOD,
    REFLECTION_SERVICES,
    STANDARD_SERVICES,
    add_standard_services,
)
from neurald.hal.rpc.transport.status import abort, parse


class Reflection(reflection.ReflectionServicer):  # type: ignore[misc]
    """The standard reflection service, with a limit on streams.

    Each stream occupies a thread, although it has no session. Streams that stall are closed.

    Args:
        streams: limits them.
    """

    def __init__(self, streams: StreamLimiter) -> None:
        super().__init__((SERVICE, *STANDARD_SERVICES), pool=_described())
        self._streams = streams

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Returns handlers of both versions, which parse the bytes of requests themselves.

        If gRPC cannot parse a request, it does not notice when the stream ends.
        """
        call: Any = grpc.stream_stream_rpc_method_handler(
            self.ServerReflectionInfo, response_serializer=lambda reply: reply.SerializeToString()
        )
        return tuple(
            _LimitedHandler(
                grpc.method_handlers_generic_handler(name, {REFLECTION_METHOD: call}), self._streams
            )
            for name in REFLECTION_SERVICES
        )

    def ServerReflectionInfo(  # noqa: N802 - name from the protocol
        self, request_iterator: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        """Answers questions about the services."""
        try:
            with self._streams.open(None, context) as stream:

                def moving() -> Iterator[Any]:
                    for data in request_iterator:
                        stream.moves()
                        yield parse(reflection_pb2.ServerReflectionRequest, data)

                for reply in super().ServerReflectionInfo(moving(), context):
                    yield reply
                    stream.moves()
        except (BadData, ResourceExhaustedTransient) as error:
            failure = error_for(error.code, str(error))
        else:
            return
        abort(context, failure)


class _LimitedHandler(grpc.GenericRpcHandler):
    """Refuses streams of a service before they take a thread, while there is no room for any.

    A client without a session can open thousands of streams a second, and calls of all clients
    would wait in line behind them. gRPC tells such a client that there is no such method.
    """

    def __init__(self, handler: grpc.GenericRpcHandler, streams: StreamLimiter) -> None:
        self._handler = handler
        self._streams = streams

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Returns the handler of a call; None if there is none, or if there is no room."""
        found = self._handler.service(handler_call_details)
        return found if found is not None and self._streams.has_room() else None


def _described() -> DescriptorPool:
    """Returns the descriptions of all services, in a pool of their own."""
    pool = DescriptorPool()
    for module in (types_pb2, device_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    add_standard_services(pool)
    return pool

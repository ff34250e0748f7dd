"""gRPC reflection: tools such as grpcurl ask the service for its calls and messages."""

from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

from neurald.hal.rpc.server.reflection_pool import (
    REFLECTION_METHOD,
    REFLECTION_SERVICES,
    STANDARD_SERVICES,
    add_standard_services,
)
from neurald.service.inference.protocol.messages import POOL, SERVICE


def reflection_handlers() -> tuple[grpc.GenericRpcHandler, ...]:
    """Returns the handlers of both versions of reflection, v1 and v1alpha."""
    add_standard_services(POOL)
    servicer: Any = ReflectionServicer((SERVICE, *STANDARD_SERVICES), pool=POOL)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return tuple(
        grpc.method_handlers_generic_handler(name, {REFLECTION_METHOD: handler})
        for name in REFLECTION_SERVICES
    )

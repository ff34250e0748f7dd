"""gRPC reflection: tools such as grpcurl ask the service for its calls and messages."""

from typing import Any, Final

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

from neurald.service.inference.protocol.messages import POOL, SERVICE

#: The package has only the older name. Both have the same messages.
_V1: Final = "grpc.reflection.v1.ServerReflection"
_METHOD: Final = "ServerReflectionInfo"
_ALPHA: Final = "v1alpha"


def reflection_handlers() -> tuple[grpc.GenericRpcHandler, ...]:
    """Returns the handlers of both versions of reflection, v1 and v1alpha."""
    names = (SERVICE, health.SERVICE_NAME, _V1, reflection.SERVICE_NAME)
    servicer: Any = ReflectionServicer(names, pool=_reflected_pool())
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return tuple(
        grpc.method_handlers_generic_handler(name, {_METHOD: handler})
        for name in (_V1, reflection.SERVICE_NAME)
    )


def _reflected_pool() -> Any:
    """Returns the pool of messages that reflection describes: ours, and gRPC's own."""
    for module in (health_pb2, reflection_pb2):
        POOL.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    POOL.AddSerializedFile(_v1().SerializeToString())
    return POOL


def _v1() -> FileDescriptorProto:
    """Returns the description of version 1, which is that of v1alpha with other names."""
    file = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = file.name.replace(_ALPHA, "v1")
    file.package = file.package.replace(_ALPHA, "v1")
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(_ALPHA, "v1")
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(_ALPHA, "v1")
            method.output_type = method.output_type.replace(_ALPHA, "v1")
    return file

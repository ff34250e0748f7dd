"""Describes gRPC's own services for reflection, in both of its versions.

Tools such as grpcurl ask by reflection for calls and messages, in version v1 first. The package for
Python has only v1alpha, whose messages are the same.
"""

from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

#: The services of both versions, and the only method of each.
REFLECTION_SERVICES: Final = ("grpc.reflection.v1.ServerReflection", reflection.SERVICE_NAME)
REFLECTION_METHOD: Final = "ServerReflectionInfo"
#: The names of gRPC's own services.
STANDARD_SERVICES: Final = (health.SERVICE_NAME, *REFLECTION_SERVICES)
_ALPHA: Final = "v1alpha"


def add_standard_services(pool: DescriptorPool) -> None:
    """Adds the descriptions of gRPC's own services to a pool that nothing else fills."""
    for module in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_v1().SerializeToString())


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

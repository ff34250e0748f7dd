"""Descriptions that servers give tools such as grpcurl by reflection."""

from collections.abc import Iterable

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2

Request = reflection_pb2.ServerReflectionRequest


def listed_and_described(address: str, version: str, services: Iterable[str]) -> tuple[set[str], set[str]]:
    """Returns the services that a server lists, and those of the given ones that it describes."""
    with grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=Request.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        names = sorted(services)
        requests = [Request(list_services=""), *(Request(file_containing_symbol=name) for name in names)]
        listed, *files = ask(iter(requests), timeout=60)
    described = {name for name, answer in zip(names, files, strict=True) if _describes(answer, name)}
    return {each.name for each in listed.list_services_response.service}, described


def _describes(answer: reflection_pb2.ServerReflectionResponse, name: str) -> bool:
    """Returns whether files describe a service, and the messages of its package."""
    files = [
        FileDescriptorProto.FromString(each) for each in answer.file_descriptor_response.file_descriptor_proto
    ]
    messages = {f".{file.package}.{each.name}" for file in files for each in file.message_type}
    return any(
        f"{file.package}.{service.name}" == name
        and all({method.input_type, method.output_type} <= messages for method in service.method)
        for file in files
        for service in file.service
    )

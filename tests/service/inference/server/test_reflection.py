"""Tools find the calls of the service by reflection, in both versions of it."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2
from support.inference import zoo
from support.inference.serving import Serving

Request = reflection_pb2.ServerReflectionRequest
SERVICES = {
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "inference.GRPCInferenceService",
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder: Path = tmp_path_factory.mktemp("reflection")
    zoo.write_plain(folder, "same", zoo.reshaping())
    with Serving(folder, http="") as service:
        yield service.wait_ready()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_services_and_messages_are_described(serving: Serving, version: str) -> None:
    with grpc.insecure_channel(serving.grpc) as channel:
        ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=Request.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        requests = [Request(list_services="")]
        requests += [Request(file_containing_symbol=each) for each in sorted(SERVICES)]
        listed, *files = ask(iter(requests), timeout=60)
    assert {each.name for each in listed.list_services_response.service} == SERVICES
    for name, answer in zip(sorted(SERVICES), files, strict=True):
        found = [
            FileDescriptorProto.FromString(each)
            for each in answer.file_descriptor_response.file_descriptor_proto
        ]
        described = {
            f"{file.package}.{service.name}": {method.input_type for method in service.method}
            for file in found
            for service in file.service
        }
        assert name in described
        package = name.rpartition(".")[0]
        assert all(each.startswith(f".{package}.") for each in described[name])

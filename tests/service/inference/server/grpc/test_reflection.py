"""Tools find the calls of the service by reflection, in both versions of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.reflection import listed_and_described
from support.inference import zoo
from support.inference.serving import Serving

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
    assert listed_and_described(serving.grpc, version, SERVICES) == (SERVICES, SERVICES)

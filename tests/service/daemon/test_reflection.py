"""Tools find the calls of a daemon by reflection, in both versions of it."""

from collections.abc import Iterator

import pytest
from support.daemon.reflection import listed_and_described

from neurald.service.daemon.daemon import Daemon

SERVICES = {
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "neurald.v1.Device",
}


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    found = Daemon("cpu")
    found.startup()
    yield found
    found.shutdown()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_services_and_messages_are_described(daemon: Daemon, version: str) -> None:
    assert listed_and_described(daemon.address, version, SERVICES) == (SERVICES, SERVICES)

"""Prepared models of daemons that run faster code later, and have another artifact then."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.devices.caching import CachingDevice, CachingPreparedModel, added, model_adding
from support.waiting import wait_until

from neurald.hal.device import Artifact, PreparedModel, PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.process.address import Address
from neurald.hal.rpc.client import improvement
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer

KEYED = PrepareOptions(cache_key=b"k" * 32)


class ImprovingModel(CachingPreparedModel):
    """A model whose improvement the test provides."""

    def __init__(self, model: Model, artifact: Artifact, improves: bool) -> None:
        super().__init__(model, artifact)
        self._improves = improves
        self._is_improved = False
        self.callbacks: list[Callable[[PreparedModel], None]] = []

    def call_when_improved(self, callback: Callable[[PreparedModel], None]) -> bool:
        if self._is_improved:
            callback(self)
        elif self._improves:
            self.callbacks.append(callback)
        return self._is_improved or self._improves

    def improve(self, artifact: Artifact) -> None:
        self._artifact, self._is_improved = artifact, True
        for callback in self.callbacks:
            callback(self)


class ImprovingDevice(CachingDevice):
    """The artifact of an improved model adds 2 instead of 1, which shows which one was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.improves = True
        self.made: list[ImprovingModel] = []

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        self.made.append(ImprovingModel(model, self._write(model), self.improves))
        return self.made[-1]

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        self.made.append(ImprovingModel(self._read(artifact), artifact, self.improves))
        return self.made[-1]

    def improve(self) -> None:
        """Improves the model that was made last."""
        self.made[-1].improve(self._write(model_adding(2)))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ImprovingDevice:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(improvement, "_FIRST_WAIT_S", 0.01)
    return ImprovingDevice()


@pytest.fixture
def server(tmp_path: Path, device: ImprovingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()
    wait_until(lambda: not threads())


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "neurald improvement"]


def improved_artifact(prepared: PreparedModel, device: ImprovingDevice) -> Artifact:
    """Improves a model of a daemon, and returns its artifact as soon as the client knows of it."""
    called = threading.Event()
    found: list[Artifact | None] = []

    def note(model: PreparedModel) -> None:
        found.append(model.artifact())
        called.set()

    assert prepared.call_when_improved(note)  # type: ignore[attr-defined]
    assert not called.wait(0.05)
    device.improve()
    assert called.wait(60)
    (artifact,) = found
    assert artifact is not None
    return artifact


def test_a_compiled_model(remote: RemoteDevice, device: ImprovingDevice) -> None:
    prepared = remote.prepare_model(model_adding(1), KEYED)
    assert added(prepared) == 1
    artifact = improved_artifact(prepared, device)
    assert added(remote.prepare_model_from_cache(artifact, KEYED)) == 2


def test_a_model_from_the_cache(remote: RemoteDevice, device: ImprovingDevice) -> None:
    first = remote.prepare_model(model_adding(1), KEYED).artifact()
    assert first is not None
    artifact = improved_artifact(remote.prepare_model_from_cache(first, KEYED), device)
    device.improves = False
    final = remote.prepare_model_from_cache(artifact, KEYED)
    assert added(final) == 2
    assert not final.call_when_improved(lambda _: None)


def test_a_model_that_two_clients_share(
    server: DeviceServer, remote: RemoteDevice, device: ImprovingDevice
) -> None:
    other = connect(str(server.address))
    prepared, shared = (each.prepare_model(model_adding(1), KEYED) for each in (remote, other))
    assert len(device.made) == 1
    called = threading.Event()
    assert shared.call_when_improved(lambda _: called.set())
    for _ in range(5):
        third = connect(str(server.address))
        third.prepare_model(model_adding(1), KEYED)
        third.close()
    (made,) = device.made
    assert len(made.callbacks) == 1, "clients cannot make it grow"
    improved_artifact(prepared, device)
    assert called.wait(60)
    other.close()


def test_a_model_that_is_shared_after_it_was_improved(
    server: DeviceServer, remote: RemoteDevice, device: ImprovingDevice
) -> None:
    """Another client may have its first artifact."""
    prepared = remote.prepare_model(model_adding(1), KEYED)
    first = prepared.artifact()
    assert first is not None
    improved_artifact(prepared, device)
    other = connect(str(server.address))
    called = threading.Event()
    shared = other.prepare_model_from_cache(first, KEYED)
    assert len(device.made) == 1
    assert shared.call_when_improved(lambda _: called.set())
    assert called.wait(60)
    other.close()


def test_models_that_stay_as_they_are(remote: RemoteDevice, device: ImprovingDevice) -> None:
    without_key = remote.prepare_model(model_adding(1), PrepareOptions())
    device.improves = False
    for prepared in (without_key, remote.prepare_model(model_adding(3), KEYED)):
        assert not prepared.call_when_improved(lambda _: None)
    assert not threads()


def test_the_thread_ends_with_the_model(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(model_adding(1), KEYED)
    assert prepared.call_when_improved(lambda _: None)
    assert threads()
    del prepared
    wait_until(lambda: not threads())


def test_the_thread_ends_with_the_connection(remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improvement, "_FIRST_WAIT_S", 600.0)
    prepared = remote.prepare_model(model_adding(1), KEYED)
    assert prepared.call_when_improved(lambda _: None)
    assert threads()
    remote.close()
    wait_until(lambda: not threads())

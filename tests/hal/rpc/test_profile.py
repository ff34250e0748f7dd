"""The times of kernels behind a socket."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from support.daemon.peer import Peer
from support.devices.caching import CachingDevice, model_adding
from support.models.addition import AddingDevice, addition

from neurald._proto import device_pb2
from neurald.hal.device import CACHE_KEY_BYTES, Device, KernelTime, PrepareOptions
from neurald.hal.errors import BadData, DeadObject, OpFailed
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.server.server import DeviceServer

NOW = PrepareOptions()
KERNELS = (
    KernelTime(name="first", duration_ns=12_345, operations=(0,), label="element by element"),
    KernelTime(name="second", duration_ns=0, operations=()),
)


@pytest.fixture
def device() -> AddingDevice:
    device = AddingDevice()
    device.on_profile = lambda: KERNELS
    return device


def serve(device: Device, place: str) -> DeviceServer:
    server = DeviceServer(device, Address.parse(place))
    server.start()
    return server


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest, tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    server = serve(device, f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0")
    yield server
    server.stop()


def prepared_by(remote: RemoteDevice) -> RemotePreparedModel:
    return remote.prepare_model(addition(np.ones(3)), NOW)


def test_times_arrive(remote: RemoteDevice) -> None:
    assert prepared_by(remote).profile() == KERNELS


def test_a_device_that_cannot_tell(remote: RemoteDevice, device: AddingDevice) -> None:
    device.on_profile = lambda: ()
    assert prepared_by(remote).profile() == ()


def test_errors_of_the_device_arrive(remote: RemoteDevice, device: AddingDevice) -> None:
    def fail() -> tuple[KernelTime, ...]:
        raise OpFailed("the run failed")

    device.on_profile = fail
    with pytest.raises(OpFailed, match="the run failed"):
        prepared_by(remote).profile()


def test_a_profile_is_work(remote: RemoteDevice, device: AddingDevice) -> None:
    calls = []
    device.on_profile = lambda: calls.append(remote.status().calls) or KERNELS  # type: ignore[func-returns-value]
    prepared_by(remote).profile()
    assert calls == [1]


def test_an_older_daemon_cannot_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: AddingDevice
) -> None:
    make = grpc.method_handlers_generic_handler

    def without(service: str, methods: dict[str, grpc.RpcMethodHandler]) -> grpc.GenericRpcHandler:  # type: ignore[type-arg]
        return make(service, {name: method for name, method in methods.items() if name != "Profile"})

    monkeypatch.setattr(grpc, "method_handlers_generic_handler", without)
    server = serve(device, f"unix://{tmp_path}/old.sock")
    remote = connect(str(server.address))
    assert prepared_by(remote).profile() == ()
    remote.close()
    server.stop()


@pytest.mark.parametrize(
    "kernel",
    [
        device_pb2.KernelTime(name="k", operations=[1]),
        device_pb2.KernelTime(name="k", duration_ns=2**64 - 1),
        device_pb2.KernelTime(name="k" * 1000),
    ],
    ids=["operation", "time", "name"],
)
def test_nonsense_is_not_believed(
    kernel: device_pb2.KernelTime, monkeypatch: pytest.MonkeyPatch, remote: RemoteDevice
) -> None:
    reply = device_pb2.ProfileReply(kernels=[kernel])
    monkeypatch.setattr("neurald.hal.rpc.server.execution_handler.profile_to_wire", lambda kernels: reply)
    with pytest.raises(OpFailed, match="invalid reply from the daemon: "):
        prepared_by(remote).profile()


def test_what_is_of_another_session(server: DeviceServer) -> None:
    owner, other = Peer(server), Peer(server)
    message = device_pb2.ProfileRequest(prepared_model=owner.prepare())
    assert len(owner.call("Profile", message).kernels) == len(KERNELS)
    with pytest.raises(BadData, match="prepared model"):
        other.call("Profile", message)
    owner.close()
    other.close()


def test_of_what_came_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.devices.caching.CachingPreparedModel.profile", lambda self: KERNELS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = serve(CachingDevice(), f"unix://{tmp_path}/d.sock")
    remote = connect(str(server.address))
    options = PrepareOptions(cache_key=bytes(CACHE_KEY_BYTES))
    artifact = remote.prepare_model(model_adding(1), options).artifact()
    assert artifact is not None
    assert remote.prepare_model_from_cache(artifact, options).profile() == KERNELS
    remote.close()
    server.stop()


def test_a_daemon_that_is_gone(server: DeviceServer, remote: RemoteDevice) -> None:
    prepared = prepared_by(remote)
    server.stop()
    with pytest.raises(DeadObject):
        prepared.profile()


def test_a_daemon_that_stops_refuses(server: DeviceServer, remote: RemoteDevice) -> None:
    prepared = prepared_by(remote)
    handler: DeviceHandler = server.handler
    assert handler.admission.drain(1.0, lambda: False)
    with pytest.raises(DeadObject, match="about to stop"):
        prepared.profile()

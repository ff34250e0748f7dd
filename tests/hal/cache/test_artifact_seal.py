"""A daemon only accepts artifacts that its installation has sealed for this device and key."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.devices.caching import CachingDevice, added, model_adding
from support.models.addition import addition
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.cache.artifact_seal import check_seal, interface_of, make_seal, read_seal
from neurald.hal.cache.secret import MAC_BYTES, SECRET_VARIABLE
from neurald.hal.device import Artifact, ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Error, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.process.address import Address
from neurald.hal.records import replace
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer

KEY = bytes(range(32))
OPTIONS = PrepareOptions(cache_key=KEY)
DEVICE = CachingDevice(model=2, data=1)
MODEL = model_adding(3)


def made() -> Artifact:
    found = DEVICE.prepare_model(MODEL, OPTIONS).artifact()
    assert found is not None
    return replace(found, seal=make_seal(DEVICE, MODEL, KEY, found))


def flipped(memory: Memory) -> HostMemory:
    content = bytearray(memory.view())
    content[len(content) // 2] ^= 1
    return HostMemory(bytes(content))


def test_a_seal_is_believed() -> None:
    interface = check_seal(DEVICE, made(), KEY).interface_model()
    operands = interface.main.operands
    assert [operands[index] for index in interface.main.inputs] == [MODEL.main.operands[0]]
    assert [operands[index] for index in interface.main.outputs] == [MODEL.main.operands[3]]


def test_the_interface_keeps_order_and_repetition() -> None:
    model = addition(np.zeros(2, np.float32))
    graph = replace(model.main, inputs=(3, 0, 3), outputs=(0, 2))
    interface = interface_of(replace(model, main=graph)).main
    assert len(interface.operands) == 3
    assert [interface.operands[index] for index in interface.inputs] == [graph.operands[i] for i in (3, 0, 3)]
    assert [interface.operands[index] for index in interface.outputs] == [graph.operands[i] for i in (0, 2)]
    assert interface.operations == ()


def test_every_flipped_byte_of_a_seal_is_noticed() -> None:
    artifact = made()
    for position in range(len(artifact.seal)):
        seal = bytearray(artifact.seal)
        seal[position] ^= 1 << (position % 8)
        with pytest.raises(BadData, match="was not made by this installation"):
            check_seal(DEVICE, replace(artifact, seal=bytes(seal)), KEY)


@sweep("length", [0, 1, MAC_BYTES - 1, MAC_BYTES, MAC_BYTES + 1])
def test_seals_that_are_too_short(length: int) -> None:
    artifact = made()
    with pytest.raises(BadData, match="was not made by this installation"):
        check_seal(DEVICE, replace(artifact, seal=artifact.seal[:length]), KEY)
    with pytest.raises(BadData, match="are not the seal of an artifact"):
        read_seal(artifact.seal[:length])


def test_another_artifact_under_the_seal() -> None:
    artifact = made()
    others = (
        replace(artifact, model=(flipped(artifact.model[0]), artifact.model[1])),
        replace(artifact, model=(artifact.model[0], flipped(artifact.model[1]))),
        replace(artifact, data=(flipped(artifact.data[0]),)),
        replace(artifact, data=()),
        replace(artifact, model=artifact.model[:1]),
        replace(artifact, model=artifact.model[::-1]),
        replace(artifact, model=(*artifact.model, *artifact.data), data=()),
    )
    for other in others:
        with pytest.raises(BadData, match="not the one that its seal was made for"):
            check_seal(DEVICE, other, KEY)


def test_another_key_device_version_or_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = made()
    with pytest.raises(BadData, match="under another key"):
        check_seal(DEVICE, artifact, bytes(32))
    with pytest.raises(BadData, match="was made by caching 1; this is other 1"):
        check_seal(CachingDevice("other", model=2, data=1), artifact, KEY)
    with pytest.raises(BadData, match="was made by caching 1; this is caching 2"):
        check_seal(CachingDevice(version="2", model=2, data=1), artifact, KEY)
    monkeypatch.setenv(SECRET_VARIABLE, str(tmp_path / "other"))
    with pytest.raises(BadData, match="was not made by this installation"):
        check_seal(DEVICE, artifact, KEY)


# Through a socket


class Served:
    """A device behind a socket, and a client of it."""

    def __init__(self, address: Address) -> None:
        self.device = CachingDevice(model=2, data=1)
        self.server = DeviceServer(self.device, address)
        self.server.start()
        self.client: RemoteDevice = connect(str(self.server.address))

    def artifact(self) -> Artifact:
        """Returns the daemon's artifact for `MODEL`."""
        found = self.client.prepare_model(MODEL, OPTIONS).artifact()
        assert found is not None
        return found

    def close(self) -> None:
        self.client.close()
        self.server.stop()


@pytest.fixture(params=["unix", "tcp"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("d") / "d.sock"
    unix = request.param == "unix"
    found = Served(Address.parse(f"unix://{path}" if unix else "127.0.0.1:0"))
    yield found
    found.close()


def test_there_and_back(served: Served) -> None:
    artifact = served.artifact()
    assert [len(artifact.model), len(artifact.data)] == [2, 1]
    prepared = served.client.prepare_model_from_cache(artifact, OPTIONS)
    assert added(prepared) == 3
    assert len(served.device.compiled) == 1
    (offered,) = served.device.offered
    assert offered.seal == b""
    assert [bytes(m.view()) for m in (*offered.model, *offered.data)] == [
        bytes(m.view()) for m in (*artifact.model, *artifact.data)
    ]
    assert prepared.artifact() is None  # the client has it


def test_a_daemon_sees_nothing_that_can_change(served: Served) -> None:
    artifact = served.artifact()
    shared = SharedMemory.create(artifact.model[0].size)
    shared.view()[:] = artifact.model[0].view()
    artifact = replace(artifact, model=(shared, artifact.model[1]))
    served.client.prepare_model_from_cache(artifact, OPTIONS)
    (offered,) = served.device.offered
    for memory in (*offered.model, *offered.data):
        assert not isinstance(memory, SharedMemory) or memory.readonly
    shared.view()[:] = bytes(shared.size)
    assert bytes(offered.model[0].view()) != bytes(shared.size)


def test_without_a_key_there_is_no_artifact(served: Served) -> None:
    assert served.client.prepare_model(MODEL, PrepareOptions()).artifact() is None


def test_a_key_of_another_length_is_refused(served: Served) -> None:
    with pytest.raises(BadData, match="the cache key has 5 bytes; 32 are expected"):
        served.client.prepare_model(MODEL, PrepareOptions(cache_key=b"short"))


def test_what_the_daemon_did_not_make_never_reaches_its_device(served: Served) -> None:
    artifact = served.artifact()
    others = (
        replace(artifact, seal=artifact.seal[:-1] + bytes([artifact.seal[-1] ^ 1])),
        replace(artifact, model=(flipped(artifact.model[0]), artifact.model[1])),
        replace(artifact, data=(flipped(artifact.data[0]),)),
        replace(artifact, model=artifact.model[:1]),
        replace(artifact, seal=b""),
        replace(artifact, seal=bytes(1000)),
    )
    for other in others:
        with pytest.raises(BadData):
            served.client.prepare_model_from_cache(other, OPTIONS)
    with pytest.raises(BadData, match="under another key"):
        served.client.prepare_model_from_cache(artifact, PrepareOptions(cache_key=bytes(32)))
    assert served.device.offered == []
    assert served.client.status().memories <= 1
    assert added(served.client.prepare_model_from_cache(artifact, OPTIONS)) == 3


def test_a_device_that_refuses_its_artifact(served: Served) -> None:
    artifact = served.artifact()

    def refuse() -> None:
        raise BadData("not this one")

    served.device.on_load = refuse
    with pytest.raises(BadData, match="not this one"):
        served.client.prepare_model_from_cache(artifact, OPTIONS)


def test_requests_of_a_model_from_a_cache_are_checked(served: Served) -> None:
    from support.models.addition import request

    prepared = served.client.prepare_model_from_cache(served.artifact(), OPTIONS)
    source, result = np.zeros(5, np.float32), np.zeros(5, np.float32)
    with pytest.raises(BadData, match="input 0"):
        prepared.execute(request(source, result), ExecuteOptions())


def test_a_device_that_gives_none(served: Served) -> None:
    served.device.on_artifact = lambda artifact: None
    assert served.client.prepare_model(MODEL, OPTIONS).artifact() is None


def test_empty_memories_come_and_go_as_others_do(served: Served) -> None:
    served.device.on_artifact = lambda artifact: replace(artifact, data=(HostMemory(b""),))
    artifact = served.client.prepare_model(MODEL, OPTIONS).artifact()
    assert artifact is not None
    assert [memory.size for memory in artifact.data] == [0]
    for filled in (artifact, replace(artifact, data=(HostMemory(b"x"),))):
        with contextlib.suppress(BadData):
            served.client.prepare_model_from_cache(filled, OPTIONS)
    (offered,) = served.device.offered
    assert [memory.size for memory in offered.data] == [0]
    # The others are released in the background.
    wait_until(lambda: served.client.status().memories <= 3)


def test_a_daemon_without_a_secret_gives_nothing(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = served.client.prepare_model(MODEL, OPTIONS)
    monkeypatch.setenv(SECRET_VARIABLE, str(tmp_path))
    with pytest.raises(OpFailed, match="has no secret"):
        prepared.artifact()
    assert added(prepared) == 3


def test_a_daemon_that_lies_about_its_artifact(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = read_seal(made().seal)
    lies = [replace(honest, model=()), replace(honest, data=())]
    for size in (0, -1, 1, 1 << 62):
        lies.append(replace(honest, data=(replace(honest.data[0], size_bytes=size),)))
    seals = [bytes(MAC_BYTES) + msgspec.msgpack.encode(lie) for lie in lies]
    for lie in (b"", b"nonsense", bytes(100), *seals):
        monkeypatch.setattr("neurald.hal.rpc.server.model_handler.make_seal", lambda *_, lie=lie: lie)
        with pytest.raises(Error):
            served.artifact()


def test_the_name_that_artifacts_are_kept_under(served: Served) -> None:
    is_unix = served.server.address.path is not None
    assert served.client.cache_name == ("caching@" if is_unix else "caching@127.0.0.1")

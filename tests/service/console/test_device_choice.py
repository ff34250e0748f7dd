"""Devices by name: only the named device is asked, since others may not answer."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.models.addition import AddingDevice

import neurald as nd
from neurald.hal.errors import BadData, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer
from neurald.service.console.device_choice import find_devices


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns a runtime directory in which `asked` is served; listing all devices fails."""

    def look() -> None:
        raise AssertionError("every daemon was asked")

    with tempfile.TemporaryDirectory(prefix="nd") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        folder = Path(base) / "neurald"
        folder.mkdir(mode=0o700)
        server = DeviceServer(AddingDevice(), Address.parse(f"unix://{folder}/asked.sock"))
        server.start()
        monkeypatch.setattr(nd, "devices", look)
        yield folder
        server.stop()


def found(*names: str) -> list[nd.Device]:
    devices = find_devices(names)
    assert devices is not None
    return devices


def test_no_name() -> None:
    assert find_devices(()) is None


@pytest.mark.parametrize("name", ["cpu", "sample-all"])
def test_devices_of_this_process(directory: Path, name: str) -> None:
    (device,) = found(name)
    assert device.name == name


def test_daemons(directory: Path) -> None:
    by_name, by_address = found("adder@asked", f"unix://{directory}/asked.sock")
    assert by_name is by_address
    assert by_name.name == "adder@asked"


def test_daemons_of_other_hosts() -> None:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    try:
        (device,) = found(f"adder@{server.address}")
        assert device.name == f"adder@{server.address}"
    finally:
        server.stop()


def test_names_that_nothing_has(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nd, "devices", lambda: find_devices(["cpu"]))
    for name in ("adder@other", "other@asked", "@asked", "adder@", "adder@../neurald/asked"):
        with pytest.raises(BadData, match="there is no device"):
            find_devices([name])
    with pytest.raises(BadData, match=r"no daemon serves.*`neurald driver reference` starts one"):
        find_devices(["reference@reference"])
    with pytest.raises(UnavailableDevice, match="no driver daemon listens"):
        find_devices(["127.0.0.1:1"])

import io
import sys

import pytest
from support.daemon.command_line import invoke, invoke_json

import neurald as nd
from neurald.drivers.sample.device import create_all
from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.errors import DeadObject
from neurald.hal.records import replace
from neurald.runtime.devices import discovery
from neurald.service.cli import app


def test_json() -> None:
    (cpu, *_) = invoke_json("devices")["devices"]
    device = nd.devices()[0]
    assert cpu["name"] == device.name == "cpu"
    assert cpu["type"] == "CPU"
    assert cpu["version"] == device.version
    assert cpu["feature_level"] == "LEVEL_8"
    assert cpu["address"] is None
    assert cpu["performance"]["float32"] == {"exec_time": 1.0, "power_usage": 1.0}
    assert cpu["performance"]["quant8"] == {"exec_time": 1.0, "power_usage": 1.0}


def test_table() -> None:
    result = invoke("devices")
    assert result.exit_code == 0, result.stderr
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("cpu ")]
    assert "in process" in row
    assert "CPU" in row
    assert f"cpu: level 8, {nd.devices()[0].version}" in result.stdout.splitlines()


def test_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and names, which people copy, are whole."""
    device = Silent()
    device.name, device.address = "sample-all@sample", f"unix:///run/user/{'0' * 60}.sock"
    both = (nd.devices()[0], device)
    monkeypatch.setattr(discovery, "devices", lambda: both)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    for name, value in (("COLUMNS", "80"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(SystemExit) as caught:
        app(["devices"])
    assert not caught.value.code
    lines = stream.getvalue().splitlines()
    assert max(len(line) for line in lines if device.address not in line) <= 80
    assert any(line.startswith("sample-all@sample   ACCELERATOR   this host ") for line in lines)
    assert any(device.address in line for line in lines)


class Silent:
    """A device whose daemon has died since it was found."""

    name = "silent"
    type = nd.DeviceType.ACCELERATOR
    version = "1"
    feature_level = nd.FeatureLevel.LEVEL_4
    extensions = ()
    is_remote = True
    address = "unix:///run/silent.sock"

    def capabilities(self) -> None:
        raise DeadObject("silent: the driver is gone")


def test_one_that_dies_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (nd.devices()[0], Silent())
    monkeypatch.setattr(discovery, "devices", lambda: both)
    _, silent = invoke_json("devices")["devices"]
    assert silent["address"] == "unix:///run/silent.sock"
    assert silent["error"] == "silent: the driver is gone"
    result = invoke("devices")
    assert result.exit_code == 0
    assert "unix:///run/silent.sock" in result.stdout
    assert "the driver is gone" in result.stderr


def test_extensions_are_listed_with_what_they_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = create_all(), create_all()
    second.name = "second"
    second.declared_extensions = (replace(EXTENSION, operand_types=()),)
    monkeypatch.setattr(discovery, "devices", lambda: (first,))
    (device,) = invoke_json("devices")["devices"]
    assert device["extensions"] == ["neurald.tflite", "org.neurald.sample"]
    (declared,) = device["declared_extensions"]
    assert declared["operations"] == {"PIXELS_TO_GRAY": 0, "GRAY_TO_PIXELS": 1}
    assert declared["operand_types"]["WEIGHTS"] == {"code": 1, "is_tensor": False, "element_bytes": 12}
    assert declared["compilation_attributes"] == {"ROUNDING": 0}
    assert declared["execution_attributes"] == {"ORIENTATION": 0}
    assert device["disabled_extensions"] == {}
    assert "sample-all: extension org.neurald.sample with PIXELS_TO_GRAY" in " ".join(
        invoke("devices").stderr.split()
    )
    monkeypatch.setattr(discovery, "devices", lambda: (first, second))
    reason = "sample-all and second declare the extension differently"
    for device in invoke_json("devices")["devices"]:
        assert device["disabled_extensions"] == {"org.neurald.sample": reason}
    assert reason in " ".join(invoke("devices").stderr.split())

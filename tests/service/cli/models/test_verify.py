from pathlib import Path

import numpy as np
import pytest
from support.daemon.command_line import error_of, invoke, invoke_json

from neurald.runtime.devices import measuring
from neurald.service.demo.digits import MODEL


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_devices_that_are_right(tmp_path: Path) -> None:
    result = invoke("verify", MODEL, "--device", "cpu", "--runs", "2")
    assert result.exit_code == 0, result.stderr
    assert "9 of 9" in result.stdout
    assert "right" in result.stdout
    document = invoke_json("verify", MODEL)
    assert {each["device"]: each["result"] for each in document["devices"]}["cpu"] == "right"
    assert document["reference"] == "reference"
    inputs = tmp_path / "in.npz"
    np.savez(inputs, input_0=np.zeros((1, 8, 8, 1), np.uint8))
    (found,) = invoke_json(
        "verify", MODEL, "--inputs", inputs, "--device", "reference", "--reference", "cpu"
    )["devices"]
    assert (found["device"], found["runs"], found["result"]) == ("reference", 1, "right")


def test_a_device_that_is_wrong_fails() -> None:
    result = invoke("verify", MODEL, "--device", "support.devices.lying:create", "--device", "cpu")
    assert result.exit_code == 1
    assert "wrong" in result.stdout
    assert "1 of 2 devices" in result.stderr
    assert "lying is wrong: output 0" in result.stderr


def test_wrong_usage_is_refused(tmp_path: Path) -> None:
    assert invoke("verify", MODEL, "--inputs", tmp_path / "in.npz", "--runs", "2").exit_code == 2
    assert "No such file" in error_of("verify", tmp_path / "none.tflite")
    assert "there is no device 'nothing'" in error_of("verify", MODEL, "--reference", "nothing")


def test_drivers_without_a_device_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "failures", lambda: {"unix:///run/a.sock": "no GPU"})
    monkeypatch.setattr(measuring, "unmeasured", lambda: ("unix:///run/b.sock",))
    result = invoke("verify", MODEL, "--runs", "1")
    assert "no device at unix:///run/a.sock: no GPU" in result.stderr
    assert "the driver at unix:///run/b.sock is starting for the first time" in result.stderr
    document = invoke_json("verify", MODEL, "--runs", "1")
    assert (document["unavailable"], document["starting"]) == (
        {"unix:///run/a.sock": "no GPU"},
        ["unix:///run/b.sock"],
    )
    assert "unavailable" not in invoke_json("verify", MODEL, "--runs", "1", "--device", "cpu")

"""Calibration is measured once and cached; damaged caches are ignored."""

import os
from pathlib import Path

import pytest

from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.tuning import calibration
from neurald.drivers.opencl.tuning.calibration import calibrated, estimated
from neurald.hal.device import Device
from neurald.hal.errors import OpFailed, UnavailableDevice
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, OperandType


@pytest.fixture
def device(opencl: DeviceContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenClDevice:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return OpenClDevice(opencl.facts)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the device of each measured model; OpenCL is twice as fast."""
    names: list[str] = []

    def time_s(device: Device, model: Model) -> float:
        names.append(device.name)
        return 1.0 if device.name == "opencl" else 2.0

    monkeypatch.setattr(calibration, "_time_s", time_s)
    return names


def files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "neurald" / "calibration").iterdir())


def test_measured_once(device: OpenClDevice, measured: list[str], tmp_path: Path) -> None:
    for _ in range(3):
        found = calibrated(device)
        assert {each.exec_time for each in found.operand_performance.values()} == {0.5}
        assert found.relaxed_float32_tensor.exec_time == 0.5
        assert found.while_performance.exec_time > 1e5
    assert set(found.operand_performance) == set(OperandType)
    assert len(measured) == 8
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"float32":-1,"relaxed":1,"float16":1,"quant8":1}']
)
def test_damaged_caches_are_replaced(
    device: OpenClDevice, measured: list[str], tmp_path: Path, content: bytes
) -> None:
    calibrated(device)
    (file,) = files(tmp_path)
    file.write_bytes(content)
    assert calibrated(device).relaxed_float32_scalar.exec_time == 0.5
    assert len(measured) == 16


def test_what_is_no_file_is_not_read(device: OpenClDevice, measured: list[str], tmp_path: Path) -> None:
    calibrated(device)
    (file,) = files(tmp_path)
    for plant in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        file.unlink()
        plant(file)
        assert calibrated(device).relaxed_float32_scalar.exec_time == 0.5
        assert file.is_file()
    assert len(measured) == 24


def test_devices_that_cannot_run_the_benchmark(device: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: Device, model: Model) -> float:
        raise OpFailed("as the test wants it")

    monkeypatch.setattr(calibration, "_time_s", fail)
    assert {each.exec_time for each in calibrated(device).operand_performance.values()} == {1e6}


def test_only_a_measurement_takes_time(device: OpenClDevice, measured: list[str]) -> None:
    """A compilation or an execution that asks for capabilities must not wait for one."""
    estimate = device.capabilities()
    assert not measured
    assert estimate == estimated(device.type)
    assert set(estimate.operand_performance) == set(OperandType)
    slower = device.type is DeviceType.CPU
    assert (estimate.relaxed_float32_tensor.exec_time > 1) is slower
    device.measure()
    assert device.capabilities().relaxed_float32_tensor.exec_time == 0.5
    assert len(measured) == 8
    # Other processes find the measurement.
    assert OpenClDevice(device.facts).capabilities() == device.capabilities()
    assert len(measured) == 8


def test_a_device_that_no_model_can_use_is_unavailable(
    device: OpenClDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Then its daemon does not start, and `neurald devices` says why."""

    def refuse(context: DeviceContext) -> None:
        raise OpFailed("it computes wrong results: signs")

    monkeypatch.setattr("neurald.drivers.opencl.device.require_correct", refuse)
    for _ in range(2):
        with pytest.raises(UnavailableDevice, match="it computes wrong results: signs"):
            device.measure()
    # Once its driver is mended, it does not count as slow.
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert OpenClDevice(device.facts).capabilities() == estimated(device.type)


def test_read_only_caches(device: OpenClDevice, measured: list[str], tmp_path: Path) -> None:
    (tmp_path / "neurald").write_text("no folder")
    for _ in range(2):
        assert calibrated(device).relaxed_float32_scalar.exec_time == 0.5
    assert len(measured) == 16

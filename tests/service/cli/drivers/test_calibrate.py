"""`neurald calibrate` and `neurald devices --costs`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.command_line import invoke, invoke_json
from support.devices.misbehaving import FailingDevice, SampleDevice

import neurald as nd
from neurald.hal.errors import OpFailed
from neurald.runtime.costs import calibration, store
from neurald.runtime.costs.table import CostTable
from neurald.service.console.processor_pressure import ProcessorPressure


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "_TURNS", 2)
    monkeypatch.setattr(calibration, "_MIN_S", 1e-9)
    monkeypatch.setattr(calibration, "_MIN_RUNS", 1)
    monkeypatch.setattr(calibration, "_SPREAD_S", 1e-9)
    for name in ("_MIN_TURN_S", "_MAX_MORE_S", "_DOUBT_S"):
        monkeypatch.setattr(calibration, name, 0)
    store.forget()
    yield
    store.forget()


def only(monkeypatch: pytest.MonkeyPatch, *devices: nd.Device) -> None:
    monkeypatch.setattr(nd, "devices", lambda: devices, raising=False)


def test_costs_are_measured_kept_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    before = invoke("devices", "--costs")
    assert "cpu has not been measured" in " ".join(before.stderr.split())
    result = invoke("calibrate", "--device", "cpu")
    assert result.exit_code == 0, result.stderr
    assert re.search("cpu: launch .* around each step of a plan of several .* us", result.stdout)
    store.forget()
    document = invoke_json("devices", "--costs")
    (cpu,) = [each for each in document["costs"]["devices"] if each["name"] == "cpu"]
    assert cpu["launch_s"] > 0
    assert 0 < cpu["step_s"] < 0.1  # in seconds, even on a busy machine
    assert len({(each["operation"], each["operand"]) for each in cpu["operations"]}) == 22
    assert all(each["seconds"] > 0 for each in cpu["operations"])
    shown = invoke("devices", "--costs")
    assert "CONV_2D" in shown.stdout


def device(name: str) -> SampleDevice:
    return SampleDevice(name, supports=(nd.OperationType.ADD, nd.OperationType.RESHAPE).__contains__)


def test_each_pair_of_devices_has_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, device("first"), device("second"))
    document = invoke_json("calibrate")
    assert [each["name"] for each in document["devices"]] == ["first", "second"]
    assert {(each["source"], each["target"]) for each in document["links"]} == {
        ("first", "second"),
        ("second", "first"),
    }
    assert all(each["is_measured"] and each["latency_s"] >= 0 for each in document["links"])
    assert "copied" in invoke("calibrate").stdout


def test_a_calibration_knows_what_an_earlier_one_found(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, device("first"))
    known: list[CostTable | None] = []
    real = calibration.calibrate

    def noting(
        subject: nd.Device, progress: calibration.Progress, earlier: CostTable | None = None
    ) -> CostTable:
        known.append(earlier)
        return real(subject, progress, earlier)

    monkeypatch.setattr(calibration, "calibrate", noting)
    invoke("calibrate")
    found = store.costs_of(device("first")).table
    invoke("calibrate")
    assert known == [CostTable(), found]
    assert found.rates


def test_a_device_that_fails_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, device("works"), FailingDevice("fails", OpFailed("broken")))
    result = invoke("calibrate")
    assert result.exit_code == 1
    assert "works: launch" in result.stdout
    assert "fails was not calibrated: broken" in " ".join(result.stderr.split())


@pytest.mark.parametrize(("waiting", "is_noted"), [(0.6, True), (0.01, False), (None, False)])
def test_a_busy_machine_is_noted(
    waiting: float | None, is_noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, device("first"))
    monkeypatch.setattr(ProcessorPressure, "share", lambda _: waiting)
    noted = " ".join(invoke("calibrate").stderr.split())
    assert ("programs waited for a processor in 60% of the time" in noted) == is_noted
    assert invoke_json("calibrate")["waiting"] == waiting

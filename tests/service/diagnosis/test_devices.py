"""A diagnosis lets devices compute, and notices those that compute wrongly."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.errors import UnavailableDevice
from neurald.service.diagnosis import devices
from neurald.service.diagnosis.devices import examine_devices
from neurald.service.diagnosis.finding import Finding, Severity


def examined(monkeypatch: pytest.MonkeyPatch, *found: nd.Device) -> list[Finding]:
    monkeypatch.setattr(nd, "devices", lambda: found)
    monkeypatch.setattr(devices, "failures", lambda: {"unix:///run/gpu.sock": "there is no GPU"})
    return list(examine_devices())


class Wrong(SampleDevice):
    """A device whose sums are wrong by one."""

    def prepare_model(self, model: nd.Model, options: Any) -> Any:
        prepared: Any = super().prepare_model(model, options)
        execute = prepared.execute

        def wrong(request: Any, options: Any) -> Any:
            result = execute(request, options)
            target = request.outputs[0]
            view = request.pools[target.pool].view(target.offset, 4)
            view[3] ^= 0x40
            return result

        prepared.execute = wrong
        return prepared


class Absent(SampleDevice):
    """A device that cannot prepare anything."""

    def prepare_model(self, model: nd.Model, options: Any) -> Any:
        raise UnavailableDevice("the cable is loose")


class Useless(SampleDevice):
    """A device that supports nothing."""

    def supported_operations(self, model: nd.Model) -> Sequence[Any]:
        return [type(each)(ok=False, reason="the fan is off") for each in super().supported_operations(model)]


def test_a_device_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    right, missing = examined(monkeypatch, nd.devices()[0])
    assert right.severity is Severity.OK
    for trial in ("float32 sum right", "float32 product right", "quantised sum right"):
        assert trial in right.found
    assert missing.severity is Severity.WARNING
    assert "there is no GPU" in missing.found


def test_a_device_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, _ = examined(monkeypatch, Wrong("wrong"))
    assert wrong.severity is Severity.PROBLEM
    assert "differs by" in wrong.found


def test_a_device_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    absent, _ = examined(monkeypatch, Absent("absent"))
    assert absent.severity is Severity.PROBLEM
    assert "the cable is loose" in absent.found


def test_a_device_that_supports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    useless, _ = examined(monkeypatch, Useless("useless"))
    assert useless.severity is Severity.NOTE
    assert useless.found.endswith("nothing was computed; the fan is off")


def test_a_remote_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALD_REMOTES", "attic=127.0.0.1:1")
    monkeypatch.setenv("NEURALD_TLS", "/nowhere")
    (found,) = (each for each in examined(monkeypatch) if each.subject == "remote attic")
    assert found.severity is Severity.WARNING
    assert "/nowhere/cert.pem cannot be read" in found.found
    assert "remotes.attic" in found.advice

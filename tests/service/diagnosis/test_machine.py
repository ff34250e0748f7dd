"""What a diagnosis says of processors, memory and kernels."""

import platform

import pytest

from neurald.service.diagnosis import machine
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.machine import examine_machine
from neurald.service.sandbox import seccomp


def found(subject: str) -> Finding:
    (finding,) = [each for each in examine_machine() if each.subject == subject]
    return finding


def test_each_subject_is_examined_once() -> None:
    subjects = [each.subject for each in examine_machine()]
    assert subjects == ["processor", "memory", "descriptors", "sandbox", "scheduler"]


def test_advice_comes_with_everything_that_is_not_as_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "runs_here", lambda target: target.name == "generic")
    monkeypatch.setattr(machine, "memory_bytes", lambda: 100 << 20)
    monkeypatch.setattr(machine, "descriptors", lambda: 256)
    monkeypatch.setattr(machine, "version", lambda: 3)
    monkeypatch.setattr(seccomp, "is_available", lambda: False)
    monkeypatch.setattr(machine, "time_slice_ns", lambda: None)
    for finding in examine_machine():
        assert finding.severity is not Severity.OK, finding
        assert finding.advice, finding
    assert "generic" in found("processor").found
    assert "landlock-network, landlock-devices, landlock-signals, seccomp" in found("sandbox").found


@pytest.mark.parametrize(
    ("release", "is_short"), [("6.8.0-45-generic", False), ("6.12.1", True), ("7.0", True)]
)
def test_releases_of_linux_are_compared_as_numbers(
    release: str, is_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    monkeypatch.setattr(machine, "time_slice_ns", lambda: 100_000)
    assert (found("scheduler").severity is Severity.OK) is is_short

"""Findings of a diagnosis about the service manager and its drivers."""

from pathlib import Path

import msgspec
import pytest

from neurald.hal.errors import UnavailableDevice
from neurald.service.diagnosis import manager
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.manager import examine_manager, examine_starts
from neurald.service.manager.state import DriverState, DriverStatus, ManagerStatus, PatternStatus


def driver(state: DriverState, *, refused: bool | None = None, sandbox: str | None = "full") -> DriverStatus:
    pattern = PatternStatus(
        id="0123456789abcdef",
        operations="ADD",
        version="1",
        deaths=2,
        is_refused=bool(refused),
        is_certain=True,
        phase="executing",
        cause="SIGSEGV",
        at=0.0,
        narrowing="",
    )
    return DriverStatus(
        name="npu",
        address="unix:///run/npu.sock",
        listen="",
        state=state,
        reason="it died five times" if state is DriverState.QUARANTINED else "",
        process=None,
        spare=None,
        sessions=None,
        sandbox=sandbox,
        sandbox_missing=("seccomp",) if sandbox == "partial" else (),
        starts=5,
        deaths=5,
        last_exit="signal SIGSEGV",
        last_lines=(),
        patterns=() if refused is None else (pattern,),
    )


def with_drivers(monkeypatch: pytest.MonkeyPatch, *drivers: DriverStatus) -> list[Finding]:
    monkeypatch.setattr(manager, "is_served", lambda path: True)
    found = ManagerStatus(process=7, directory="/run", drivers=drivers)
    monkeypatch.setattr(manager, "manager_status", lambda: found)
    return list(examine_manager())


def test_without_a_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for value, severity in (("0", Severity.NOTE), ("1", Severity.OK), ("yes", Severity.PROBLEM)):
        monkeypatch.setenv("NEURALD_AUTOSTART", value)
        (finding,) = examine_manager()
        assert finding.severity is severity, finding


def test_drivers_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (DriverState.READY, DriverState.STOPPED):
        findings = with_drivers(monkeypatch, driver(state))
        assert [each.severity for each in findings] == [Severity.OK, Severity.OK]


def test_drivers_in_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    _, finding = with_drivers(monkeypatch, driver(DriverState.QUARANTINED))
    assert finding.severity is Severity.PROBLEM
    assert "neurald restart npu" in finding.advice
    assert "died five times" in finding.found
    _, finding = with_drivers(monkeypatch, driver(DriverState.BACKOFF))
    assert finding.severity is Severity.WARNING


def test_drivers_whose_processes_do_not_become_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert not list(examine_starts())
    stopped = msgspec.structs.replace(driver(DriverState.STOPPED), reason="it did not become ready")
    with_drivers(monkeypatch, stopped, msgspec.structs.replace(stopped, name="gpu", is_unable=True))
    (finding,) = examine_starts()
    assert (finding.subject, finding.severity) == ("driver gpu", Severity.PROBLEM)
    assert finding.found == "it did not become ready"
    assert "neurald restart gpu" in finding.advice


@pytest.mark.parametrize("refused", [True, False])
def test_what_killed_drivers(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, finding = with_drivers(monkeypatch, driver(DriverState.READY, refused=refused))
    assert finding.severity is (Severity.WARNING if refused else Severity.NOTE)
    assert ("neurald forgive npu 0123456789ab" in finding.advice) is refused


@pytest.mark.parametrize(("sandbox", "text"), [("off", "is off"), ("partial", "lacks seccomp")])
def test_weak_sandboxes(sandbox: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, finding = with_drivers(monkeypatch, driver(DriverState.READY, sandbox=sandbox))
    assert text in finding.found


def test_a_manager_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> ManagerStatus:
        raise UnavailableDevice("it has not answered within 10 s")

    monkeypatch.setattr(manager, "is_served", lambda path: True)
    monkeypatch.setattr(manager, "manager_status", silent)
    (finding,) = examine_manager()
    assert finding.severity is Severity.PROBLEM
    assert "not answered" in finding.found

"""Findings of a diagnosis about processors, memory and kernels."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from neurald.hal.process.threads.time_slices import SLICE_NS, time_slice_ns
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


@pytest.mark.parametrize(("granted_ns", "is_short"), [(SLICE_NS, True), (0, False), (None, False)])
def test_the_kernel_is_asked_for_short_time_slices(
    granted_ns: int | None, is_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slice that it grants counts, whatever its version is."""
    asked: list[bool] = []

    @contextmanager
    def asking() -> Iterator[None]:
        asked.append(True)
        yield
        asked.pop()

    monkeypatch.setattr(machine, "short_time_slices", asking)
    monkeypatch.setattr(machine, "time_slice_ns", lambda: granted_ns if asked else SLICE_NS + 1)
    assert (found("scheduler").severity is Severity.OK) is is_short
    assert not asked


def test_the_time_slices_of_the_thread_stay() -> None:
    before = time_slice_ns()
    finding = found("scheduler")
    assert time_slice_ns() == before
    assert ("with short" in finding.found) is (finding.severity is Severity.OK)

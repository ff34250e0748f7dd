"""Patterns that killed a driver are kept away from it."""

import mmap
import os
from pathlib import Path

import pytest
from support.models.graphs import model
from support.models.small import add_model

from neurald.hal.crashes.breadcrumbs import MEMORY_BYTES, Breadcrumbs, CrashPhase, create_memory
from neurald.hal.crashes.guard import CrashGuard
from neurald.hal.crashes.pattern import ModelSignatures
from neurald.hal.crashes.records import CrashRecords, CrashSuspect
from neurald.hal.crashes.trail import read_version
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.device import Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType

ADD, RELU = OperationType.ADD, OperationType.RELU
WHOLE = model("a b", [(RELU, "a", "x"), (ADD, "x b none", "c")], "c")
PART = model("a", [(RELU, "a", "x")], "x")
YES = Verdict(ok=True)


@pytest.fixture
def records(tmp_path: Path) -> CrashRecords:
    return CrashRecords(tmp_path / "crashes.json")


def refuse(records: CrashRecords, phase: CrashPhase = CrashPhase.EXECUTE) -> None:
    suspect = CrashSuspect(pattern=ModelSignatures(PART).pattern(), phase=phase)
    for _ in range(2):
        records.died("d", "1", [suspect], "signal SIGABRT")


def test_only_the_operations_of_a_pattern_are_refused(records: CrashRecords) -> None:
    guard = CrashGuard(records, "d", "1")
    assert guard.supported(WHOLE, lambda: (YES, YES)) == (YES, YES)
    refuse(records)
    first, second = guard.supported(WHOLE, lambda: (YES, YES))
    assert not first.ok
    assert "RELU FLOAT32[2,3] killed driver d 2 times" in first.reason
    assert second.ok
    with pytest.raises(BadData, match="neurald forgive d"):
        guard.require_allowed(WHOLE)
    with pytest.raises(BadData, match="neurald forgive d"):
        guard.require_pattern_allowed(ModelSignatures(WHOLE).pattern())
    guard.require_allowed(add_model())
    guard.require_pattern_allowed(ModelSignatures(add_model()).pattern())
    records.forgive()
    guard.require_allowed(WHOLE)


def test_another_version_or_driver_is_not_concerned(records: CrashRecords) -> None:
    refuse(records)
    CrashGuard(records, "d", "2").require_allowed(WHOLE)
    CrashGuard(records, "e", "1").require_allowed(WHOLE)
    CrashGuard(None, "d", "1").require_allowed(WHOLE)


@pytest.mark.parametrize("version", ["x" * 500, "PoCL\n3.1", "ü" * 300, "\ud800"])
def test_any_version_of_a_driver_is_recognised(version: str, records: CrashRecords, tmp_path: Path) -> None:
    """The supervisor reads it from the breadcrumbs of the process, the guard from the device."""
    descriptor = create_memory()
    try:
        crumbs = Breadcrumbs(mmap.mmap(descriptor, MEMORY_BYTES), is_supervised=True)
        crumbs.set_version(version)
        found = read_version(descriptor)
    finally:
        os.close(descriptor)
    suspect = CrashSuspect(pattern=ModelSignatures(PART).pattern(), phase=CrashPhase.EXECUTE)
    for _ in range(2):
        # Each process that supervises reads the file anew.
        CrashRecords(tmp_path / "crashes.json").died("d", found, [suspect], "signal SIGABRT")
    with pytest.raises(BadData, match="neurald forgive d"):
        CrashGuard(records, "d", version).require_allowed(WHOLE)


def test_a_driver_that_died_of_the_question_is_not_asked(records: CrashRecords) -> None:
    refuse(records, CrashPhase.QUERY)

    def never() -> tuple[Verdict, ...]:
        raise AssertionError

    verdicts = CrashGuard(records, "d", "1").supported(WHOLE, never)
    assert [each.ok for each in verdicts] == [False, False]


def test_two_deaths_of_helpers_refuse_a_pattern_without_a_supervisor() -> None:
    watch = CrashWatch.alone()
    crumb = watch.crumb(PART, b"graphs")
    watch.helper_died(crumb, 11, "SIGSEGV")
    watch.guard.require_allowed(PART)
    watch.helper_died(crumb, 11, "SIGSEGV")
    with pytest.raises(BadData, match="SIGSEGV while compiling it"):
        watch.guard.require_allowed(PART)

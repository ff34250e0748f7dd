"""A slice of `tests/faults/run.py --matrix`: each phase once, and each fault at least once."""

import pytest
from faults.managed.matrix import FAULTS, PHASES, cells_of, play
from faults.managed.matrix_jobs import cores_of, play_in_jobs, suitable_jobs, warning
from faults.managed.matrix_report import MatrixReport, PlayedCell

#: Factor of the limits of time, since other tests keep the machine busy.
_SLACK = 20.0


@pytest.mark.timed
@pytest.mark.slow
def test_faults_in_some_phases() -> None:
    cells = [(FAULTS[number % len(FAULTS)], phase) for number, phase in enumerate(PHASES)]
    report = play(cells, slack=_SLACK)
    assert not report.all_wrong, report.document()
    assert report.played == len(cells)


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_every_fault_in_every_phase() -> None:
    report = play(cells_of(1), slack=_SLACK)
    assert not report.all_wrong, report.document()
    assert report.played == len(FAULTS) * len(PHASES)


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_jobs_play_cells_at_the_same_time() -> None:
    report = MatrixReport()
    cells = [("kill", "burst"), ("lie", "query")]
    pace = play_in_jobs(cells, 2, report, slack=_SLACK, cores=1)
    assert not report.all_wrong, report.document()
    assert {(each.fault, each.phase) for each in report.cells} == {*cells}
    assert pace.most <= 2


@pytest.mark.full
@pytest.mark.slow
def test_what_was_written_meanwhile_is_kept_of_a_late_cell() -> None:
    (cell,) = play([("kill", "burst")], slack=0.0).cells
    assert cell.log[0].startswith("waited for processor cores: this one ")
    assert cell.log[1].endswith("the fault strikes")
    assert any("READY" in line for line in cell.log)


def test_more_jobs_than_cores_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    assert suitable_jobs() == 10
    assert not warning(10)
    assert "11 jobs share 16 processor cores" in warning(11)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert suitable_jobs() == 1


def test_jobs_share_groups_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 2, 3, 5, 6})
    assert [cores_of(job, 2) for job in range(3)] == [[1, 2], [3, 5], [1, 2]]
    assert cores_of(1, None) == cores_of(1, 5) == []


def test_a_report_counts_each_cell_and_its_worst() -> None:
    report = MatrixReport(
        [
            PlayedCell("kill", "burst", call_s=0.25, recovery_s=0.5),
            PlayedCell("kill", "burst", call_s=0.75, recovery_s=0.25),
            PlayedCell(
                "kill",
                "drain",
                call_s=0.5,
                wrong=["kill, drain: the device is not used again"],
                log=["12:00 the fault strikes"],
            ),
        ],
        wrong=["the manager did not stop"],
    )
    assert report.document() == {
        "cells": 2,
        "call_s": {"kill": {"median": 0.5, "p95": 0.75, "max": 0.75}},
        "recovery_s": {"kill": {"median": 0.375, "p95": 0.5, "max": 0.5}},
        "each": {
            "kill, burst": {"played": 2, "wrong": 0, "worst_call_s": 0.75, "worst_recovery_s": 0.5},
            "kill, drain": {"played": 0, "wrong": 1, "worst_call_s": 0.5, "worst_recovery_s": 0.0},
        },
        "wrong": ["kill, drain: the device is not used again", "the manager did not stop"],
        "logs": {"kill, drain: the device is not used again": ["12:00 the fault strikes"]},
    }

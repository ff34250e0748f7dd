"""A slice of `tests/faults/run.py --matrix`: each phase once, and each fault at least once."""

import pytest
from faults.matrix import FAULTS, PHASES, cells_of, play

#: Factor of the limits of time, since other tests keep the machine busy.
_SLACK = 20.0


@pytest.mark.timed
@pytest.mark.slow
def test_faults_in_some_phases() -> None:
    cells = [(FAULTS[number % len(FAULTS)], phase) for number, phase in enumerate(PHASES)]
    report = play(cells, slack=_SLACK)
    assert not report.wrong, report.document()
    assert report.cells == len(cells)


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_every_fault_in_every_phase() -> None:
    report = play(cells_of(1), slack=_SLACK)
    assert not report.wrong, report.document()
    assert report.cells == len(FAULTS) * len(PHASES)

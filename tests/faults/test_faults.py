"""Short runs of `tests/faults/run.py`."""

import pytest
from faults.run import run
from faults.scenarios.scenario import SCENARIOS


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_every_scenario() -> None:
    report = run(tuple(SCENARIOS), seed=1, clients=2, leak_rounds=0)
    assert not report["wrong"], report
    right = [key for key in report["outcomes"] if key.endswith("right")]
    assert len(right) == 10, "in every way some call was right"


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_nothing_leaks() -> None:
    report = run((), seed=1, clients=4, leak_rounds=2)
    assert not report["wrong"], report

"""A short run of `tests/faults/run.py --updates`."""

import pytest
from faults.managed.update import update


@pytest.mark.timed
@pytest.mark.slow
def test_no_call_fails_while_a_driver_is_replaced() -> None:
    report = update(2000, 8, pause_ms=15, slack=6.0, kinds=("version", "failing", "configuration"))
    assert not report["failures"], report
    assert report["calls"] == 2000
    assert report["updates"]["version"] >= 1

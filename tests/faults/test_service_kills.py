"""A short run of `tests/faults/run.py --kills`."""

import pytest

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from faults.service_kills import kills


@pytest.mark.full
@pytest.mark.slow
def test_every_call_is_answered_at_last() -> None:
    report = kills(20.0, seed=1)
    assert not report["wrong"], report
    assert report["played"], report
    assert all(report["answered"].values()), report

"""Short runs of `tests/faults/run.py --heal`."""

import pytest
from faults.managed.driver import DRIVER
from faults.managed.heal import FAULTS, HealReport, heal

#: Factor of the limits of time, since other tests keep the machine busy.
_SLACK = 20.0


def check(report: HealReport) -> None:
    assert not report.wrong, report.document()
    assert report.rounds == len(FAULTS)
    assert set(report.used_s) == set(report.not_ready_s) == set(FAULTS)


@pytest.mark.timed
@pytest.mark.slow
def test_a_driver_that_is_killed_or_stopped_is_used_again() -> None:
    check(heal("matrix", 1, slack=_SLACK, driver=DRIVER))


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_an_opencl_driver_that_is_killed_or_stopped_is_used_again() -> None:
    cl = pytest.importorskip("pyopencl")
    try:
        cl.get_platforms()
    except cl.Error as error:
        pytest.skip(f"there is no OpenCL platform: {error}")
    check(heal("opencl", 1, slack=_SLACK))

"""Time limits: invalid numbers are refused, and very long limits mean none."""

import math
import time

import pytest
from support.sweeps import sweep

from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import BadData
from neurald.hal.sync.deadline import NEVER_S, deadline_in, nanoseconds, remaining_s


@sweep("seconds", [-1.0, -1e-300, math.nan, -math.inf])
def test_what_is_no_time(seconds: float) -> None:
    with pytest.raises(BadData, match="of at least 0"):
        deadline_in(seconds)
    with pytest.raises(BadData):
        ExecuteOptions().limited_to(seconds)


@sweep("seconds", [None, NEVER_S, 1e300, math.inf])
def test_what_is_no_limit(seconds: float | None) -> None:
    assert deadline_in(seconds) is None
    assert ExecuteOptions().limited_to(seconds).deadline_s is None
    assert ExecuteOptions(deadline_s=5.0).limited_to(seconds).deadline_s == 5.0


def test_limits() -> None:
    before_s = time.monotonic()
    found = deadline_in(3.0)
    assert found is not None
    assert before_s + 3.0 <= found <= time.monotonic() + 3.0
    assert ExecuteOptions(deadline_s=0.0).limited_to(3.0).deadline_s == 0.0


@sweep("deadline_s", [None, 1e300, math.inf])
def test_deadlines_that_never_come(deadline_s: float | None) -> None:
    assert nanoseconds(deadline_s) == 0
    assert remaining_s(deadline_s) is None


def test_native_deadlines() -> None:
    assert nanoseconds(2.5) == 2_500_000_000
    assert nanoseconds(0.0) == nanoseconds(-3.0) == 1

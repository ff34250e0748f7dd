"""The rules about deadlines on a machine whose speed varies; `test_faults.py` has drivers that break them."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from neurald.hal.errors import Cancelled
from neurald.service.conformance.rules import time as time_rules
from neurald.service.conformance.rules.rule import Broken, Declined
from neurald.service.conformance.rules.time import LongRun


@pytest.fixture
def run() -> LongRun:
    # Neither is used: executions are what the tests give.
    anything: Any = None
    return LongRun(name="a chain", prepared=anything, request=anything, takes_s=1.0, may_go_on_s=0.25)


class Attempts:
    """Ends each execution of a check in the next of these ways: so many seconds after its deadline, told or not."""

    def __init__(self, run: LongRun, *ways: tuple[float, bool]) -> None:
        self._run = run
        self._ways: Iterator[tuple[float, bool]] = iter(ways)
        self.count = 0

    def check(self) -> None:
        self.count += 1
        late_s, is_told = next(self._ways)

        def execute() -> None:
            if is_told:
                raise Cancelled("as it was asked")

        moment_s = time.monotonic() - late_s
        time_rules._require_end(self._run, execute, (Cancelled,), lambda: moment_s, "its deadline")


def test_late_once_is_tried_again(run: LongRun) -> None:
    attempts = Attempts(run, (5.0, True), (0.0, True))
    time_rules._settle(attempts.check)
    assert attempts.count == 2


def test_late_every_time_breaks_the_rule(run: LongRun) -> None:
    with pytest.raises(Broken, match="250 ms are allowed"):
        time_rules._settle(Attempts(run, *[(5.0, True)] * 9).check)


def test_done_before_it_could_be_ended_says_nothing(run: LongRun) -> None:
    attempts = Attempts(run, (-1.0, False), (0.0, True))
    time_rules._settle(attempts.check)
    assert attempts.count == 2
    with pytest.raises(Declined, match="varies too much"):
        time_rules._settle(Attempts(run, *[(-1.0, False)] * 9).check)


def test_going_on_to_the_end_breaks_the_rule_at_once(run: LongRun) -> None:
    attempts = Attempts(run, (5.0, False), (0.0, True))
    with pytest.raises(Broken, match="was not ended"):
        time_rules._settle(attempts.check)
    assert attempts.count == 1

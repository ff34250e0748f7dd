"""The rules about deadlines on a busy machine. `test_faults.py` has drivers that violate them."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from neurald.hal.errors import Cancelled
from neurald.service.conformance.rules import time as time_rules
from neurald.service.conformance.rules.rule import Declined, RuleViolation
from neurald.service.conformance.rules.time import LongRun


@pytest.fixture
def run() -> LongRun:
    # The tests provide the executions, so these attributes are not used.
    anything: Any = None
    return LongRun(name="a chain", prepared=anything, request=anything, takes_s=1.0, max_late_s=0.25)


class Attempts:
    """A check whose executions end in given ways.

    Args:
        run: the long execution.
        ways: for each execution, the time from the deadline to its end, and whether it raises.
    """

    def __init__(self, run: LongRun, *ways: tuple[float, bool]) -> None:
        self._run = run
        self._ways: Iterator[tuple[float, bool]] = iter(ways)
        self.count = 0

    def check(self) -> None:
        self.count += 1
        late_s, raises = next(self._ways)

        def execute() -> None:
            if raises:
                raise Cancelled("cancelled")

        moment_s = time.monotonic() - late_s
        time_rules._require_end(self._run, execute, (Cancelled,), lambda: moment_s, "its deadline")


def test_one_late_end_is_repeated(run: LongRun) -> None:
    attempts = Attempts(run, (5.0, True), (0.0, True))
    time_rules._repeat_if_inconclusive(attempts.check)
    assert attempts.count == 2


def test_late_ends_in_all_attempts_violate_the_rule(run: LongRun) -> None:
    with pytest.raises(RuleViolation, match="250 ms are allowed"):
        time_rules._repeat_if_inconclusive(Attempts(run, *[(5.0, True)] * 9).check)


def test_an_execution_that_finishes_before_its_deadline_is_inconclusive(run: LongRun) -> None:
    attempts = Attempts(run, (-1.0, False), (0.0, True))
    time_rules._repeat_if_inconclusive(attempts.check)
    assert attempts.count == 2
    with pytest.raises(Declined, match="varies too much"):
        time_rules._repeat_if_inconclusive(Attempts(run, *[(-1.0, False)] * 9).check)


def test_an_execution_that_does_not_end_violates_the_rule_at_once(run: LongRun) -> None:
    attempts = Attempts(run, (5.0, False), (0.0, True))
    with pytest.raises(RuleViolation, match="did not end"):
        time_rules._repeat_if_inconclusive(attempts.check)
    assert attempts.count == 1

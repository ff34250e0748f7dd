"""Attackers have a quarter of the cores to themselves where there are enough."""

import os
from pathlib import Path

from faults.cores import busy_cores, cores_of_attackers
from support.waiting import wait_until


def test_few_cores_are_shared() -> None:
    assert not cores_of_attackers({0, 1, 2})


def test_attackers_have_a_quarter() -> None:
    assert cores_of_attackers({4, 5, 6, 7}) == {7}
    assert cores_of_attackers(range(16)) == {12, 13, 14, 15}


def children() -> list[int]:
    return [int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def test_shared_cores_are_kept_busy_at_idle_priority() -> None:
    before = children()
    with busy_cores():
        started = set(children()).difference(before)
        assert len(started) == len(os.sched_getaffinity(0))
        wait_until(lambda: {os.sched_getscheduler(each) for each in started} == {os.SCHED_IDLE}, timeout_s=30)
    assert not started.intersection(children())

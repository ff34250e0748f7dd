"""Attackers have a quarter of the cores to themselves where there are enough."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.attacks.cores import busy_cores, cores_of_attackers, end_idle_priority
from support.process.processes import children
from support.waiting import wait_until


def test_few_cores_are_shared() -> None:
    assert not cores_of_attackers({0, 1, 2})


def test_attackers_have_a_quarter() -> None:
    assert cores_of_attackers({4, 5, 6, 7}) == {7}
    assert cores_of_attackers(range(16)) == {12, 13, 14, 15}


#: A part of the program that keeps a core busy.
_COMPUTES = "os.getppid() == int(sys.argv[1])"


def test_shared_cores_are_kept_busy() -> None:
    with busy_cores():
        # The command line of a process is set a moment after it has begun.
        wait_until(lambda: len(children(_COMPUTES)) == len(os.sched_getaffinity(0)))
        started = children(_COMPUTES)
        assert {os.sched_getscheduler(each) for each in started} == {os.SCHED_OTHER}
    assert not started.intersection(children(""))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the privilege to raise a priority")
def test_idle_priority_ends_for_all_threads() -> None:
    program = (
        "import os, threading; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0));"
        "threading.Thread(target=input).start(); print(flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_idle_priority(process.pid)
        tasks = [int(each.name) for each in Path(f"/proc/{process.pid}/task").iterdir()]
        assert len(tasks) == 2
        assert {os.sched_getscheduler(task) for task in tasks} == {os.SCHED_OTHER}

"""Divides the cores of a machine between attackers and measured processes.

The processor time of an attacker's own computations is lost to all others, and a daemon cannot
prevent that. If there are enough cores, attackers therefore get separate ones, and the daemon and
its honest client get the others. If not, all of them share the cores, attackers at the policy
SCHED_IDLE, and the measurement without attack has ordinary programs beside it, one a core: what the
daemon does for attackers has ordinary priority, too, and whichever of two such threads wakes up
waits for the other's time slice. An attack is to add no more to that than it may.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

#: Minimum number of cores for a division.
_ENOUGH = 4
#: Attackers get one of this many cores.
_SHARE = 4


def cores_of_attackers(cores: Collection[int]) -> frozenset[int]:
    """Returns the cores reserved for attackers; none if they must share."""
    if len(cores) < _ENOUGH:
        return frozenset()
    return frozenset(sorted(cores)[-(len(cores) // _SHARE) :])


#: Computes until its parent ends.
_COMPUTES = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Keeps the cores of this process busy at ordinary priority during the block."""
    command = [sys.executable, "-c", _COMPUTES, str(os.getpid())]
    processes = [subprocess.Popen(command) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def end_idle_priority(process: int) -> None:
    """Gives the threads of a process ordinary priority, so that it soon does what it is told.

    Without the privilege to do so they stay at SCHED_IDLE.
    """
    for task in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))

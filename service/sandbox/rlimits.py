"""Limits resources of which no driver needs many, or any.

The limits on descriptors and memory are not set here, since they depend on the daemon's limits.
"""

import contextlib
import os
import resource
import signal
from pathlib import Path
from typing import Final

#: RLIMIT_MSGQUEUE has no name in Python.
_RLIMIT_MSGQUEUE = 12

_NONE = (
    resource.RLIMIT_CORE,  # a core file would contain the data of all clients
    _RLIMIT_MSGQUEUE,
    resource.RLIMIT_RTPRIO,  # a real-time thread can monopolise a core
)
#: How many processes and threads the user may have in addition to those that exist. A daemon needs
#: some hundreds, and the user may run several.
MAX_NEW_TASKS: Final = 4096


def limit_resources(new_tasks: int = MAX_NEW_TASKS) -> None:
    """Limits these resources for this process and its children.

    Args:
        new_tasks: how many processes and threads of the user this process may add to.

    Raises:
        OSError, ValueError: the kernel refuses.
    """
    for kind in _NONE:
        resource.setrlimit(kind, (0, 0))
    _limit_tasks(new_tasks)


def _limit_tasks(new_tasks: int) -> None:
    """Limits the number of the user's processes and threads beyond which this process starts none.

    The kernel counts all of them, also those outside of a container, and does not apply the limit
    to root.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = _visible_tasks() + new_tasks
    while hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))
        if _can_fork():
            resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
            return
        limit = 2 * limit + new_tasks
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))


def _visible_tasks() -> int:
    """Returns the number of processes and threads of this user that can be seen."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            # Processes may end meanwhile.
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.getuid():
                    count += len(os.listdir(Path(entry.path, "task")))  # noqa: PTH208 - names suffice
    return count


def _can_fork() -> bool:
    try:
        child = os.fork()
    except OSError:
        return False
    if child == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    # A process that was started with SIGCHLD ignored cannot wait for a child that has ended.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return True

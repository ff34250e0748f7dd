"""Ends a process with another one, such as the one that forked it."""

import ctypes
import os
import select
import signal
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.threads.checked_thread import CheckedThread

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends; exits if it has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def stop_with(process: int, stop: Callable[[], None]) -> None:
    """Calls `stop` when a process ends, even if it is killed.

    Raises:
        BadState: there is no such process, or it cannot be watched.
    """
    try:
        descriptor = os.pidfd_open(process)
    except OSError as error:
        raise BadState(f"cannot watch process {process} (--until-exit-of): {error.strerror}") from None

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)

    def watch() -> None:
        try:
            poll.poll()
        finally:
            os.close(descriptor)
        stop()

    CheckedThread(target=watch, name="neurald parent", daemon=True).start()

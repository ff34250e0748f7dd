"""A lock on a file that excludes other threads and processes, and that does not hinder forks.

`filelock` refuses forks of the process while another thread takes or releases a lock (from Python
3.12 on). An application may fork at any time, so what runs in its process uses `flock` itself. Such
locks end with the process that holds them.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from neurald.hal.process.fork import at_fork

#: Interval between attempts.
_POLL_S: Final = 0.02


class ProcessLock:
    """A lock on a file, which is created if it is missing. Used by one thread.

    Args:
        path: the path of the file, in a directory of the user alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        at_fork(self)

    def acquire(
        self, timeout_s: float | None = None, is_cancelled: Callable[[], bool] = lambda: False
    ) -> bool:
        """Waits for the lock; returns False if it is not free in time, or the wait is cancelled.

        Args:
            timeout_s: how long to wait; None for no limit, and then the wait cannot be cancelled.
            is_cancelled: returns True to end the wait.

        Raises:
            OSError: the file cannot be opened.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        if timeout_s is None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            return True
        end_s = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                left_s = end_s - time.monotonic()
                if left_s <= 0 or is_cancelled():
                    self.release()
                    return False
                time.sleep(min(_POLL_S, left_s))
            else:
                return True

    def release(self) -> None:
        """Releases the lock, if it is held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def forked(self) -> None:
        """Leaves the lock to the parent: it is free when its descriptor is closed everywhere."""
        self.release()

"""A lock on a file that excludes the threads of all processes, and that does not hinder forks.

`filelock` refuses forks of the process while another thread takes or releases a lock (from Python
3.12 on). An application may fork while the library compiles in the background, so the cache uses
`flock` itself. Its locks end with the process that holds them.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from neurald.hal.process.fork import at_fork
from neurald.hal.sync.cancellation import Cancellation

#: Interval between attempts.
_POLL_S: Final = 0.05


class CacheLock:
    """A lock on a file, which is created if it is missing. Used by one thread.

    Args:
        path: of the file, in a directory of the user alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        at_fork(self)

    def acquire(self, timeout_s: float, cancellation: Cancellation | None = None) -> bool:
        """Waits for the lock; returns False if it is not free in time, or the wait is cancelled.

        Raises:
            OSError: the file cannot be opened.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        end_s = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                left_s = end_s - time.monotonic()
                if left_s <= 0 or (cancellation is not None and cancellation.is_cancelled):
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
        """Leaves the lock to the parent: it is free when all copies of its descriptor are closed."""
        self.release()

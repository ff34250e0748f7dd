"""Starts other programs without `subprocess`, whose import takes 0.6 MB and two milliseconds."""

import os
import time
from collections.abc import Mapping
from typing import Final

from neurald.hal.process.fork import forkable_lock

#: The signal's number; importing `signal` would make enumerations of all signals.
_SIGKILL: Final = 9
#: How long a thread that waits sleeps between two looks, at first and at most, in seconds.
_LEAST_SLEEP_S, _MOST_SLEEP_S = 0.0005, 0.05


class SpawnedProcess:
    """Another program, in a process group of its own. Thread-safe.

    Its standard output is discarded. It inherits the descriptors that libraries have opened without
    the flag `O_CLOEXEC`, and should close them.

    Args:
        command: the path of the program, and its arguments.
        environment: its variables.
        stdin, stderr: descriptors that become its standard input and error.

    Raises:
        OSError: it cannot be started.

    Attributes:
        pid: the number of the process.
    """

    def __init__(
        self, command: list[str], environment: Mapping[str, str], *, stdin: int, stderr: int
    ) -> None:
        self._lock = forkable_lock()
        self._has_ended = False
        self.pid: Final = os.posix_spawn(
            command[0],
            command,
            environment,
            # In this order, either descriptor may itself be one of the first three.
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )

    @property
    def has_ended(self) -> bool:
        """True if it has ended; its number may belong to another process then."""
        with self._lock:
            return self._looked()

    def _looked(self) -> bool:
        """Looks whether it has ended. The caller holds the lock."""
        if not self._has_ended:
            try:
                self._has_ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            except ChildProcessError:
                # The application ignores SIGCHLD, or has waited for all of its children.
                self._has_ended = True
        return self._has_ended

    def wait(self, timeout_s: float = float("inf")) -> bool:
        """Waits until it has ended; returns False if it has not within the time."""
        end_s, sleep_s = time.monotonic() + timeout_s, _LEAST_SLEEP_S
        while not self.has_ended:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(sleep_s, left_s))
            sleep_s = min(2 * sleep_s, _MOST_SLEEP_S)
        return True

    def kill(self) -> None:
        """Kills it, unless it has ended."""
        with self._lock:
            if not self._looked():
                os.kill(self.pid, _SIGKILL)

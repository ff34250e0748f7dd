"""A process that has loaded a driver and waits to take the place of one that dies."""

from collections.abc import Callable
from typing import Final

from neurald.service.manager.supervision.driver_process import DriverProcess

#: How long a process that is not needed may take to end.
_STOP_S: Final = 5.0


class SpareProcess:
    """The spare process of a driver, if there is one.

    Args:
        create: starts a process, which waits for `DriverProcess.begin`.
    """

    def __init__(self, create: Callable[[], DriverProcess]) -> None:
        self._create = create
        self._process: DriverProcess | None = None
        self._ending: set[DriverProcess] = set()

    @property
    def pid(self) -> int | None:
        """The id of the process; None without one, or before it was started."""
        return None if self._process is None else self._process.pid

    @property
    def is_gone(self) -> bool:
        """True if no process is left, not even one that is about to end."""
        return self._process is None and not self._ending

    def prepare(self) -> None:
        """Starts the process, unless there is one.

        Raises:
            OSError: it cannot be started.
        """
        if self._process is None:
            self._process = self._create()

    def take(self) -> DriverProcess | None:
        """Hands the process over; returns None without one."""
        process, self._process = self._process, None
        return process

    def drop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            self._ending.add(process)
            process.stop(_STOP_S)

    def kill(self) -> None:
        """Ends the process at once."""
        for process in (self._process, *self._ending):
            if process is not None:
                process.kill()

    def ended(self, process: DriverProcess) -> bool:
        """Notes that an untaken process of `create` has ended; returns whether by itself."""
        self._ending.discard(process)
        if process is not self._process:
            return False
        self._process = None
        return True

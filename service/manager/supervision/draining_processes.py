"""The processes of a driver that finish their calls, and then end."""

from collections.abc import Iterator, Mapping
from typing import Final

from neurald.service.daemon import notifications
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.supervision.driver_process import DriverProcess
from neurald.service.manager.supervision.timers import NamedTimers

#: Time after the drain time in which a process that stops must have ended.
STOP_SLACK_S: Final = 5.0


class DrainingProcesses:
    """The processes of a driver that drain, each of which is terminated if it becomes silent.

    Args:
        timers: the timers of the driver.
    """

    def __init__(self, timers: NamedTimers) -> None:
        self._timers = timers
        self._processes: set[DriverProcess] = set()

    def __bool__(self) -> bool:
        return bool(self._processes)

    def __iter__(self) -> Iterator[DriverProcess]:
        return iter(self._processes)

    def drain(self, process: DriverProcess, settings: DriverSettings) -> None:
        """Tells a process to end when it has finished its calls."""
        self._processes.add(process)
        process.stop((settings.drain_s or 0.0) + STOP_SLACK_S)

    def find(self, pid: int) -> DriverProcess | None:
        """Returns the process that has this id; None if none of them has."""
        return next((each for each in self._processes if each.pid == pid), None)

    def notified(self, process: DriverProcess, values: Mapping[str, str], watchdog_s: float) -> None:
        """Handles a notification of a process that drains, or that has said that it begins to.

        Args:
            process: the process.
            values: the notification.
            watchdog_s: how long the process may be silent after it.
        """
        name = _timer(process)
        if notifications.STOPPING in values:
            self._timers.cancel(name)  # it begins, or it is done and ends
        elif notifications.WATCHDOG in values:
            self._timers.arm(name, watchdog_s, process.abort)

    def ended(self, process: DriverProcess) -> bool:
        """Notes that a process of the driver has ended; returns whether it was one of these."""
        self._timers.cancel(_timer(process))
        is_one = process in self._processes
        self._processes.discard(process)
        return is_one


def _timer(process: DriverProcess) -> str:
    """Returns the name of the timer that limits the silence of a process."""
    return f"drain {id(process)}"

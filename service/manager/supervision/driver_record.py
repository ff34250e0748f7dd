"""The state of a driver, and what has happened to it so far, for its log and its status."""

import logging
from collections.abc import Mapping
from typing import Final

from neurald.service.logs.formatters import DRIVER
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.state import DriverMetrics, DriverState, DriverStatus, PatternStatus
from neurald.service.manager.supervision.driver_process import DriverProcess
from neurald.service.manager.supervision.process_report import reported_metrics

_LOG: Final = logging.getLogger(__name__)

#: The levels of log lines about states that an operator should know of.
_LEVELS: Final = {DriverState.BACKOFF: logging.WARNING, DriverState.QUARANTINED: logging.ERROR}


class DriverRecord:
    """The state of a driver, and what has happened to it.

    Args:
        name: the name of the driver.
        address: the address at which clients of this host find it.

    Attributes:
        name: the name of the driver.
        state: what it does; see `enter`.
        reason: why it is in this state; empty if nothing went wrong.
        starts, deaths, refusals: how often a process of it was started, how often one ended by
            itself, and how often a client was refused.
        sessions: the number of sessions that its process has reported last.
        is_unable: whether its last process ended before it was ready.
        last_exit: how its last process ended; empty if none did.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name, self._address = name, address
        self.state = DriverState.STOPPED
        self.reason = ""
        self.starts = self.deaths = self.refusals = self.sessions = 0
        self.is_unable = False
        self.last_exit = ""
        self._quarantines = 0
        self._last_lines: tuple[str, ...] = ()
        self._metrics: DriverMetrics | None = None

    def enter(self, state: DriverState, reason: str = "") -> None:
        """Changes the state, and logs that."""
        if state is DriverState.QUARANTINED is not self.state:
            self._quarantines += 1
        if (state, reason) != (self.state, self.reason):
            self.log(f"{state}: {reason}" if reason else str(state), _LEVELS.get(state, logging.INFO))
        self.state, self.reason = state, reason

    def log(self, text: str, level: int = logging.INFO) -> None:
        """Writes a line about the driver to the log."""
        _LOG.log(level, "%s", text, extra={DRIVER: self.name})

    def note_report(self, values: Mapping[str, str]) -> None:
        """Notes what its process has done, if a notification says that."""
        self._metrics = reported_metrics(values, self._metrics)

    def note_lines(self, process: DriverProcess) -> None:
        """Notes the last lines of a process that has ended."""
        self._last_lines = tuple(process.last_lines)

    def status(
        self,
        settings: DriverSettings,
        process: DriverProcess | None,
        spare: int | None,
        patterns: tuple[PatternStatus, ...],
    ) -> DriverStatus:
        """Describes the driver.

        Args:
            settings: the settings of the driver.
            process: its process; None if it does not run.
            spare: the id of the process that waits to take its place; None without one.
            patterns: the patterns of operations that killed it.
        """
        return DriverStatus(
            name=self.name,
            address=self._address,
            listen=settings.listen,
            state=self.state,
            reason=self.reason,
            process=process.pid if process is not None else None,
            spare=spare,
            sessions=self.sessions if process is not None else None,
            sandbox=process.sandbox if process is not None else None,
            sandbox_missing=process.sandbox_missing if process is not None else (),
            starts=self.starts,
            deaths=self.deaths,
            last_exit=self.last_exit,
            last_lines=tuple(process.last_lines) if process is not None else self._last_lines,
            quarantines=self._quarantines,
            refusals=self.refusals,
            is_unable=process is None and self.is_unable,
            metrics=self._metrics if process is not None else None,
            patterns=patterns,
        )

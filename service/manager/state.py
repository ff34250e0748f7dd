"""States of a supervised driver, and its description for `neurald status`."""

from enum import StrEnum

import msgspec


class DriverState(StrEnum):
    """What a supervised driver does.

    STOPPED drivers start at the next connection, those in BACKOFF do so after a pause, and those in
    QUARANTINED only when an operator restarts them.
    """

    STOPPED = "STOPPED"
    STARTING = "STARTING"
    READY = "READY"
    DRAINING = "DRAINING"
    BACKOFF = "BACKOFF"
    QUARANTINED = "QUARANTINED"


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A supervised driver.

    Attributes:
        name: from the configuration.
        address: where clients find it.
        state: what it does.
        reason: why it is in this state; empty if nothing went wrong.
        process: id of its process; None if it does not run.
        sessions: open sessions; None if it does not run.
        sandbox: what restricts its process: "full", "partial" or "off"; None if it does not run.
        sandbox_missing: the parts of the sandbox that are not in force.
        starts, deaths: how often it was started, and how often it ended by itself.
        last_exit: how the process before ended, such as "signal SIGKILL"; empty if there was none.
        last_lines: the last lines that the process, or the one before, wrote to stderr.
    """

    name: str
    address: str
    state: DriverState
    reason: str
    process: int | None
    sessions: int | None
    sandbox: str | None
    sandbox_missing: tuple[str, ...]
    starts: int
    deaths: int
    last_exit: str
    last_lines: tuple[str, ...]


class ManagerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A service manager.

    Attributes:
        process: id of its process.
        directory: of its sockets.
        drivers: that it supervises.
    """

    process: int
    directory: str
    drivers: tuple[DriverStatus, ...]

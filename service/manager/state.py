"""States of a supervised driver, and its description for `neurald status`."""

from enum import StrEnum
from typing import Annotated, Self

import msgspec

from neurald.hal.crashes.records import CrashEntry


class DriverState(StrEnum):
    """The state of a supervised driver.

    STOPPED drivers start at the next connection, those in BACKOFF do so after a pause, and those in
    QUARANTINED only when an operator restarts them.
    """

    STOPPED = "STOPPED"
    STARTING = "STARTING"
    READY = "READY"
    DRAINING = "DRAINING"
    BACKOFF = "BACKOFF"
    QUARANTINED = "QUARANTINED"


class PatternStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern of operations that killed a driver.

    Attributes:
        id: the ID of the pattern, for `neurald forgive`.
        operations: the operations of the pattern, for display.
        version: the version of the driver.
        deaths: how many processes of the driver died of it.
        is_refused: it is no longer given to this version of the driver.
        is_certain: False as long as other models were at work at each of the deaths, too.
        phase: what the driver did with it when it died last.
        cause: how it died last.
        at: when, in seconds since 1970.
        narrowing: what is known of the search for the operations that kill; empty if there was
            none yet.
    """

    id: str
    operations: str
    version: str
    deaths: int
    is_refused: bool
    is_certain: bool
    phase: str
    cause: str
    at: float
    narrowing: str

    @classmethod
    def of(cls, entry: CrashEntry) -> Self:
        """Describes an entry."""
        return cls(
            id=entry.pattern.digest,
            operations=entry.pattern.text,
            version=entry.version,
            deaths=entry.deaths,
            is_refused=entry.is_refused,
            is_certain=entry.is_certain,
            phase=entry.phase,
            cause=entry.cause,
            at=entry.at,
            narrowing=entry.narrowing,
        )


class DriverMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a driver's process since it started, as it reports.

    Attributes:
        executions: how many have ended.
        busy_s, queue_s: the time of executions on the device, and before it was free, all together.
        waiting: how many executions wait.
        events: name, reason and number of each kind of
            `neurald.hal.accounting.events.CountedEvent`.
    """

    executions: Annotated[int, msgspec.Meta(ge=0)]
    busy_s: Annotated[float, msgspec.Meta(ge=0)]
    queue_s: Annotated[float, msgspec.Meta(ge=0)]
    waiting: Annotated[int, msgspec.Meta(ge=0)]
    events: Annotated[tuple[tuple[str, str, int], ...], msgspec.Meta(max_length=64)] = ()


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A supervised driver.

    Attributes:
        name: the name from the configuration.
        address: where clients of this host find it.
        listen: where clients with certificates find it, also those of other hosts; empty for
            nowhere.
        state: what it does.
        reason: why it is in this state; empty if nothing went wrong.
        process: id of its process; None if it does not run.
        spare: id of the process that waits to take its place; None without one.
        sessions: open sessions; None if it does not run.
        sandbox: what restricts its process: "full", "partial" or "off"; None if it does not run.
        sandbox_missing: the parts of the sandbox that are not in force.
        starts, deaths: how often it was started, and how often it ended by itself.
        last_exit: how the process before ended, such as "signal SIGKILL"; empty if there was none.
        last_lines: the last lines that the process, or the one before, wrote to stderr.
        patterns: the patterns of operations that killed it.
        quarantines, refusals: how often it was quarantined, and how often clients were refused
            since it could not start.
        is_unable: its last process ended before it could serve the device.
        metrics: what its process has done; None if it does not run, or has not reported.
    """

    name: str
    address: str
    listen: str = ""
    state: DriverState
    reason: str
    process: int | None
    spare: int | None = None
    sessions: int | None
    sandbox: str | None
    sandbox_missing: tuple[str, ...]
    starts: int
    deaths: int
    last_exit: str
    last_lines: tuple[str, ...]
    patterns: tuple[PatternStatus, ...] = ()
    quarantines: int = 0
    refusals: int = 0
    is_unable: bool = False
    metrics: DriverMetrics | None = None


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a model that the execution service serves, or a model that it could not load.

    Attributes:
        name: the name of the model.
        version: the version of the model; empty if it could not be loaded.
        is_ready: whether it can be run now.
        reason: why not; also why it could not be loaded again, if it could not.
        processes: the ids of its workers.
        devices: the devices that run it.
    """

    name: str
    version: str
    is_ready: bool
    reason: str = ""
    processes: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The execution service.

    Attributes:
        process: id of its front end; None if it does not run now.
        addresses: where it listens, by protocol.
        is_ready: whether all models that must be there can be run now.
        models: the models that it serves.
        failure: why it could not start; empty if it could.
    """

    process: int | None
    addresses: dict[str, str] = {}
    is_ready: bool = False
    models: tuple[ModelStatus, ...] = ()
    failure: str = ""


class ManagerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A service manager.

    Attributes:
        process: id of its process.
        directory: the directory of its sockets.
        drivers: the drivers that it supervises.
        service: the execution service; None if there is none.
        is_of_application: whether an application has started it, so that `neurald serve` may take
            its place.
    """

    process: int
    directory: str
    drivers: tuple[DriverStatus, ...]
    service: ServiceStatus | None = None
    is_of_application: bool = False

"""The states and resources of drivers at a moment, for `neurald top` and the live page."""

import msgspec

from neurald.service.console.process_usage import UsageMeter
from neurald.service.manager.state import DriverStatus, ManagerStatus


class DriverSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A driver with what its processes use; what is not known is None.

    Attributes:
        driver: its name.
        state: what it does, a `DriverState`.
        process: id of its process.
        cores, memory_bytes, processes: see `ProcessUsage`.
        sessions: open sessions of clients.
        starts, deaths: how often it was started, and how often it ended by itself.
        reason: why it is in this state, or how its process ended before.
        sandbox: what restricts its process.
        sandbox_missing: parts of the sandbox that are not in force.
        executions: how many have ended.
        busy_s, queue_s: time of executions on the device, and before it was free.
        waiting: executions that wait.
    """

    driver: str
    state: str
    process: int | None
    cores: float | None
    memory_bytes: int | None
    processes: int | None
    sessions: int | None
    starts: int
    deaths: int
    reason: str
    sandbox: str | None
    sandbox_missing: tuple[str, ...]
    executions: int | None
    busy_s: float | None
    queue_s: float | None
    waiting: int | None


def driver_snapshots(status: ManagerStatus, meter: UsageMeter) -> list[DriverSnapshot]:
    """Describes the drivers of a manager with what they use."""
    return [_snapshot(each, meter) for each in status.drivers]


def _snapshot(driver: DriverStatus, meter: UsageMeter) -> DriverSnapshot:
    usage = None if driver.process is None else meter.measure(driver.process)
    done = driver.metrics
    return DriverSnapshot(
        driver=driver.name,
        state=driver.state.value,
        process=driver.process,
        cores=None if usage is None else round(usage.cores, 3),
        memory_bytes=None if usage is None else usage.memory_bytes,
        processes=None if usage is None else usage.processes,
        sessions=driver.sessions,
        starts=driver.starts,
        deaths=driver.deaths,
        reason=driver.reason or driver.last_exit,
        sandbox=driver.sandbox,
        sandbox_missing=driver.sandbox_missing,
        executions=None if done is None else done.executions,
        busy_s=None if done is None else done.busy_s,
        queue_s=None if done is None else done.queue_s,
        waiting=None if done is None else done.waiting,
    )

"""The metrics of a service manager."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from neurald.hal.accounting.exposition import Metric, Sample, event_metric
from neurald.service.console.process_usage import ProcessUsage, UsageMeter
from neurald.service.manager.state import DriverMetrics, DriverState, DriverStatus, ManagerStatus

#: Metrics of a driver: name, kind, description, value; None if there is none now.
_DRIVER: Final[tuple[tuple[str, str, str, Callable[[DriverStatus], float | None]], ...]] = (
    (
        "neurald_driver_starts_total",
        "counter",
        "How often a process of the driver was started",
        lambda each: each.starts,
    ),
    (
        "neurald_driver_deaths_total",
        "counter",
        "How often a process of the driver ended by itself or was ended since it hung",
        lambda each: each.deaths,
    ),
    (
        "neurald_driver_quarantines_total",
        "counter",
        "How often the driver was quarantined since it kept dying",
        lambda each: each.quarantines,
    ),
    (
        "neurald_driver_refusals_total",
        "counter",
        "How often a client was refused since the driver could not start",
        lambda each: each.refusals,
    ),
    ("neurald_driver_sessions", "gauge", "Open sessions", lambda each: each.sessions),
)
#: Metrics that a driver's process reports.
_REPORTED: Final[tuple[tuple[str, str, str, Callable[[DriverMetrics], float]], ...]] = (
    (
        "neurald_driver_executions_total",
        "counter",
        "Executions that have ended",
        lambda each: each.executions,
    ),
    (
        "neurald_driver_busy_seconds_total",
        "counter",
        "Time of executions on the device, all together",
        lambda each: each.busy_s,
    ),
    (
        "neurald_driver_queue_seconds_total",
        "counter",
        "Time that executions waited for the device, all together",
        lambda each: each.queue_s,
    ),
    ("neurald_driver_waiting_executions", "gauge", "Executions that wait", lambda each: each.waiting),
)


class ManagerMetrics:
    """Describes a service manager as metrics.

    Args:
        status: returns its status.
        meter: measures processes.
    """

    def __init__(self, status: Callable[[], ManagerStatus], meter: UsageMeter | None = None) -> None:
        self._status = status
        self._meter = meter or UsageMeter()

    def metrics(self) -> list[Metric]:
        """Returns the metrics as they are now."""
        status = self._status()
        drivers = status.drivers
        return [
            Metric(
                name="neurald_driver_state",
                kind="gauge",
                description="1 for the state of the driver, 0 for all others",
                samples=[
                    Sample({"driver": each.name, "state": state.value.lower()}, int(each.state is state))
                    for each in drivers
                    for state in DriverState
                ],
            ),
            *(
                _metric(name, kind, text, [(each, value(each)) for each in drivers])
                for name, kind, text, value in _DRIVER
            ),
            *(
                _metric(
                    name,
                    kind,
                    text,
                    [(each, None if each.metrics is None else value(each.metrics)) for each in drivers],
                )
                for name, kind, text, value in _REPORTED
            ),
            Metric(
                name="neurald_driver_events_total",
                kind="counter",
                description="Events of the driver's process, with the reason",
                samples=[
                    Sample({"driver": each.name, "event": event, "reason": reason}, count)
                    for each in drivers
                    for event, reason, count in (each.metrics.events if each.metrics else ())
                ],
            ),
            *self._usage(drivers),
            event_metric(),
        ]

    def _usage(self, drivers: Sequence[DriverStatus]) -> list[Metric]:
        """Returns what the processes of the drivers use of the machine."""
        used: list[tuple[DriverStatus, ProcessUsage | None]] = [
            (each, None if each.process is None else self._meter.measure(each.process)) for each in drivers
        ]
        return [
            _metric(
                "neurald_driver_memory_bytes",
                "gauge",
                "Resident memory of the driver's processes",
                [(each, None if usage is None else usage.memory_bytes) for each, usage in used],
            ),
            _metric(
                "neurald_driver_processor_ratio",
                "gauge",
                "Processors that the driver's processes used since the last time; 1 is a whole one",
                [(each, None if usage is None else usage.cores) for each, usage in used],
            ),
        ]


def _metric(name: str, kind: str, text: str, values: Sequence[tuple[DriverStatus, Any]]) -> Metric:
    samples = [Sample({"driver": each.name}, value) for each, value in values if value is not None]
    return Metric(name=name, kind=kind, description=text, samples=samples)

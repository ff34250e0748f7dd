import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from neurald.hal.accounting.exposition import event_metric, exposition
from neurald.service.console.process_usage import ProcessUsage, UsageMeter
from neurald.service.inference.models.statistics.latencies import MeasuredLatencies
from neurald.service.inference.models.statistics.statistics import Latencies, Statistics
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.calls.host_usage import HostUsage
from neurald.service.inference.server.http.metrics import metrics_text
from neurald.service.manager.state import DriverMetrics, DriverState, DriverStatus, ManagerStatus
from neurald.service.telemetry.dashboard import dashboard
from neurald.service.telemetry.manager_metrics import ManagerMetrics

RUNNING = DriverStatus(
    name="gpu",
    address="unix:///x",
    state=DriverState.READY,
    reason="",
    process=17,
    sessions=2,
    sandbox="full",
    sandbox_missing=(),
    starts=3,
    deaths=2,
    last_exit="",
    last_lines=(),
    quarantines=1,
    refusals=4,
    metrics=DriverMetrics(
        executions=10,
        busy_s=1.5,
        queue_s=0.25,
        waiting=1,
        events=(("deadline", "MissedDeadlineTransient", 7),),
    ),
)
STOPPED = DriverStatus(
    name='a "b"',
    address="",
    state=DriverState.QUARANTINED,
    reason="it died",
    process=None,
    sessions=None,
    sandbox=None,
    sandbox_missing=(),
    starts=0,
    deaths=0,
    last_exit="",
    last_lines=(),
)


class Meter(UsageMeter):
    def measure(self, process: int) -> ProcessUsage | None:
        assert process == 17
        return ProcessUsage(cores=0.5, memory_bytes=1 << 20, processes=1)


def text() -> str:
    status = ManagerStatus(process=1, directory="/x", drivers=(RUNNING, STOPPED))
    return exposition(ManagerMetrics(lambda: status, Meter()).metrics())


def test_drivers_are_described() -> None:
    lines = text().splitlines()
    for line in (
        'neurald_driver_state{driver="gpu",state="ready"} 1',
        'neurald_driver_state{driver="gpu",state="backoff"} 0',
        'neurald_driver_state{driver="a \\"b\\"",state="quarantined"} 1',
        'neurald_driver_starts_total{driver="gpu"} 3',
        'neurald_driver_quarantines_total{driver="gpu"} 1',
        'neurald_driver_refusals_total{driver="gpu"} 4',
        'neurald_driver_sessions{driver="gpu"} 2',
        'neurald_driver_executions_total{driver="gpu"} 10',
        'neurald_driver_busy_seconds_total{driver="gpu"} 1.5',
        'neurald_driver_events_total{driver="gpu",event="deadline",reason="MissedDeadlineTransient"} 7',
        'neurald_driver_memory_bytes{driver="gpu"} 1048576',
        'neurald_driver_processor_ratio{driver="gpu"} 0.5',
    ):
        assert line in lines
    # What does not run has no such values.
    assert not any(line.startswith('neurald_driver_sessions{driver="a') for line in lines)


def test_the_text_has_the_format_of_prometheus() -> None:
    named = set()
    for line in text().splitlines():
        if line.startswith("# "):
            named.add(line.split()[2])
            continue
        match = re.fullmatch(
            r'([a-z_]+)(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? [0-9.e+-]+', line
        )
        assert match, line
        assert match[1] in named


def test_the_dashboard_asks_for_all_metrics() -> None:
    measured = MeasuredLatencies(histogram=True, quantiles=(0.5,))
    statistics = Statistics(latencies=Latencies(measured, (1.0,)))
    version: Any = SimpleNamespace(
        name="m", version=1, statistics=statistics, waiting=0, is_ready=True, processes=()
    )
    texts = text(), metrics_text([version], RequestBudget(1), HostUsage()), exposition([event_metric()])
    known = set(re.findall(r"^# TYPE (\S+)", "".join(texts), re.MULTILINE))
    asked = re.findall(r"(?:neurald|nv)_\w+", json.dumps(dashboard()))
    assert {each.removesuffix("_bucket") for each in asked} == known
    stored = Path(__file__).parents[3] / "docs" / "grafana" / "neurald.json"
    assert json.loads(stored.read_text()) == dashboard()

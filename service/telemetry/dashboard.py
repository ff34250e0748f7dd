"""Builds the dashboard for Grafana, docs/grafana/neurald.json.

python -m neurald.service.telemetry.dashboard > docs/grafana/neurald.json
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

#: Title, unit, and queries with their legends.
_PANELS: Final[tuple[tuple[str, str, Sequence[tuple[str, str]]], ...]] = (
    ("State of drivers", "short", [("neurald_driver_state == 1", "{{driver}} {{state}}")]),
    ("Executions", "ops", [("rate(neurald_driver_executions_total[1m])", "{{driver}}")]),
    (
        "Time of an execution",
        "s",
        [
            (
                "rate(neurald_driver_busy_seconds_total[1m]) / rate(neurald_driver_executions_total[1m])",
                "{{driver}} on the device",
            ),
            (
                "rate(neurald_driver_queue_seconds_total[1m]) / rate(neurald_driver_executions_total[1m])",
                "{{driver}} in the queue",
            ),
        ],
    ),
    (
        "Queues and sessions",
        "short",
        [
            ("neurald_driver_waiting_executions", "{{driver}} waiting"),
            ("neurald_driver_sessions", "{{driver}} sessions"),
        ],
    ),
    (
        "Starts, deaths, quarantines",
        "short",
        [
            ("increase(neurald_driver_starts_total[5m])", "{{driver}} starts"),
            ("increase(neurald_driver_deaths_total[5m])", "{{driver}} deaths"),
            ("increase(neurald_driver_quarantines_total[5m])", "{{driver}} quarantines"),
            ("increase(neurald_driver_refusals_total[5m])", "{{driver}} refusals"),
        ],
    ),
    (
        "Deadlines, refusals, hangs",
        "short",
        [("increase(neurald_driver_events_total[5m])", "{{driver}} {{event}} {{reason}}")],
    ),
    ("Memory", "bytes", [("neurald_driver_memory_bytes", "{{driver}}")]),
    ("Processors", "short", [("neurald_driver_processor_ratio", "{{driver}}")]),
)


def dashboard() -> dict[str, Any]:
    """Returns the dashboard."""
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "title": "neurald",
        "uid": "neurald",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": [
            {
                "id": number + 1,
                "type": "timeseries",
                "title": title,
                "datasource": source,
                "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
                "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
                "targets": [
                    {"refId": chr(65 + place), "expr": query, "legendFormat": legend, "datasource": source}
                    for place, (query, legend) in enumerate(queries)
                ],
            }
            for number, (title, unit, queries) in enumerate(_PANELS)
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dashboard(), indent=2) + "\n")

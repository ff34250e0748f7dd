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
    (
        "Requests to models",
        "reqps",
        [
            ("rate(nv_inference_request_success[1m])", "{{model}} {{version}} answered"),
            ("rate(nv_inference_request_failure[1m])", "{{model}} {{version}} failed {{reason}}"),
            ("rate(neurald_inference_refused_total[1m])", "{{model}} {{version}} refused"),
            ("rate(neurald_inference_retries_total[1m])", "{{model}} {{version}} run again"),
        ],
    ),
    (
        "Time of a request",
        "µs",
        [
            (
                f"rate(nv_inference_{part}_duration_us[1m]) / rate(nv_inference_request_success[1m])",
                f"{{{{model}}}} {{{{version}}}} {legend}",
            )
            for part, legend in (
                ("request", "in all"),
                ("queue", "in the queue"),
                ("compute_input", "for inputs"),
                ("compute_infer", "in the model"),
                ("compute_output", "for outputs"),
            )
        ],
    ),
    (
        "Slow requests",
        "ms",
        [
            (
                "histogram_quantile(0.99, rate(nv_inference_first_response_histogram_ms_bucket[5m]))",
                "{{model}} {{version}} 99 % of five minutes",
            ),
            *(
                (
                    f"nv_inference_{part}_summary_us / 1000",
                    f"{{{{model}}}} {{{{version}}}} {legend} {{{{quantile}}}}",
                )
                for part, legend in (
                    ("request", "in all"),
                    ("queue", "in the queue"),
                    ("compute_input", "for inputs"),
                    ("compute_infer", "in the model"),
                    ("compute_output", "for outputs"),
                )
            ),
        ],
    ),
    (
        "Requests in a run",
        "short",
        [("rate(nv_inference_count[1m]) / rate(nv_inference_exec_count[1m])", "{{model}} {{version}}")],
    ),
    (
        "Models",
        "short",
        [
            ("neurald_model_ready", "{{model}} {{version}} ready"),
            ("neurald_model_workers", "{{model}} {{version}} workers"),
            ("nv_inference_pending_request_count", "{{model}} {{version}} waiting"),
        ],
    ),
    ("Memory of requests", "bytes", [("neurald_request_bytes", "{{instance}}")]),
    (
        "Memory of front ends",
        "bytes",
        [
            ("neurald_front_end_resident_bytes", "{{instance}} resident"),
            ("neurald_front_end_live_bytes", "{{instance}} in use"),
        ],
    ),
    ("Processors of hosts", "percentunit", [("nv_cpu_utilization", "{{instance}}")]),
    (
        "Memory of hosts",
        "bytes",
        [
            ("nv_cpu_memory_total_bytes", "{{instance}} total"),
            ("nv_cpu_memory_used_bytes", "{{instance}} in use"),
        ],
    ),
    (
        "Fallbacks, cache misses and deadlines of applications",
        "short",
        [("increase(neurald_events_total[5m])", "{{instance}} {{event}} {{reason}}")],
    ),
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

"""Writes traces in the JSON format of Chrome, which Perfetto reads."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from neurald._version import __version__
from neurald.runtime.tracing.span import Span


def trace_document(spans: Sequence[Span], trace_id: str, dropped: int = 0) -> bytes:
    """Returns the document of a trace.

    An arrow leads from the call of a daemon to what the daemon did.

    Args:
        spans: in any order.
        trace_id: of the trace.
        dropped: how many spans are missing.
    """
    own = os.getpid()
    hosts = {span.process: str(span.details["host"]) for span in spans if "host" in span.details}
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": process,
            "args": {"name": _name_of(process, own, hosts)},
        }
        for process in sorted({span.process for span in spans})
    ]
    # A span that contains another one comes before it.
    for span in sorted(spans, key=lambda each: (each.start_ns, -each.end_ns)):
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": span.category,
                "ts": span.start_ns / 1e3,
                "dur": (span.end_ns - span.start_ns) / 1e3,
                "pid": span.process,
                "tid": span.thread,
                "args": {"call": span.call, "trace": trace_id, **span.details},
            }
        )
        if "exchange" in span.details:
            arrow = "f" if span.category == "daemon" else "s"
            events.append(
                {
                    "ph": arrow,
                    "name": "call of a daemon",
                    "cat": "daemon",
                    "id": f"{trace_id}.{span.details['exchange']}",
                    "ts": span.start_ns / 1e3,
                    "pid": span.process,
                    "tid": span.thread,
                    **({"bp": "e"} if arrow == "f" else {}),
                }
            )
    return msgspec.json.encode(
        {
            "traceEvents": events,
            "displayTimeUnit": "ns",
            "otherData": {"trace_id": trace_id, "neurald": __version__, "dropped_spans": dropped},
        }
    )


def _name_of(process: int, own: int, hosts: Mapping[int, str]) -> str:
    if process == own:
        return "application"
    return f"neurald daemon at {hosts[process]}" if process in hosts else "neurald daemon"

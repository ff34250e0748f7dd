"""Writes traces in the JSON format of Chrome, which Perfetto reads."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from neurald._version import __version__
from neurald.runtime.tracing.span import Span

_ENCODER: Final = msgspec.json.Encoder()


def trace_document(spans: Sequence[Span], trace_id: str, dropped: int = 0) -> bytes:
    """Returns the document of a trace.

    An arrow leads from the call of a daemon to what the daemon did. Times are in microseconds.

    Args:
        spans: the spans, in any order.
        trace_id: the trace ID of the trace.
        dropped: how many spans are missing.
    """
    own = os.getpid()
    names = {own: "application"}
    for span in spans:
        if "host" in span.details:
            names[span.process] = f"neurald daemon at {span.details['host']}"
        elif "role" in span.details:
            names[span.process] = f"neurald {span.details['role']}"
    # Written one by one, since the garbage collector takes long for a million dictionaries.
    events: list[msgspec.Raw] = []

    def write(event: Mapping[str, Any]) -> None:
        events.append(msgspec.Raw(_ENCODER.encode(event)))

    for process in sorted({span.process for span in spans}):
        name = names.get(process, "neurald daemon")
        write({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}})
    # A span precedes those that it contains.
    ordered = sorted(spans, key=lambda each: (each.start_ns, -each.end_ns))
    overlapping = _overlapping(ordered)
    for number, span in enumerate(ordered):
        event: dict[str, Any] = {
            "ph": "X",
            "name": span.name,
            "cat": span.category,
            "ts": span.start_ns / 1e3,
            "dur": (span.end_ns - span.start_ns) / 1e3,
            "pid": span.process,
            "tid": span.thread,
            "args": {"call": span.call, "trace": trace_id, **span.details},
        }
        if number in overlapping:
            del event["dur"]
            event |= {"ph": "b", "id": f"{trace_id}.{number}"}
            write(event)
            write({**event, "ph": "e", "ts": span.end_ns / 1e3, "args": {}})
        else:
            write(event)
        if "exchange" in span.details:
            arrow = "f" if span.category == "daemon" else "s"
            write(
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


def _overlapping(spans: Sequence[Span]) -> set[int]:
    """Returns numbers of spans that begin inside another one of their thread, and end after it.

    Such as waits for a thread that does something else meanwhile. Viewers show spans of a thread as
    a stack, and those that are on none as asynchronous ones.

    Args:
        spans: the spans in the order of their beginnings, longer ones first.
    """
    found: set[int] = set()
    ends: dict[tuple[int, int], list[int]] = {}
    for number, span in enumerate(spans):
        stack = ends.setdefault((span.process, span.thread), [])
        while stack and stack[-1] <= span.start_ns:
            stack.pop()
        if stack and span.end_ns > stack[-1]:
            found.add(number)
        else:
            stack.append(span.end_ns)
    return found

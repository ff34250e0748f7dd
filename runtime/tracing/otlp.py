"""Writes traces in OTLP's JSON format, which collectors of OpenTelemetry read from files."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from neurald._version import __version__
from neurald.runtime.tracing.span import Span

#: OpenTelemetry's kinds of spans.
_INTERNAL, _SERVER = 1, 2


def otlp_document(spans: Sequence[Span], trace_id: str) -> bytes:
    """Returns the document of a trace: a resource for each process, with its spans.

    The parent of a span is the smallest one of the same call that contains it.

    Args:
        spans: in any order.
        trace_id: 32 hexadecimal digits.
    """
    # Spans are on a clock of their own, which begins at any time.
    offset = time.time_ns() - time.monotonic_ns()
    ordered = sorted(spans, key=lambda each: (each.start_ns, -each.end_ns))
    by_process: dict[int, list[dict[str, Any]]] = {}
    open_spans: dict[int, list[tuple[int, str]]] = {}
    for number, span in enumerate(ordered, 1):
        identity = f"{number:016x}"
        parents = open_spans.setdefault(span.call, [])
        while parents and parents[-1][0] < span.end_ns:
            parents.pop()
        entry = {
            "traceId": trace_id,
            "spanId": identity,
            "name": span.name,
            "kind": _SERVER if span.category == "daemon" else _INTERNAL,
            "startTimeUnixNano": str(span.start_ns + offset),
            "endTimeUnixNano": str(span.end_ns + offset),
            "attributes": _attributes({"category": span.category, "call": span.call, **span.details}),
        }
        # What belongs to no call of the application has no common parent.
        if parents and span.call:
            entry["parentSpanId"] = parents[-1][1]
        if "error" in span.details:
            entry["status"] = {"code": 2, "message": str(span.details["error"])}
        by_process.setdefault(span.process, []).append(entry)
        parents.append((span.end_ns, identity))
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": _attributes({"service.name": "neurald", "process.pid": process})
                    },
                    "scopeSpans": [{"scope": {"name": "neurald", "version": __version__}, "spans": entries}],
                }
                for process, entries in by_process.items()
            ]
        }
    )


def _attributes(details: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in details.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}

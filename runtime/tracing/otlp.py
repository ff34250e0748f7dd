"""Writes traces in OTLP's JSON format, which collectors of OpenTelemetry read from files."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from neurald._version import __version__
from neurald.runtime.tracing.placement import placed
from neurald.runtime.tracing.span import OTHER_HOST, Span

#: OpenTelemetry's kinds of spans.
_INTERNAL, _SERVER = 1, 2


def otlp_document(spans: Sequence[Span], trace_id: str) -> bytes:
    """Returns the document of a trace: a resource for each process, with its spans.

    Args:
        spans: the spans, in any order.
        trace_id: 32 hexadecimal digits.
    """
    by_process: dict[int, list[dict[str, Any]]] = {}
    for one in placed(spans):
        span = one.span
        entry = {
            "traceId": trace_id,
            "spanId": f"{one.identity:016x}",
            "name": span.name,
            "kind": _SERVER if one.is_served else _INTERNAL,
            "startTimeUnixNano": str(one.start_unix_ns),
            "endTimeUnixNano": str(one.end_unix_ns),
            "attributes": _attributes({"category": span.category, "call": span.call, **span.details}),
        }
        if one.parent:
            entry["parentSpanId"] = f"{one.parent:016x}"
        if "error" in span.details:
            entry["status"] = {"code": 2, "message": str(span.details["error"])}
        by_process.setdefault(span.process, []).append(entry)
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": _attributes(
                            {"service.name": "neurald", "process.pid": process % OTHER_HOST}
                        )
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

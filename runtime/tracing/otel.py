"""Passes traces to exporters of OpenTelemetry, and continues its traces.

Needs `neurald[otel]`.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from neurald._version import __version__
from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadData, OpFailed, WrongType
from neurald.runtime.tracing.placement import PlacedSpan, placed
from neurald.runtime.tracing.span import OTHER_HOST, Span


def require_exporter(exporter: Any) -> None:
    """Checks what an application passes as an exporter.

    Raises:
        BadData: OpenTelemetry is not installed.
        WrongType: it is not a `SpanExporter` of OpenTelemetry.
    """
    if importlib.util.find_spec("opentelemetry") is None or not _has_sdk():
        raise BadData("an exporter needs OpenTelemetry; pip install 'neurald[otel]' installs it")
    from opentelemetry.sdk.trace.export import SpanExporter

    if not isinstance(exporter, SpanExporter):
        raise WrongType(
            f"the exporter is {shown(exporter)}; a SpanExporter of opentelemetry.sdk.trace.export is expected"
        )


def _has_sdk() -> bool:
    return importlib.util.find_spec("opentelemetry.sdk") is not None


def current_span() -> tuple[str, int] | None:
    """Returns the ids of the trace and of the span that OpenTelemetry records in this thread."""
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return (f"{context.trace_id:032x}", context.span_id) if context.is_valid else None


def export(spans: Sequence[Span], trace_id: str, parent: int, exporter: Any) -> None:
    """Passes a trace to an exporter.

    Args:
        spans: the spans, in any order.
        trace_id: 32 hexadecimal digits.
        parent: id of the span of which calls are parts; 0 for none.
        exporter: a `SpanExporter`.

    Raises:
        OpFailed: the exporter failed.
    """
    from opentelemetry.sdk.trace.export import SpanExportResult

    converter = _Converter(int(trace_id, 16))
    found = [converter.span(each) for each in placed(spans, parent)]
    try:
        result = exporter.export(found)
    except Exception as error:
        raise OpFailed(f"the exporter of the trace failed: {type(error).__name__}: {error}") from error
    if result is not SpanExportResult.SUCCESS:
        raise OpFailed("the exporter of the trace failed; its log says why")


class _Converter:
    """Makes spans of OpenTelemetry."""

    def __init__(self, trace_id: int) -> None:
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import TraceFlags

        self._trace_id = trace_id
        self._flags = TraceFlags(TraceFlags.SAMPLED)
        self._scope = InstrumentationScope("neurald", __version__)
        self._resources: dict[int, Any] = {}

    def span(self, one: PlacedSpan) -> Any:
        """Returns a span that has ended."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanKind, Status, StatusCode

        span = one.span
        failure = span.details.get("error")
        return ReadableSpan(
            name=span.name,
            context=self._context(one.identity, is_remote=False),
            parent=self._context(one.parent, is_remote=True) if one.parent else None,
            resource=self._resource(span.process),
            attributes=_attributes({"category": span.category, "call": span.call, **span.details}),
            kind=SpanKind.SERVER if one.is_served else SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET) if failure is None else Status(StatusCode.ERROR, str(failure)),
            start_time=one.start_unix_ns,
            end_time=one.end_unix_ns,
            instrumentation_scope=self._scope,
        )

    def _context(self, identity: int, *, is_remote: bool) -> Any:
        from opentelemetry.trace import SpanContext

        return SpanContext(self._trace_id, identity, is_remote=is_remote, trace_flags=self._flags)

    def _resource(self, process: int) -> Any:
        from opentelemetry.sdk.resources import Resource

        if process not in self._resources:
            # With what the environment says about the service.
            named = Resource({"service.name": "neurald", "process.pid": process % OTHER_HOST})
            self._resources[process] = named.merge(Resource.create({}))
        return self._resources[process]


def _attributes(details: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(value) for key, value in details.items()}


def _value(value: Any) -> Any:
    """Returns a value of a type that attributes may have."""
    if isinstance(value, list | tuple):
        return tuple(value) if all(isinstance(each, int) for each in value) else tuple(map(str, value))
    return value if isinstance(value, bool | int | float | str) else str(value)

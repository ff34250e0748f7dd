"""Traces for exporters of OpenTelemetry."""

import sys
from typing import Any

import numpy as np
import pytest

import neurald as nd
from neurald.hal.errors import BadData, OpFailed
from neurald.service.demo.digits import MODEL

IMAGE = np.zeros((1, 8, 8, 1), np.uint8)


@pytest.fixture
def memory() -> Any:
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    return export.InMemorySpanExporter()


def test_an_exporter_gets_the_spans(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL), [nd.open_device("cpu")]).finish()
    with nd.trace(exporter=memory) as trace:
        compilation.run(IMAGE)
        with pytest.raises(BadData):
            compilation.run()
    spans = memory.get_finished_spans()
    assert len(spans) == len(trace.spans)
    assert {f"{span.context.trace_id:032x}" for span in spans} == {trace.trace_id}
    by_id = {span.context.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    assert [span.name for span in spans if span.parent is None] == ["run", "run"]
    for span in spans:
        assert span.start_time <= span.end_time
        if span.parent is not None:
            assert by_id[span.parent.span_id].start_time <= span.start_time
    assert {span.resource.attributes["service.name"] for span in spans} == {"shop"}
    failed = {span.name: span for span in spans if not span.status.is_unset}
    assert set(failed) == {"run"}
    assert all(span.status.description.startswith("BadData: 0 inputs") for span in failed.values())
    kernel = next(span for span in spans if span.attributes["category"] == "kernel")
    assert all(isinstance(each, int) for each in kernel.attributes["operations"])
    assert kernel.to_json()


def test_the_span_under_way_is_the_parent(memory: Any) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL), [nd.open_device("cpu")]).finish()
    with TracerProvider().get_tracer("shop").start_as_current_span("order") as order:
        context = order.get_span_context()
        with nd.trace(exporter=memory) as trace:
            compilation.run(IMAGE)
        assert trace.trace_id == f"{context.trace_id:032x}"
        # Another trace is not part of it.
        with nd.trace(exporter=memory, trace_id="1" * 32) as other:
            compilation.run(IMAGE)
    runs = [span for span in memory.get_finished_spans() if span.name == "run"]
    assert [None if span.parent is None else span.parent.span_id for span in runs] == [context.span_id, None]
    assert other.trace_id == "1" * 32


def test_an_exporter_that_fails(memory: Any) -> None:
    memory.shutdown()
    with pytest.raises(OpFailed, match="its log says why"), nd.trace(exporter=memory):
        pass

    def fail(spans: Any) -> None:
        raise ConnectionError("nobody listens")

    memory.export = fail
    with pytest.raises(OpFailed, match="ConnectionError: nobody listens"), nd.trace(exporter=memory):
        pass
    with nd.trace():
        pass


def test_something_else_is_no_exporter(memory: Any) -> None:
    wrong: Any = print
    with pytest.raises(BadData, match=r"a SpanExporter of opentelemetry\.sdk\.trace\.export is expected"):
        nd.trace(exporter=wrong)


def test_opentelemetry_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    wrong: Any = object()
    with pytest.raises(BadData, match=r"pip install 'neurald\[otel\]' installs it"):
        nd.trace(exporter=wrong)

"""Recorders keep spans within limits."""

import json
import threading

import pytest
from support.traces.tracing import IMAGE, compiled, execution_of, names

import neurald as nd
from neurald.runtime.tracing.perfetto import trace_document
from neurald.runtime.tracing.span import Recorder


def test_spans_that_were_dropped_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.runtime.tracing.span.MAX_RECORDS", 8)
    recorder = Recorder(1)
    for number in range(9):
        recorder.add(str(number), "step", 0)
    assert recorder.dropped == 0  # a few more are kept, so that dropping some pays
    recorder.add("9", "step", 0)
    assert [span.name for span in recorder.spans()] == list("23456789")
    assert recorder.dropped == 2


def test_memory_is_bounded_whoever_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.runtime.tracing.span.MAX_RECORDS", 80)
    monkeypatch.setattr("neurald.runtime.tracing.span._CALL_RECORDS", 128)
    compilation = compiled(nd.open_device("cpu"))
    with nd.trace() as trace:
        execution = execution_of(compilation)

        def work() -> None:
            for _ in range(300):
                compilation.run(IMAGE)
                execution_of(compilation, reusable=False).compute()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(300):
            execution.compute()
            execution.start_compute().wait()
        assert len(trace._recorder.values) <= trace._recorder.most_values + 9
    assert trace._recorder.dropped > 4 * 300
    assert {"run", "compute"} & names(trace.spans, "call").keys()
    assert json.loads(trace_document(trace.spans, trace.trace_id, trace._recorder.dropped))["otherData"][
        "dropped_spans"
    ]

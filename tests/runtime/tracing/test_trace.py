"""Calls are recorded with their parts, in this process and in a daemon."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model
from support.traces.tracing import IMAGE, compiled, execution_of, execution_on, names, shares

import neurald as nd
from neurald.hal.errors import BadData, BadState
from neurald.runtime.execution.program.overlapping_steps import OverlappingSteps
from neurald.runtime.tracing.own_time import with_ends
from neurald.runtime.tracing.recorded import recorded
from neurald.runtime.tracing.span import Recorder, Span
from neurald.runtime.tracing.trace_points import TRACE_POINTS, install, owner_of
from neurald.service.demo.digits import MODEL


@pytest.mark.timed
def test_calls_of_this_process(tmp_path: Path) -> None:
    with nd.trace(tmp_path / "t.json") as trace:
        compilation = compiled(nd.open_device("reference"))
        for _ in range(3):
            compilation.run(IMAGE)
    calls = names(trace.spans, "call")
    assert (calls["load"], calls["compile"], calls["run"]) == (1, 1, 3)
    assert names(trace.spans, "compile")["prepare on reference"] == 1
    assert {span.process for span in trace.spans} == {os.getpid()}
    # References take so long that what is between spans does not matter, unless others run then.
    assert max(shares(trace, "run")) > 0.95
    runs = [span for span in trace.spans if span.name == "run"]
    assert len({span.call for span in runs}) == 3
    for span in trace.spans:
        assert span.start_ns <= span.end_ns
        assert not any(key.startswith("_") for key in span.details)


@pytest.mark.parametrize("reusable", [False, True])
def test_a_trace_keeps_no_executions(reusable: bool) -> None:
    compilation = compiled(nd.open_device("cpu"))
    with nd.trace():
        execution = execution_of(compilation, reusable=reusable)
        for _ in range(1 + reusable):
            execution.compute()
        reference = weakref.ref(execution)
        del execution
        assert reference() is None


def test_a_call_with_very_many_parts_is_no_slower() -> None:
    spans = [Span("x", "step", number, number + 1, 1, 1, 0) for number in range(60_000)]
    spans += [Span("load", "call", 10, 50_000, 1, 1, 0)]
    begun = time.process_time()
    found = with_ends(spans)
    assert time.process_time() - begun < 5
    assert len(found) == len(spans)  # the parts fill it


def test_nothing_is_left_behind() -> None:
    owners = [(owner_of(point), point.method) for point in TRACE_POINTS]
    before = [getattr(owner, method) for owner, method in owners]
    with contextlib.suppress(KeyError), nd.trace():
        assert all(owner.__dict__[m] is not b for (owner, m), b in zip(owners, before, strict=True))
        raise KeyError
    assert [getattr(owner, method) for owner, method in owners] == before


def test_a_trace_imports_nothing_for_calls_that_are_not_made() -> None:
    program = f"""
import sys
import numpy as np
import neurald as nd
from neurald.runtime.tracing.trace_points import TRACE_POINTS
compilation = nd.CompilationBuilder(nd.load_tflite({os.fspath(MODEL)!r})).finish()
compilation.run(np.zeros((1, 8, 8, 1), np.uint8))
before = set(sys.modules)
with nd.trace():
    missing = {{each.module for each in TRACE_POINTS}} - set(sys.modules)
    assert missing and not {{"grpc", "google.protobuf"}} & (set(sys.modules) - before), set(sys.modules) - before
    from neurald.litert import Interpreter
    interpreter = Interpreter({os.fspath(MODEL)!r})
    replacement = Interpreter.invoke
assert Interpreter.invoke is not replacement
with nd.trace() as trace:
    interpreter.allocate_tensors()
    interpreter.invoke()
assert {{"allocate_tensors", "invoke"}} <= {{span.name for span in trace.spans}}
from neurald.hal.rpc.client.calls.client_calls import ClientCalls
assert not hasattr(ClientCalls.invoke, "__wrapped__")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_there_is_one_trace_at_a_time() -> None:
    with nd.trace() as outer:
        with pytest.raises(BadState, match="a trace is being taken already"), nd.trace():
            pass
        compiled(nd.open_device("cpu"))
    assert names(outer.spans, "call")["compile"] == 1
    with nd.trace() as again:
        pass
    assert (list(again.spans), again.coverage()) == ([], 0.0)
    assert again.trace_id != outer.trace_id


def test_errors_are_recorded() -> None:
    compilation = compiled(nd.open_device("cpu"))
    with nd.trace() as trace, pytest.raises(BadData):
        compilation.run()
    (failed,) = [span for span in trace.spans if span.name == "run"]
    assert failed.details["error"] == "BadData: 0 inputs given; the model has 1: 'image'"


def test_a_file_that_cannot_be_written_costs_no_spans() -> None:
    with pytest.raises(nd.BadState, match="cannot be written: No space left"), nd.trace("/dev/full") as trace:
        nd.load_tflite(MODEL)
    assert names(trace.spans, "call") == {"load": 1}
    with nd.trace():
        pass  # another one can be taken


def test_a_place_where_no_file_can_be_is_refused_before_the_work(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "none" / "trace.json", "there is no folder"),
        (tmp_path, "is a folder"),
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / ("x" * 300) / "trace.json", "File name too long"),
    ):
        with pytest.raises(nd.BadState, match=words), nd.trace(path):
            pytest.fail("the block was entered")
    with nd.trace():
        pass


def test_the_error_of_the_block_is_raised_though_the_file_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KeyError), nd.trace("/dev/full"):
        raise KeyError
    assert "the trace" in caplog.text
    assert "No space left" in caplog.text
    assert Path("/dev/full").exists()


def test_the_inner_call_is_part_of_the_outer_one() -> None:
    recorder = Recorder(1)

    def describe(arguments: tuple[Any, ...], result: Any) -> tuple[str, dict[str, Any]]:
        return "inner", {}

    inner = recorded("call", describe, is_call=True)(recorder, lambda: None)
    outer = recorded("call", describe, is_call=True)(recorder, inner)
    outer()
    inner()
    assert [span.call for span in recorder.spans()] == [1, 1, 3]  # native code has the others


def test_coverage() -> None:
    def span(category: str, start: int, end: int, call: int = 1) -> Span:
        return Span("x", category, start, end, 1, 1, call)

    with nd.trace() as trace:
        pass
    trace._spans = [
        span("call", 0, 100),
        span("step", 10, 50),
        span("device", 40, 60),
        span("device", 90, 200),
        span("device", 0, 1000, call=0),
        span("call", 0, 100, call=2),
        span("step", 0, 0, call=2),
        span("call", 0, 100, call=3),
    ]
    assert trace.coverage() == (50 + 10) / 300
    # What a call leaves to a thread is a part of its time.
    trace._spans = [span("call", 0, 100), span("call", 20, 200), span("step", 0, 20), span("step", 120, 200)]
    assert trace.coverage() == (20 + 80) / 200


def test_a_file_for_opentelemetry(tmp_path: Path) -> None:
    path, identity = tmp_path / "t.otlp.json", "0af7651916cd43dd8448eb211c80319c"
    compilation = compiled(nd.open_device("reference"))
    before = time.time_ns()
    with nd.trace(path, trace_id=identity) as trace:
        compilation.run(IMAGE)
        with contextlib.suppress(BadData):
            compilation.run()
    (resource,) = json.loads(path.read_text())["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]
    assert {span["traceId"] for span in spans} == {identity}
    assert len({span["spanId"] for span in spans}) == len(spans) == len(trace.spans)
    assert all(len(span["spanId"]) == 16 for span in spans)
    by_id = {span["spanId"]: span for span in spans}
    assert [span["name"] for span in spans if "parentSpanId" not in span] == ["run", "run"]
    for span in spans:
        # A clock that is set changes both by the same amount at most.
        assert before - 10**10 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        if "parentSpanId" in span:
            parent = by_id[span["parentSpanId"]]
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
    failed = {span["name"]: span["status"]["code"] for span in spans if "status" in span}
    assert failed == {"run": 2}


@pytest.mark.parametrize("wrong", ["", "0" * 32, "A" * 32, "1" * 31])
def test_wrong_identities_of_traces(wrong: str) -> None:
    with pytest.raises(BadData, match="32 hexadecimal digits"):
        nd.trace(trace_id=wrong)


def in_other_threads(trace: nd.Trace, call: str, count: int) -> None:
    """Checks that this many calls have steps, and that nothing belongs to no call."""
    (waits, roots) = (
        {span.call for span in trace.spans if span.name == name} for name in ("wait for a thread", call)
    )
    assert len(roots) == count
    assert waits == roots
    assert {span.call for span in trace.spans if span.name.startswith("step on ")} == roots
    assert 0 not in {span.call for span in trace.spans}
    for number in roots:
        spans = [span for span in trace.spans if span.call == number]
        (root,) = [span for span in spans if span.name == call]
        (wait,) = [span for span in spans if span.name == "wait for a thread"]
        assert root.start_ns == wait.start_ns


def test_calls_in_other_threads_are_one_call_each() -> None:
    function = nd.compile(MODEL, nd.open_device("reference"))

    async def asynchronous() -> None:
        await function.run_async(IMAGE)

    with nd.trace() as trace:
        function.submit(IMAGE).result()
        asyncio.run(asynchronous())
        list(function.stream([IMAGE] * 2, depth=2))
    in_other_threads(trace, "submit", 4)
    assert names(trace.spans, "call")["function"] == 4


def test_executions_in_the_background_are_one_call_each() -> None:
    execution = execution_on(nd.open_device("reference"))
    with nd.trace() as trace:
        for _ in range(2):
            execution.start_compute().wait()
    in_other_threads(trace, "compute in the background", 2)


def test_steps_in_other_threads_belong_to_the_call() -> None:
    recorder = Recorder(1)
    uninstall = install(recorder)
    found: set[tuple[int, int]] = set()
    together = threading.Barrier(3)

    def execute(position: int) -> None:
        together.wait(30)
        found.add((position, recorder.thread.call))

    try:
        with recorder.as_part_of(7):
            OverlappingSteps([frozenset()] * 3, execute, lambda: False, lambda: None).run()
    finally:
        uninstall()
    assert found == {(0, 7), (1, 7), (2, 7)}


def test_all_sizes_of_an_open_model_have_all_layers() -> None:
    compilation = nd.CompilationBuilder(add_model((0, 3)), [nd.open_device("cpu")]).finish()

    def run(rows: int) -> None:
        given = np.ones((rows, 3), np.float32)
        assert (compilation.run(given, given)[0] == 2).all()

    for rows in (2, 3, 4):
        run(rows)
    with nd.trace() as trace:
        for rows in (3, 3, 5):
            run(rows)
    recorder = trace._recorder
    calls = {span.call for span in trace.spans if span.name == "step on cpu"}
    assert len(calls) == 3
    before = len(recorder.spans())
    run(6)
    assert len(recorder.spans()) == before


def test_work_in_the_background_belongs_to_the_call_that_began_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with nd.trace() as trace:
        compiled = nd.compile(MODEL, startup=nd.Startup.INSTANT)
        assert compiled.compilation.wait_until_optimized(120)
    (call,) = {span.call for span in trace.spans if span.name == "nd.compile"}
    background = [span for span in trace.spans if span.name == "prepare in the background"]
    assert background
    assert {span.call for span in background} == {call}
    first = next(span for span in trace.spans if span.name == "look up in the cache")
    assert first.details["hit"] is False
    assert {"prepare the first tier", "compile", "write to the cache"} <= set(names(trace.spans, "compile"))

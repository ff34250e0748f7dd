"""Traces of calls in this process and in a daemon."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process, running_daemon
from support.models.small import add_model
from support.tracing import assert_valid, shares

import neurald as nd
from neurald.hal.device import COPY_IN, KernelTime
from neurald.hal.errors import BadData, BadState
from neurald.hal.execution.recorded_calls import MAX_CLOCK_ERROR_NS
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import RING_BYTES, RingEnd, RingSide, Stamps
from neurald.runtime.execution.program.overlapping_steps import OverlappingSteps
from neurald.runtime.tracing.daemon_calls import RingCalls
from neurald.runtime.tracing.kernel_spans import kernel_name
from neurald.runtime.tracing.own_time import REPEATED, with_ends
from neurald.runtime.tracing.perfetto import trace_document
from neurald.runtime.tracing.recorded import recorded
from neurald.runtime.tracing.span import Recorder, Span
from neurald.runtime.tracing.trace_points import TRACE_POINTS, install, owner_of
from neurald.service.demo.digits import MODEL

IMAGE = np.zeros((1, 8, 8, 1), np.uint8)


def compiled(device: nd.Device) -> nd.Compilation:
    return nd.CompilationBuilder(nd.load_tflite(MODEL), [device]).finish()


def names(spans: Any, category: str) -> Counter[str]:
    return Counter(span.name for span in spans if span.category == category)


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


def test_kernels_are_inside_of_their_steps() -> None:
    device = nd.open_device("cpu")
    compilation = compiled(device)
    with nd.trace() as trace:
        compilation.run(IMAGE)
        compilation.run(IMAGE)
    kernels = [span for span in trace.spans if span.category == "kernel"]
    expected = sum(len(step.kernels) for step in compilation.profile())
    calls = {span.call for span in kernels}
    assert calls
    assert len(kernels) == expected * len(calls)
    for kernel in kernels:
        inside = [
            span
            for span in trace.spans
            if span.call == kernel.call and span.name == "step on cpu" and span.start_ns <= kernel.start_ns
        ]
        assert any(kernel.end_ns <= span.end_ns for span in inside)
        assert kernel.details["us_when_timed_alone"] > 0


def test_kernels_are_named_by_their_operations() -> None:
    compilation = compiled(nd.open_device("cpu"))
    operations = compilation.model.main.operations
    with nd.trace() as trace:
        compilation.run(IMAGE)
    kernels = [span for span in trace.spans if span.category == "kernel"]
    assert kernels
    for kernel in kernels:
        types = [operations[each].type.name for each in kernel.details["operations"]]
        assert kernel.name == ", ".join(dict.fromkeys(types))
        assert kernel.details["kernel"] != kernel.name


def test_names_of_kernels_are_short() -> None:
    types = ["CONV_2D", "RELU", "CONV_2D", "ADD", "MUL", "TANH", "EXP"]
    computes = KernelTime(name="k1", duration_ns=1, operations=tuple(range(7)))
    copies = KernelTime(name="k2", duration_ns=1, operations=(), label=COPY_IN)
    other = KernelTime(name="wait", duration_ns=1, operations=())
    assert kernel_name(computes, types) == "CONV_2D, RELU, ADD, MUL, 2 more"
    assert kernel_name(copies, []) == COPY_IN
    assert kernel_name(other, []) == "wait"


def test_kernels_of_executions_in_the_background() -> None:
    compilation = compiled(nd.open_device("cpu"))
    expected = sum(len(step.kernels) for step in compilation.profile())
    with nd.trace() as trace:
        for _ in range(10):
            execution_of(compilation, reusable=False).start_compute().wait()
    # A device may also have ended one before it returned from being asked to begin.
    stepped = {span.call for span in trace.spans if span.name == "step on cpu"}
    assert stepped
    for call in stepped:
        assert names((span for span in trace.spans if span.call == call), "kernel").total() == expected


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


def test_a_repeated_computation_is_all_of_its_step() -> None:
    """Unless something tells that the step ran in another way, or that none did."""
    repeated = ("step on d", {"operations": 3, "_step": object()})

    def found(*parts: Span, **more: object) -> list[tuple[str, int, int]]:
        details = {REPEATED: repeated, **more}
        spans = [*parts, Span("compute", "call", 10, 90, 1, 1, 7, details)]
        return sorted(
            (span.name, span.start_ns, span.end_ns) for span in with_ends(spans) if span not in spans
        )

    def part(name: str, category: str, **details: object) -> Span:
        return Span(name, category, 30, 70, 1, 1, 7, details)

    assert found() == [("step on d", 10, 90)]
    assert found(part("wait for the daemon", "device")) == [
        ("make the request", 10, 30),
        ("step on d", 10, 90),
        ("take the results", 70, 90),
    ]
    regular = [("bind the arguments", 10, 30), ("note the result", 70, 90)]
    assert found(part("run the steps", "step")) == regular
    assert found(part("whole model on the CPU", "step")) == regular
    assert found(part("step on e", "device", _step=object())) == regular
    assert found(part("wait for the daemon", "device"), error="OpFailed: x") == regular
    assert found(error="BadState: x") == []
    (step,) = (each for each in with_ends([Span("compute", "call", 1, 2, 1, 1, 7, {REPEATED: repeated})])[1:])
    assert step.details == repeated[1]


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_repeated_computation_has_few_records(is_remote: bool) -> None:
    with running_daemon() if is_remote else contextlib.nullcontext() as address:
        device = nd.open_device("reference") if address is None else nd.connect(address)
        compilation = compiled(device)
        execution = execution_of(compilation, reusable=True)
        for _ in range(3):
            execution.compute()
        with nd.trace() as trace:
            for _ in range(4):
                execution.compute()
        count = sum(len(step.kernels) for step in compilation.profile())
    records = Counter(record.call for record in trace._recorder.calls.records())
    # The first one in a trace is like the others.
    assert list(records.values()) == [1 + is_remote] * 4
    assert not trace._recorder.values
    for call in records:
        spans = [span for span in trace.spans if span.call == call]
        (whole,) = (span for span in spans if span.name == "compute")
        (step,) = (span for span in spans if span.name == f"step on {device.name}")
        assert (step.start_ns, step.end_ns) == (whole.start_ns, whole.end_ns)
        assert step.details == {"operations": 9}
        assert names(spans, "kernel").total() == count
    assert trace.coverage() > 0.99


def test_a_daemon_of_this_host(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with running_daemon() as address:
        compilation = compiled(nd.connect(address))
        compilation.run(IMAGE)
        with nd.trace(path) as trace:
            for _ in range(4):
                compilation.run(IMAGE)
        compilation.run(IMAGE)
        execution = execution_on(nd.connect(address))
        with nd.trace() as in_background:
            for _ in range(2):
                execution.start_compute().wait()
    calls = {span.call for span in in_background.spans if span.name == "compute in the background"}
    assert len(calls) == 2
    for name in ("start to compute", "wait for the event", "submit to the ring", "driver"):
        assert {span.call for span in in_background.spans if span.name == name} == calls, name
    daemon = [span for span in trace.spans if span.category == "daemon"]
    assert names(daemon, "daemon") == {"serve": 4, "wait for the device": 4, "driver": 4, "reply": 4}
    assert len({span.process for span in daemon} | {os.getpid()}) == 2
    waits = {span.call: span for span in trace.spans if span.name == "wait for the daemon"}
    for span in daemon:
        assert span.end_ns <= waits[span.call].end_ns
    document = json.loads(path.read_text())
    assert document["otherData"]["trace_id"] == trace.trace_id
    arrows = Counter(event["ph"] for event in document["traceEvents"])
    assert arrows["s"] == arrows["f"] == 4
    assert arrows["M"] == 2
    assert arrows["X"] == len(trace.spans)


def calls_of(thread: int, spans: Any, name: str) -> set[int]:
    """Returns the calls that have a span of this name in a thread."""
    return {span.call for span in spans if span.name == name and span.thread == thread}


def test_executions_of_a_daemon_that_were_repeated_before_have_all_layers() -> None:
    """Also while another thread computes as the trace begins and ends."""
    own = threading.get_native_id()
    layers = ("step on cpu@cpu", "submit to the ring", "wait for the daemon", "driver")
    with running_daemon() as address:
        device = nd.connect(address)
        execution, other = execution_on(device), execution_on(device)
        is_over = threading.Event()

        def repeat() -> None:
            while not is_over.is_set():
                other.compute()

        thread = threading.Thread(target=repeat)
        for _ in range(3):
            execution.compute()
        thread.start()
        try:
            for _ in range(20):
                with nd.trace() as trace:
                    for _ in range(3):
                        execution.compute()
                execution.compute()
                calls = calls_of(own, trace.spans, "compute")
                assert len(calls) == 3
                assert calls_of(own, trace._recorder.spans(), "compute") == calls
                for name in layers:
                    assert calls_of(own, trace.spans, name) == calls, name
        finally:
            is_over.set()
            thread.join()


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
from neurald.hal.rpc.client.client_calls import ClientCalls
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
    assert failed.details["error"].startswith("BadData: 0 inputs")


def test_a_file_that_cannot_be_written_costs_no_spans() -> None:
    with pytest.raises(OSError, match="cannot be written: No space left"), nd.trace("/dev/full") as trace:
        nd.load_tflite(MODEL)
    assert names(trace.spans, "call") == {"load": 1}
    with nd.trace():
        pass  # another one can be taken


def test_the_error_of_the_block_is_raised_though_the_file_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KeyError), nd.trace("/dev/full"):
        raise KeyError
    assert "the trace" in caplog.text
    assert "No space left" in caplog.text
    assert Path("/dev/full").exists()


@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"], ids=["this host", "another host"])
def test_a_driver_that_is_killed_in_the_middle(listen: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with daemon_process(listen=listen) as (process, address):
        compilation = compiled(nd.connect(address))
        compilation.run(IMAGE)
        with nd.trace(path) as trace:
            compilation.run(IMAGE)
            process.kill()
            with pytest.raises(nd.Error):
                compilation.run(IMAGE)
    assert_valid(path, trace)
    (before, after) = (span for span in trace.spans if span.category == "call" and span.name == "run")
    assert "error" not in before.details
    assert "error" in after.details
    assert "driver" in {span.name for span in trace.spans if span.call == before.call}


def test_the_inner_call_is_part_of_the_outer_one() -> None:
    recorder = Recorder(1)

    def describe(arguments: tuple[Any, ...], result: Any) -> tuple[str, dict[str, Any]]:
        return "inner", {}

    inner = recorded("call", describe, is_call=True)(recorder, lambda: None)
    outer = recorded("call", describe, is_call=True)(recorder, inner)
    outer()
    inner()
    assert [span.call for span in recorder.spans()] == [1, 1, 3]  # native code has the others


def ring_end() -> RingEnd:
    memory = SharedMemory.working(RING_BYTES, "ring")
    return RingEnd(memory, socket.socketpair()[0], RingSide.CLIENT)


class Peer:
    """An end of a ring whose daemon leaves wrong stamps."""

    def __init__(self) -> None:
        self._ring = ring_end()
        self.left = Stamps(0, 0, 0, 0, 0, 0)

    def submit(self) -> None: ...

    def _completed(self) -> bool:
        self._ring.put_stamps(self.left)
        return True

    exchange = _completed


@pytest.mark.parametrize("wrong", ["", "number", "order", "early", "late"])
def test_stamps_divide_the_exchange_with_a_daemon(wrong: str) -> None:
    recorder = Recorder(1)
    replacements = {point.method: point.replace for point in TRACE_POINTS if point.owner == "RingPeer"}
    peer = Peer()
    replacements["submit"](recorder, Peer.submit)(peer)
    number = peer._ring.wanted_stamps
    exchange = replacements["exchange"](recorder, Peer.exchange)
    # Times of the future are within a call that ends after them.
    now = time.monotonic_ns() + 10**6
    later = {"": now, "number": now, "order": now - 5, "early": now, "late": now + 10**12}[wrong]
    first = 0 if wrong == "early" else now
    peer.left = Stamps(number + (wrong == "number"), 5, first, now, now, later)

    def left_late(stamps: Stamps) -> None:
        while time.monotonic_ns() <= now:
            pass
        RingEnd.put_stamps(peer._ring, stamps)

    peer._ring.put_stamps = left_late  # type: ignore[method-assign]
    exchange(peer)
    served = {"serve", "wait for the device", "driver", "reply"}
    spans = {span.name: span for span in recorder.spans() if span.end_ns >= now}
    if wrong:
        assert list(spans) == ["submit and wait for the daemon"]
        return
    assert set(spans) == {"submit to the ring", "wait for the daemon"} | served
    assert spans["submit to the ring"].end_ns == spans["wait for the daemon"].start_ns == now
    exchanges = {span.details["exchange"] for span in spans.values() if "exchange" in span.details}
    assert len(exchanges) == 1


@pytest.mark.parametrize("off_ns", [MAX_CLOCK_ERROR_NS, -MAX_CLOCK_ERROR_NS, MAX_CLOCK_ERROR_NS + 1])
def test_stamps_are_kept_though_the_clocks_differ(off_ns: int) -> None:
    """A counter may tell the times of this process, and tells them otherwise than the clock."""
    recorder, end = Recorder(1), ring_end()
    calls = RingCalls(recorder, end)
    start_ns, end_ns = 10**9, 10**9 + 2_000
    # The daemon saw the call 100 ns after it began, and replied 100 ns before it ended.
    times = (start_ns + 100, start_ns + 200, end_ns - 200, end_ns - 100)
    slack_ns = 100 if off_ns > 0 else -100
    end.put_stamps(Stamps(end.wanted_stamps, 5, *(each + off_ns + slack_ns for each in times)))
    spans = list(calls.exchanged(start_ns, end_ns, 3, 4, end.stamps()))
    if abs(off_ns) > MAX_CLOCK_ERROR_NS:
        assert [span.name for span in spans] == ["submit and wait for the daemon"]
        return
    assert {span.name for span in spans if span.category == "daemon"} == {
        "serve",
        "wait for the device",
        "driver",
        "reply",
    }
    assert all(start_ns <= span.start_ns <= span.end_ns <= end_ns for span in spans)


@pytest.mark.parametrize("wrong", ["number", "order", "early", "late"])
def test_wrong_stamps_of_a_daemon_are_ignored(wrong: str) -> None:
    recorder = Recorder(1)
    replacements = {point.method: point.replace for point in TRACE_POINTS if point.owner == "RingPeer"}
    peer = Peer()
    replacements["submit"](recorder, Peer.submit)(peer)
    number = peer._ring.wanted_stamps
    assert number
    now = time.monotonic_ns()
    times = {
        "number": (now, now, now, now),
        "order": (now, now, now - 5, now),
        "early": (0, now, now, now),
        "late": (now, now, now, now + 10**12),
    }[wrong]
    peer.left = Stamps(number + (wrong == "number"), 5, *times)
    replacements["_completed"](recorder, Peer._completed)(peer)
    assert [span.name for span in recorder.spans()] == [
        "submit to the ring",
        "in the hands of the daemon",
        "wait for the daemon",
    ]


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


def test_calls_that_were_made_before_have_all_layers() -> None:
    compilation = compiled(nd.open_device("cpu"))
    execution = nd.Execution(compilation, reusable=True)
    result = np.zeros((1, 10), np.uint8)
    execution.set_input(0, IMAGE)
    execution.set_output(0, result)
    for _ in range(3):
        compilation.run(IMAGE)
        execution.compute()
    with nd.trace() as trace:
        for _ in range(3):
            compilation.run(IMAGE)
            execution.compute()
    recorder = trace._recorder
    calls = {span.call for span in trace.spans if span.name == "step on cpu"}
    assert len(calls) == 6
    assert trace.coverage() > 0
    before = len(recorder.spans())
    for _ in range(3):
        compilation.run(IMAGE)
        execution.compute()
    assert len(recorder.spans()) == before


def test_a_repeated_run_is_one_record_and_two_spans() -> None:
    compilation = compiled(nd.open_device("cpu"))
    for _ in range(3):
        compilation.run(IMAGE)
    with nd.trace() as trace:
        for _ in range(60):
            compilation.run(IMAGE)
    # Each takes a microsecond, of which a trace has to take few.
    latest = [span for span in trace.spans if span.call == 60 and span.category != "kernel"]
    assert [span.name for span in latest] == ["run", "step on cpu"]
    assert latest[0].start_ns <= latest[1].start_ns <= latest[1].end_ns <= latest[0].end_ns
    # Nothing else is recorded but one tuple.
    assert len(trace._recorder.values) < 9 * (60 + 40)


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


def execution_on(device: nd.Device) -> nd.Execution:
    execution = execution_of(compiled(device))
    execution.compute()
    return execution


def execution_of(compilation: nd.Compilation, *, reusable: bool = True) -> nd.Execution:
    execution = nd.Execution(compilation, reusable=reusable)
    execution.set_input(0, IMAGE)
    execution.set_output(0, np.zeros((1, 10), np.uint8))
    return execution


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


def test_a_daemon_on_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "t.json"
    with running_daemon(listen="127.0.0.1:0") as address, nd.trace(path) as trace:
        compilation = compiled(nd.connect(address))
        for _ in range(4):
            compilation.run(IMAGE)
        run_calls = {span.call for span in trace._recorder.spans() if span.name == "run"}
    daemon = [span for span in trace.spans if span.category == "daemon"]
    found = names(daemon, "daemon")
    assert found["serve ExecuteEach"] == 4
    # Requests of one message have been received when they arrive.
    assert "receive" not in found
    assert found["serve PrepareModel"] == 1
    assert found["read the model"] >= 2
    assert found["driver"] >= 4 + 1
    # Processes of other hosts have numbers of their own.
    assert {span.process >> 32 for span in daemon} == {1}
    for number in run_calls:
        spans = [span for span in trace.spans if span.call == number]
        (call,) = [span for span in spans if span.name == "call ExecuteEach"]
        for span in spans:
            if span.category == "daemon":
                assert call.start_ns <= span.start_ns <= span.end_ns <= call.end_ns
        assert any(span.category == "kernel" and span.process >> 32 for span in spans)
    document = json.loads(path.read_text())
    arrows = [event for event in document["traceEvents"] if event["ph"] in "sf"]
    assert len({event["id"] for event in arrows}) == len(arrows) / 2
    hosts = [event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"]
    assert any(name.startswith("neurald daemon at ") for name in hosts)


def test_large_data_for_a_daemon_on_another_host() -> None:
    size = 700_000
    graph = nd.ModelBuilder()
    values = graph.add_operand(nd.OperandType.TENSOR_FLOAT32, (size,))
    result = graph.add_operand(nd.OperandType.TENSOR_FLOAT32, (size,))
    graph.add_operation(nd.OperationType.ABS, [values], [result])
    graph.identify_inputs_and_outputs([values], [result])
    with running_daemon(listen="127.0.0.1:0") as address:
        compilation = nd.CompilationBuilder(graph.finish(), [nd.connect(address)]).finish()
        with nd.trace() as trace:
            compilation.run(np.zeros(size, np.float32))
    assert names(trace.spans, "daemon")["serve ExecuteEach"] == 1
    assert names(trace.spans, "device")["call ExecuteEach"] == 1


@pytest.mark.parametrize("sends_times", [False, True])
def test_an_older_daemon_sends_no_times_of_requests(
    sends_times: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to such a daemon goes by a call of its own.

    An older one sends no times of these.
    """
    if not sends_times:
        monkeypatch.setattr("neurald.runtime.tracing.daemon_calls.times_from", lambda metadata: None)
    with running_daemon(listen="127.0.0.1:0") as address:
        compilation = compiled(nd.connect(address))
        prepared: Any = compilation.plan.steps[0].prepared_model
        prepared.connection.description.sends_times = False
        with nd.trace() as trace:
            compilation.run(IMAGE)
    assert names(trace.spans, "daemon")["serve ExecuteWithData"] == sends_times
    assert names(trace.spans, "device")["call ExecuteWithData"] == 1

"""Traces of calls that a daemon answers have its times."""

import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import astuple
from support.daemon.processes import daemon_process, running_daemon
from support.traces.tracing import IMAGE, assert_valid, compiled, execution_on, names

import neurald as nd
from neurald.hal.execution.recorded_calls import MAX_CLOCK_ERROR_NS
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import RING_BYTES, RingEnd, RingSide, Stamps
from neurald.runtime.tracing.daemon_calls import RingCalls
from neurald.runtime.tracing.span import Recorder
from neurald.runtime.tracing.trace_points import TRACE_POINTS


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
        self._ring.put_stamps(astuple(self.left))
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

    def left_late(stamps: Sequence[int]) -> None:
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
    end.put_stamps((end.wanted_stamps, 5, *(each + off_ns + slack_ns for each in times)))
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
    parts = "serve ExecuteEach", "receive", "wait for the device", "reply"
    assert [found[each] for each in parts] == [4] * 4
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

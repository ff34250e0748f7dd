"""Repeated executions have few records, and all of their layers."""

import contextlib
from collections import Counter

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.traces.tracing import IMAGE, compiled, execution_of, names

import neurald as nd
from neurald.runtime.tracing.own_time import REPEATED, with_ends
from neurald.runtime.tracing.span import Span


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

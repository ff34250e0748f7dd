"""Calls to trace, what share of their time a trace explains, and whether viewers can show it."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.service.demo.digits import MODEL

#: An input of the network of the demo.
IMAGE = np.zeros((1, 8, 8, 1), np.uint8)


def compiled(device: nd.Device) -> nd.Compilation:
    """Compiles the network of the demo for a device."""
    return nd.CompilationBuilder(nd.load_tflite(MODEL), [device]).finish()


def names(spans: Any, category: str) -> Counter[str]:
    """Counts the names of the spans of a category."""
    return Counter(span.name for span in spans if span.category == category)


def execution_on(device: nd.Device) -> nd.Execution:
    """Returns an execution of the network that has computed once."""
    execution = execution_of(compiled(device))
    execution.compute()
    return execution


def execution_of(compilation: nd.Compilation, *, reusable: bool = True) -> nd.Execution:
    """Returns an execution of the network, with its buffers."""
    execution = nd.Execution(compilation, reusable=reusable)
    execution.set_input(0, IMAGE)
    execution.set_output(0, np.zeros((1, 10), np.uint8))
    return execution


def shares(trace: nd.Trace, call: str | int | None = None) -> list[float]:
    """Returns the covered share of each call, or of those of a given name or number."""
    numbers = {
        span.call
        for span in trace.spans
        if span.category == "call" and (call is None or call in (span.name, span.call))
    }
    found = []
    for number in sorted(numbers):
        only = nd.Trace()
        only._spans = [span for span in trace.spans if span.call == number]
        found.append(only.coverage())
    return found


def assert_valid(path: Path, trace: nd.Trace) -> None:
    """Asserts that a trace file has all spans, as stacks of threads or as asynchronous ones."""
    document = json.loads(path.read_text())
    assert document["displayTimeUnit"] == "ns"
    events: list[Mapping[str, Any]] = document["traceEvents"]
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["ph"], []).append(event)
    assert set(by_kind) <= set("MXbesf")
    assert {event["args"]["trace"] for event in (*by_kind["X"], *by_kind.get("b", ()))} == {trace.trace_id}
    assert len(by_kind["X"]) + len(by_kind.get("b", ())) == len(trace.spans)
    assert {event["pid"] for event in by_kind["M"]} == {span.process for span in trace.spans}
    stacks: dict[tuple[int, int], list[int]] = {}
    latest = 0
    for event in by_kind["X"]:
        # Times are numbers of microseconds with the digits of nanoseconds.
        start = round(event["ts"] * 1000)
        end = start + round(event["dur"] * 1000)
        assert latest <= start <= end
        latest = start
        stack = stacks.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1], event
        stack.append(end)
    begun = {event["id"]: event["ts"] for event in by_kind.get("b", ())}
    ended = {event["id"]: event["ts"] for event in by_kind.get("e", ())}
    assert begun.keys() == ended.keys()
    assert all(begun[each] <= ended[each] for each in begun)
    arrows = [{event["id"]: event["ts"] for event in by_kind.get(kind, ())} for kind in "sf"]
    assert arrows[1].keys() <= arrows[0].keys()
    assert all(arrows[0][each] <= arrows[1][each] for each in arrows[1])

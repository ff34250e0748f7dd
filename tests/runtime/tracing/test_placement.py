"""Ids, parents and times of spans."""

import time

from neurald.runtime.tracing.placement import placed
from neurald.runtime.tracing.span import Span


def span(name: str, start: int, end: int, call: int = 1) -> Span:
    return Span(name, "step", start, end, 1, 1, call)


def test_the_smallest_span_around_is_the_parent() -> None:
    spans = [span("b", 10, 20), span("a", 0, 100), span("c", 12, 15), span("d", 50, 60)]
    spans += [span("other", 0, 100, call=2), span("e", 13, 14, call=2), span("none", 10, 11, call=0)]
    found = {each.span.name: each for each in placed(spans)}
    names = {each.identity: name for name, each in found.items()}
    parents = {name: names.get(each.parent, "") for name, each in found.items()}
    assert parents == {"a": "", "b": "a", "c": "b", "d": "a", "other": "", "e": "other", "none": ""}
    assert len(names) == len(spans)


def test_calls_are_parts_of_a_given_span() -> None:
    found = {each.span.name: each for each in placed([span("a", 0, 9), span("b", 1, 2)], parent=77)}
    assert (found["a"].parent, found["b"].parent) == (77, found["a"].identity)


def test_times_are_those_of_the_wall_clock() -> None:
    now = time.monotonic_ns()
    (found,) = placed([span("a", now, now + 5)])
    assert abs(found.start_unix_ns - time.time_ns()) < 10**10
    assert found.end_unix_ns - found.start_unix_ns == 5
    assert 0 < found.identity < 1 << 63

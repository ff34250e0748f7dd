"""Adds what a call does itself before the first of its parts begins, and after the last has ended.

Recording this as well would take longer than what it does: the code of a repeated call runs for a
microsecond or two in all.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from neurald.runtime.tracing.span import Span

#: What calls do before and after their parts.
_ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "load": ("begin to load", "return the model"),
    "nd.compile": ("begin to compile", "return the function"),
    "compile": ("begin to compile", "return the compilation"),
    "function": ("take the arguments", "return the outputs"),
    "request": ("take the arguments", "return the outputs"),
    "run": ("place the inputs", "return the outputs"),
    "compute": ("begin to compute", "note the result"),
    "start to compute": ("begin to compute", "return the event"),
}


def with_ends(spans: Sequence[Span]) -> list[Span]:
    """Returns the spans and those of the beginnings and ends of calls, in the order of threads.

    Args:
        spans: of one process, in any order.
    """
    threads: dict[tuple[int, int], list[Span]] = {}
    for span in spans:
        if span.category != "daemon":
            threads.setdefault((span.call, span.thread), []).append(span)
    found = list(spans)
    for together in threads.values():
        found += _ends(together)
    return found


def _ends(spans: Sequence[Span]) -> list[Span]:
    """Returns the beginnings and ends of the calls among what a thread did for one call."""
    ordered = sorted(spans, key=lambda each: (each.start_ns, -each.end_ns))
    found = []
    for position, call in enumerate(ordered):
        before, after = _ENDS.get(call.name, ("", "")) if call.category == "call" else ("", "")
        first = last = None
        for part in ordered[position + 1 :]:
            if part.start_ns >= call.end_ns:
                break
            first = part.start_ns if first is None else first
            last = max(part.end_ns, last or 0)
        if not before or first is None or last is None:
            continue
        for name, start, end in ((before, call.start_ns, first), (after, last, call.end_ns)):
            if start < end:
                found.append(Span(name, "step", start, end, call.process, call.thread, call.call))
    return found

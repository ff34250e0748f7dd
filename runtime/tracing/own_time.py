"""Adds the own work of a call before the first of its parts begins, and after the last has ended.

Recording this as well would take longer than what it does: the code of a repeated call runs for a
microsecond or two in all.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from neurald.runtime.tracing.span import Span

#: The names of the work of calls before and after their parts.
_ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "load": ("begin to load", "return the model"),
    "nd.compile": ("begin to compile", "return the function"),
    "compile": ("begin to compile", "return the compilation"),
    "function": ("take the arguments", "return the outputs"),
    "request": ("take the arguments", "return the outputs"),
    "run": ("place the inputs", "return the outputs"),
    "compute": ("begin to compute", "note the result"),
    "start to compute": ("begin to compute", "return the event"),
    "Interpreter": ("check the arguments", "return the interpreter"),
    "allocate_tensors": ("begin to allocate", "allocate the values"),
    "invoke": ("begin to invoke", "note the outputs"),
    "signature": ("copy the inputs", "copy the outputs"),
    "from_file": ("check the arguments", "return the model"),
    "from_buffer": ("check the arguments", "return the model"),
    "run_by_name": ("copy the inputs", "copy the outputs"),
    "run_by_index": ("copy the inputs", "copy the outputs"),
}
#: The names of the work of calls that have no parts.
_WHOLE: Final[Mapping[str, str]] = {
    "set_tensor": "copy the value",
    "get_tensor": "copy the value",
    "allocate_tensors": "find that all is allocated",
}


def with_ends(spans: Sequence[Span]) -> list[Span]:
    """Returns the spans and those of the beginnings and ends of calls, in the order of threads.

    Args:
        spans: the spans of one process, in any order.
    """
    threads: dict[tuple[int, int], list[Span]] = {}
    for span in spans:
        if span.category != "daemon":
            threads.setdefault((span.call, span.thread), []).append(span)
    found = list(spans)
    for together in threads.values():
        found += _ends(together)
    return found


def _ends(spans: Sequence[Span]) -> Iterator[Span]:
    """Yields the beginnings and ends of the calls among what a thread did for one call."""
    ordered = sorted(spans, key=lambda each: (each.start_ns, -each.end_ns))
    for position, call in enumerate(ordered):
        if call.category != "call":
            continue
        first = last = None
        for number in range(position + 1, len(ordered)):
            part = ordered[number]
            if part.start_ns >= call.end_ns:
                break
            first = part.start_ns if first is None else first
            last = max(part.end_ns, last or 0)
        if first is None or last is None:
            own = [(_WHOLE.get(call.name, ""), call.start_ns, call.end_ns)]
        else:
            before, after = _ENDS.get(call.name, ("", ""))
            own = [(before, call.start_ns, first), (after, last, call.end_ns)]
        for name, start, end in own:
            if name and start < end:
                yield Span(name, "step", start, end, call.process, call.thread, call.call)

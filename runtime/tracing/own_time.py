"""Adds the own work of spans before the first of their parts begins, and after the last has ended.

Recording this as well would take longer than what it does: the code of a repeated call runs for a
microsecond or two in all, and a record that interrupts it takes a third of one.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from neurald.runtime.tracing.span import Span

#: The detail of a span of a call with the name and the details of a step, or None. If nothing tells
#: that the step ran in another way, its device has repeated it by a function, as all of the call.
REPEATED: Final = "_repeated"
#: The names of the work of calls, and of loading as a part of one, before and after their parts.
_ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "load": ("map and identify the file", "make the model"),
    "nd.compile": ("begin to compile", "return the function"),
    "compile": ("begin to compile", "return the compilation"),
    "make the function": ("begin to compile", "describe the function"),
    "function": ("take the arguments", "return the outputs"),
    "request": ("take the arguments", "return the outputs"),
    "run": ("place the inputs", "return the outputs"),
    "compute": ("bind the arguments", "note the result"),
    "start to compute": ("bind the arguments", "return the event"),
    "Interpreter": ("check the arguments", "return the interpreter"),
    "allocate_tensors": ("begin to allocate", "allocate the values"),
    "invoke": ("begin to invoke", "note the outputs"),
    "signature": ("copy the inputs", "copy the outputs"),
    "from_file": ("check the arguments", "return the model"),
    "from_buffer": ("check the arguments", "return the model"),
    "run_by_name": ("copy the inputs", "copy the outputs"),
    "run_by_index": ("copy the inputs", "copy the outputs"),
}
#: The names of the work of a step for a daemon before and after the call of the daemon.
_STEP: Final = "step on "
_STEP_ENDS: Final = ("make the request", "take the results")
#: The names of the work of calls that have no parts.
_WHOLE: Final[Mapping[str, str]] = {
    "set_tensor": "copy the value",
    "get_tensor": "copy the value",
    "allocate_tensors": "find that all is allocated",
    "run": "check the inputs",
    "start to compute": "bind the arguments",
}


def with_ends(spans: Sequence[Span]) -> list[Span]:
    """Returns the spans and those of the beginnings and ends of some, in the order of threads.

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
    """Yields the beginnings and ends of spans among what a thread did for one call."""
    ordered = sorted(spans, key=lambda each: (each.start_ns, -each.end_ns))
    for position, whole in enumerate(ordered):
        is_step = whole.name.startswith(_STEP)
        before, after = _STEP_ENDS if is_step else _ENDS.get(whole.name, ("", ""))
        if not before and whole.category != "call":
            continue
        repeated = None if "error" in whole.details else whole.details.get(REPEATED)
        first = last = None
        for number in range(position + 1, len(ordered)):
            part = ordered[number]
            if part.start_ns >= whole.end_ns or (is_step and part.category != "device"):
                break
            if part.category != "device" or "_step" in part.details:
                repeated = None
            first = part.start_ns if first is None else first
            last = max(part.end_ns, last or 0)
        own = partial(Span, process=whole.process, thread=whole.thread, call=whole.call)
        if repeated is not None:
            name, details = repeated
            yield own(name, "device", whole.start_ns, whole.end_ns, details=details)
            before, after = _STEP_ENDS
        if first is None or last is None:
            ends = [("" if repeated else _WHOLE.get(whole.name, ""), whole.start_ns, whole.end_ns)]
        else:
            ends = [(before, whole.start_ns, first), (after, last, whole.end_ns)]
        for name, start, end in ends:
            if name and start < end:
                yield own(name, "step", start, end)

"""Adds the kernels of each call of a device.

No device reports when each kernel of an ordinary run began. Kernels are therefore timed one by one
after the trace, see `Compilation.profile`, and placed one after the other inside of the spans in
which their devices computed. If together they take longer than such a span, all are shortened.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from neurald.hal.device import KernelTime
from neurald.hal.model.numbering import positions_by_number
from neurald.runtime.model.branches import graph_of
from neurald.runtime.tracing.span import MAX_SPANS, Span

#: How many types of operations the name of a kernel has at most.
_MAX_NAMED: Final = 4


def with_kernels(spans: Sequence[Span], profile: Callable[[Any], Sequence[Any]]) -> list[Span]:
    """Returns the spans and those of kernels.

    Args:
        spans: the spans in the order in which they ended.
        profile: returns the `StepProfile`s of a compilation.
    """
    compilations: dict[int, Any] = {}
    for span in spans:
        if "_compilation" in span.details:
            compilations.setdefault(span.call, span.details["_compilation"])
    profiles: dict[int, Sequence[_Kernel]] = {}
    found = list(spans)
    drivers = _drivers(spans)
    for span in spans:
        compilation = compilations.get(span.call)
        if "_step" not in span.details or compilation is None or not span.call:
            continue
        key = id(span.details["_step"])
        if key not in profiles:
            profiles[key] = _kernels(compilation, span.details["_step"], profile)
        place = drivers.get(span.call, span) if _is_remote(span) else span
        found += _placed(profiles[key], place)
        if len(found) >= MAX_SPANS:
            break
    return found


def _is_remote(span: Span) -> bool:
    return bool(span.details["_step"].device.is_remote)


def _drivers(spans: Sequence[Span]) -> Mapping[int, Span]:
    """Returns the span of the driver in a daemon for each call that has exactly one."""
    found: dict[int, list[Span]] = {}
    for span in spans:
        if span.category == "daemon" and span.name == "driver":
            found.setdefault(span.call, []).append(span)
    return {call: each[0] for call, each in found.items() if len(each) == 1}


class _Kernel(Struct, frozen=True):
    """A kernel of a step, with the details that all its spans share."""

    name: str
    duration_ns: int
    details: Mapping[str, Any]


def _kernels(compilation: Any, step: Any, profile: Callable[[Any], Sequence[Any]]) -> Sequence[_Kernel]:
    steps = list(compilation.plan.steps)
    number = next((place for place, each in enumerate(steps) if each is step), None)
    graph = graph_of(compilation.model, step.graph)
    positions = positions_by_number(graph)
    return [
        _Kernel(
            kernel_name(kernel, [graph.operations[positions[each]].type.name for each in kernel.operations]),
            kernel.duration_ns,
            {
                "kernel": kernel.name,
                "how": kernel.label,
                "operations": list(kernel.operations),
                "us_when_timed_alone": kernel.duration_ns / 1e3,
            },
        )
        for each in profile(compilation)
        if each.step == number
        for kernel in each.kernels
    ]


def kernel_name(kernel: KernelTime, types: Sequence[str]) -> str:
    """Names a kernel by the types of its operations, such as `CONV_2D, RELU`."""
    if kernel.is_copy:
        return kernel.label
    different = tuple(dict.fromkeys(types))
    more = (f"{len(different) - _MAX_NAMED} more",) if len(different) > _MAX_NAMED else ()
    return ", ".join(different[:_MAX_NAMED] + more) or kernel.name


def _placed(kernels: Sequence[_Kernel], place: Span) -> list[Span]:
    total = sum(kernel.duration_ns for kernel in kernels)
    length = place.end_ns - place.start_ns
    scale = min(1.0, length / total) if total else 0.0
    spans, start = [], float(place.start_ns)
    for kernel in kernels:
        end = start + kernel.duration_ns * scale
        spans.append(
            Span(
                kernel.name,
                "kernel",
                int(start),
                int(end),
                place.process,
                place.thread,
                place.call,
                kernel.details,
            )
        )
        start = end
    return spans

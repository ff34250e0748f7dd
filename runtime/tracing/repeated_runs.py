"""Records the calls that applications make again and again.

A run of a small model takes a few microseconds, of which its record has to take little: while a
trace is taken, the usual way of a run is taken without the method, between readings of the clock.
They become spans after the trace. Everything unusual goes through the methods themselves.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from neurald.hal.execution.recorded_calls import ShortCut, Subjects
from neurald.runtime.execution.background.event import Event
from neurald.runtime.execution.program.executor import SimpleExecutor
from neurald.runtime.tracing.own_time import REPEATED
from neurald.runtime.tracing.recorded import NO_DETAILS, Later, Replace, begun, recorded, step_call
from neurald.runtime.tracing.span import STARTED, Recorder, Span

#: With more inputs the method itself is called.
_MAX_ARGUMENTS = 1 << 10


def called(name: str, category: str, owner: str | None, *, is_call: bool = True) -> Replace:
    """Returns a replacement for a method that runs a compilation, whose kernels belong to the call.

    Args:
        name: the name of the span.
        category: the category of the span.
        owner: name of the object's attribute with the compilation; None if it is the object.
        is_call: whether applications call it.
    """
    describe = Later(
        owner=owner, key="executor", describe=lambda compilation, _: (name, {"_compilation": compilation})
    )
    return recorded(category, describe, is_call=is_call)


def run(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Records `Compilation.run`."""
    short_cut = ShortCut(
        path=("_array_runs", "latest"),
        most_arguments=_MAX_ARGUMENTS,
        subjects=_repeated_calls(recorder, "run", None),
    )
    return recorder.calls.shortened(called("run", "call", None)(recorder, method), short_cut)


def compute(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Records `Execution.compute`.

    The repetition of a step by its device is not recorded, which takes a good part of the time that
    records add. Its span is made of those that are; see `REPEATED`.
    """
    describe = Later(owner="_compilation", key="executor", describe=_computed)
    full = recorded("call", describe, is_call=True)(recorder, method)

    def finish(execution: Any, done: Any) -> bool:
        if done and execution._accepts(done):
            return True
        full(execution)
        return False

    short_cut = ShortCut(
        path=("_short",),
        most_arguments=1,
        subjects=_repeated_calls(recorder, "compute", "_compilation"),
        expected=True,
        finish=finish,
    )
    return recorder.calls.shortened(full, short_cut)


def start(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Records `Execution.start_compute`, also where that repeats a short computation at once."""
    full = begun(recorder, method)

    def finish(execution: Any, done: Any) -> object:
        return True if done and execution._accepts(done) else full(execution)

    short_cut = ShortCut(
        path=("_short",),
        most_arguments=1,
        subjects=_repeated_calls(recorder, STARTED, "_compilation"),
        expected=True,
        finish=finish,
        answer=Event.ended,
    )
    return recorder.calls.shortened(full, short_cut)


#: Records calls of `Execution._ran_short` that have run.
SHORT_RUN: Final = recorded(
    "device",
    Later(owner="_compilation", key="executor", describe=lambda _, executor: _step_of(executor)),
    expected=True,
)
#: Records calls of `ArrayRuns`' functions, whose first argument is the compilation.
ON_ARRAYS: Final = recorded("device", Later(key="executor", describe=lambda _, executor: _step_of(executor)))


def _computed(compilation: Any, executor: Any) -> tuple[str, Mapping[str, Any]]:
    repeated = step_call(executor.step) if isinstance(executor, SimpleExecutor) else None
    return "compute", {"_compilation": compilation, REPEATED: repeated}


def _step_of(executor: Any) -> tuple[str, Mapping[str, Any]]:
    return step_call(executor.step) if isinstance(executor, SimpleExecutor) else ("steps", NO_DETAILS)


def _repeated_calls(recorder: Recorder, name: str, owner: str | None) -> Subjects:
    """Returns what tells repeated calls apart.

    Args:
        recorder: knows the process.
        name: the name of the calls.
        owner: name of the attribute with the compilation; None if it is the object.
    """
    process = recorder.process

    def find(compilation: Any, executor: Any) -> int:
        def expand(start: int, end: int, thread: int, call: int, note: bytes) -> tuple[Span, ...]:
            del note
            step, details = _step_of(executor)
            return (
                # Where both take as long, the first one contains the second.
                Span(name, "call", start, end, process, thread, call, {"_compilation": compilation}),
                Span(step, "device", start, end, process, thread, call, details),
            )

        return recorder.subject_of(name, executor, lambda: expand)

    return Subjects(owner=owner, find=find)

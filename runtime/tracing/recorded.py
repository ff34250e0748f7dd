"""Replacements of methods, which record their calls while a trace is taken."""

import time
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final, TypeAlias

from msgspec import Struct

from neurald.hal.cache.store import Miss
from neurald.hal.execution.recorded_calls import CALL_BITS, PartOf, Subjects, UnusualResults
from neurald.runtime.tracing.span import STARTED, ExpandCall, Recorder, Span, failure

#: The name of a span; or a function that returns its name and details, from the arguments of the
#: call and its result; or what finds them later, or if nothing was found.
Describe: TypeAlias = "str | Callable[[tuple[Any, ...], Any], tuple[str, Mapping[str, Any]]] | Later | LookUp"
#: Makes the replacement of a method.
Replace: TypeAlias = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]

NO_DETAILS: Final[Mapping[str, Any]] = {}
_HIT: Final[Mapping[str, Any]] = {"hit": True}
#: The details of a look-up that has raised an exception.
_FAILED: Final[Mapping[str, Any]] = {"hit": False, "reason": "the look-up has failed"}


class Later(Struct, frozen=True, kw_only=True):
    """Describes a span when the trace has ended, by what the object of the method has.

    Attributes:
        owner: name of the object's attribute with the owner of the key; None if it is the object.
        key: name of the owner's attribute on which the description depends.
        describe: returns the name and details from both.
    """

    owner: str | None = None
    key: str
    describe: Callable[[Any, Any], tuple[str, Mapping[str, Any]]]


class LookUp(Struct, frozen=True, kw_only=True):
    """Describes a look-up, whose result is a `Miss` or None if there was nothing.

    Attributes:
        name: the name of the span.
    """

    name: str


def _fixed(process: int, name: str, category: str, details: Mapping[str, Any]) -> ExpandCall:
    """Returns what makes spans of calls that are all described alike."""

    def expand(start: int, end: int, thread: int, call: int, note: bytes) -> tuple[Span, ...]:
        del note
        return (Span(name, category, start, end, process, thread, call, details),)

    return expand


def _subjects(recorder: Recorder, category: str, later: Later) -> Subjects:
    """Returns what tells apart calls that are described later."""
    place = f"{category} {later.owner} {later.key} {id(later)}"

    def find(owner: Any, key: Any) -> int:
        def expand(start: int, end: int, thread: int, call: int, note: bytes) -> tuple[Span, ...]:
            del note
            name, details = later.describe(owner, key)
            return (Span(name, category, start, end, recorder.process, thread, call, details),)

        return recorder.subject_of(place, key, lambda: expand)

    return Subjects(owner=later.owner, key=later.key, find=find)


def recorded(category: str, describe: Describe, *, is_call: bool = False, expected: object = None) -> Replace:
    """Returns a replacement that records each call as a span.

    Args:
        category: the category of the span.
        describe: its name, or what finds it.
        is_call: whether applications call the method.
        expected: for a `Later`, what calls return that are recorded, unless they fail; None for
            anything.
    """
    if isinstance(describe, str):
        return partial(_named, describe, category, is_call)
    if isinstance(describe, Later):
        return partial(_described_later, describe, category, is_call, expected)
    if isinstance(describe, LookUp):
        return partial(_looked_up, describe.name, category, is_call)
    return partial(_described, describe, category, is_call)


def _named(
    name: str, category: str, is_call: bool, recorder: Recorder, method: Callable[..., Any]
) -> Callable[..., Any]:
    subject = recorder.subject(_fixed(recorder.process, name, category, NO_DETAILS))
    return recorder.calls.recorded(method, subject, is_call=is_call)


def _looked_up(
    name: str, category: str, is_call: bool, recorder: Recorder, method: Callable[..., Any]
) -> Callable[..., Any]:
    # Those of reasons why nothing was found.
    subjects: dict[str, int] = {}

    def subject_of(details: Mapping[str, Any]) -> int:
        return recorder.subject(_fixed(recorder.process, name, category, details))

    def missed(result: Miss | None) -> int:
        reason = "" if result is None else result.reason
        if reason not in subjects:
            subjects[reason] = subject_of({"hit": False, "reason": reason or "there is no such entry"})
        return subjects[reason]

    return recorder.calls.recorded(
        method,
        subject_of(_HIT),
        is_call=is_call,
        otherwise=subject_of(_FAILED),
        unusual=UnusualResults(kind=Miss, find=missed),
    )


def _described_later(
    later: Later,
    category: str,
    is_call: bool,
    expected: object,
    recorder: Recorder,
    method: Callable[..., Any],
) -> Callable[..., Any]:
    subjects = _subjects(recorder, category, later)
    return recorder.calls.recorded(method, subjects, is_call=is_call, expected=expected)


def _described(
    describe: Callable[[tuple[Any, ...], Any], tuple[str, Mapping[str, Any]]],
    category: str,
    is_call: bool,
    recorder: Recorder,
    method: Callable[..., Any],
) -> Callable[..., Any]:
    @wraps(method)
    def part(*arguments: Any, **named: Any) -> Any:
        start = time.monotonic_ns()
        try:
            result = method(*arguments, **named)
        except BaseException as error:
            name, details = describe(arguments, None)
            recorder.add(name, category, start, {**details, **failure(error)})
            raise
        end = time.monotonic_ns()
        name, details = describe(arguments, result)
        recorder.add(name, category, start, details, end)
        return result

    if not is_call:
        return part

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        thread = recorder.thread
        if thread.call:
            return part(*arguments, **named)
        with recorder.as_part_of(recorder.next_call()):
            return part(*arguments, **named)

    return call


def handed_over(name: str, *, is_method: bool = False) -> Replace:
    """Returns a replacement for what has another thread run a function, as part of the same call.

    Args:
        name: the name of the span from here to the end of the function.
        is_method: whether the function is the second argument, after the object of a method,
            instead of the first one.
    """

    def replace(recorder: Recorder, submit: Callable[..., Any]) -> Callable[..., Any]:
        threads, now, next_call = recorder.threads, time.monotonic_ns, recorder.next_call
        expand, add = partial(_thread_spans, recorder.process), recorder.add_record

        # Calls of this by `partial` take less time than a function that each submission makes.
        def run(submitted: int, number: int, work: Callable[[], Any]) -> Any:
            thread = threads.state
            outer, thread.call = thread.call, number
            begun = now()
            try:
                return work()
            finally:
                end = now()
                thread.call = outer
                add(expand, submitted, end, thread.number, number, name, begun)

        def numbered(work: Callable[[], Any]) -> Callable[[], Any]:
            return partial(run, now(), threads.state.call or next_call(), work)

        if is_method:

            @wraps(submit)
            def call_method(instance: Any, work: Callable[[], Any], *others: Any) -> Any:
                return submit(instance, numbered(work), *others)

            return call_method

        @wraps(submit)
        def call(work: Callable[[], Any], *others: Any) -> Any:
            return submit(numbered(work), *others)

        return call

    return replace


def _thread_spans(
    process: int, submitted: int, end: int, thread: int, call: int, name: str, begun: int, *_: None
) -> tuple[Span, ...]:
    """Makes the spans of a function that another thread has run.

    Args:
        process: its number.
        submitted, begun, end: when it was handed over, began and had ended.
        thread, call: the thread and call that ran it.
        name: the name of the whole.
    """
    return (
        Span("wait for a thread", "step", submitted, begun, process, thread, call),
        Span("run in the thread", "step", begun, end, process, thread, call),
        Span(name, "call", submitted, end, process, thread, call),
    )


def begun(recorder: Recorder, start: Callable[..., Any]) -> Callable[..., Any]:
    """Records a call that begins an execution; see `awaited` for waits for its event."""

    def find(compilation: Any, executor: Any) -> int:
        def expand(start_ns: int, end_ns: int, thread: int, call: int, note: bytes) -> tuple[Span, ...]:
            del note
            return recorder.beginnings.started(start_ns, end_ns, thread, call, compilation)

        # Those of `repeated_runs.start` have another number.
        return recorder.subject_of(f"{STARTED} in the background", executor, lambda: expand)

    return recorder.calls.recorded(start, Subjects(owner="_compilation", find=find), is_call=True)


def finished_by_waiting(recorder: Recorder, finish_by: Callable[..., None]) -> Callable[..., None]:
    """Remembers the call that begins an execution, in its event, if waits for that finish it."""
    threads, trace = recorder.threads, recorder.number << CALL_BITS

    @wraps(finish_by)
    def call(event: Any, finish: Callable[[float | None], bool]) -> None:
        event.began_in = trace + threads.state.call
        finish_by(event, finish)

    return call


def awaited(recorder: Recorder, wait: Callable[..., bool]) -> Callable[..., bool]:
    """Records the wait for an event as part of the call that began its execution."""
    return recorder.calls.recorded(
        wait,
        recorder.subject(recorder.beginnings.ended),
        is_call=False,
        expected=True,
        otherwise=recorder.subject(recorder.beginnings.awaited),
        part_of=PartOf(attribute="began_in", trace=recorder.number),
    )


def enqueued(recorder: Recorder, enqueue: Callable[..., Any]) -> Callable[..., Any]:
    """Records what a call leaves to a thread in the background as part of this call."""

    @wraps(enqueue)
    def call(owner: Any, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        number = recorder.thread.call

        def numbered(*inner: Any) -> Any:
            with recorder.as_part_of(number):
                start = time.monotonic_ns()
                try:
                    return work(*inner)
                finally:
                    recorder.add("prepare in the background", "compile", start)

        return enqueue(owner, name, numbered, *arguments)

    return call


def prepared(arguments: tuple[Any, ...], result: Any) -> tuple[str, Mapping[str, Any]]:
    """Describes the preparation of a step."""
    details: dict[str, Any] = {"operations": len(arguments[2].main.operations)}
    if result is not None:
        details |= {"cache": result.report.cache.value, "reason": result.report.reason}
    return f"prepare on {arguments[1].name}", details


def step_call(step: Any) -> tuple[str, Mapping[str, Any]]:
    """Names a call of a step's device; the step itself is kept for its kernels.

    Args:
        step: an `ExecutionStep`.
    """
    return f"step on {step.device.name}", {"operations": len(step.operations), "_step": step}


#: Describes a call of a `RecoveringStep`.
STEP: Final = Later(key="_step", describe=lambda _, step: step_call(step))

"""Replacements of methods, which record their calls while a trace is taken."""

import time
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final, TypeAlias

from msgspec import Struct

from neurald.hal.cache.store import Miss
from neurald.runtime.tracing.span import Recorder, Span, failure

#: The name of a span; or a function that returns its name and details, from the arguments of the
#: call and its result; or what does so later.
Describe: TypeAlias = "str | Callable[[tuple[Any, ...], Any], tuple[str, Mapping[str, Any]]] | Later"
#: Makes the replacement of a method.
Replace: TypeAlias = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]

NO_DETAILS: Final[Mapping[str, Any]] = {}
_HIT: Final[Mapping[str, Any]] = {"hit": True}


class Later(Struct, frozen=True):
    """Describes a span when the trace has ended.

    Attributes:
        subject: returns from the arguments of the call what is kept until then.
        describe: returns the name and details from that.
    """

    subject: Callable[[tuple[Any, ...]], Any]
    describe: Callable[[Any], tuple[str, Mapping[str, Any]]]


def _span(
    process: int, name: str, category: str, start: int, end: int, thread: int, call: int
) -> tuple[Span, ...]:
    return (Span(name, category, start, end, process, thread, call),)


def recorded(category: str, describe: Describe, *, is_call: bool = False) -> Replace:
    """Returns a replacement that records each call as a span.

    Args:
        category: of the span.
        describe: its name, or what finds it.
        is_call: whether applications call the method.
    """
    name = describe if isinstance(describe, str) else ""
    later = describe if isinstance(describe, Later) else None
    described: Any = describe

    def found(arguments: tuple[Any, ...], result: Any) -> tuple[str, Mapping[str, Any]]:
        if name:
            return name, NO_DETAILS
        found_now: tuple[str, Mapping[str, Any]] = (
            described(arguments, result) if later is None else later.describe(later.subject(arguments))
        )
        return found_now

    def replace(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
        if name and recorder.native is not None:
            subject = recorder.subject(partial(_span, recorder.process, name, category))
            return recorder.native.recorded(method, subject, is_call=is_call)
        threads, now, extend, values = recorder.threads, time.monotonic_ns, recorder.extend, recorder.values
        most, span = recorder.most_values, recorder.span

        def span_later(
            start: int, end: int, thread: int, call: int, kept: Any, described: Later, *_: None
        ) -> tuple[Span, ...]:
            found_name, details = described.describe(kept)
            return span(start, end, thread, call, found_name, category, details, None)

        @wraps(method)
        def part(*arguments: Any, **named: Any) -> Any:
            start = now()
            try:
                result = method(*arguments, **named)
            except BaseException as error:
                found_name, details = found(arguments, None)
                recorder.add(found_name, category, start, {**details, **failure(error)})
                raise
            # As little as possible, since a call has a dozen parts.
            end, thread = now(), threads.state
            if name:
                extend((span, start, end, thread.number, thread.call, name, category, None, None))
            elif later is not None:
                kept = later.subject(arguments)
                extend((span_later, start, end, thread.number, thread.call, kept, later, None, None))
            else:
                found_name, details = described(arguments, result)
                extend((span, start, end, thread.number, thread.call, found_name, category, details, None))
            if len(values) > most:
                recorder.trim()
            return result

        if not is_call:
            return part

        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            thread = threads.state
            if thread.call:
                return part(*arguments, **named)
            thread.call = recorder.next_call()
            try:
                return part(*arguments, **named)
            finally:
                thread.call = 0

        return call

    return replace


def handed_over(name: str, position: int = 0) -> Replace:
    """Returns a replacement for what has a function run in another thread, as part of the same call.

    Args:
        name: of the span from here to the end of the function.
        position: of the function among the arguments.
    """

    def replace(recorder: Recorder, submit: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(submit)
        def call(*arguments: Any) -> Any:
            work, submitted = arguments[position], time.monotonic_ns()
            number = recorder.thread.call or recorder.next_call()

            def numbered() -> Any:
                with recorder.as_part_of(number):
                    begun = time.monotonic_ns()
                    try:
                        return work()
                    finally:
                        end = time.monotonic_ns()
                        recorder.add("wait for a thread", "step", submitted, end_ns=begun)
                        recorder.add("run in the thread", "step", begun, end_ns=end)
                        recorder.add(name, "call", submitted, end_ns=end)

            return submit(*arguments[:position], numbered, *arguments[position + 1 :])

        return call

    return replace


def begun(recorder: Recorder, start: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers the call that began an execution, for those who wait for its event."""
    threads, next_call, events = recorder.threads, recorder.next_call, recorder.events

    @wraps(start)
    def call(*arguments: Any, **named: Any) -> Any:
        thread = threads.state
        outer = thread.call
        thread.call = number = outer or next_call()
        submitted = time.monotonic_ns()
        details: dict[str, Any] = {"_compilation": arguments[0]._compilation}
        try:
            event = start(*arguments, **named)
        except BaseException as error:
            details |= failure(error)
            raise
        finally:
            started = time.monotonic_ns()
            recorder.add("start to compute", "call", submitted, details, started)
            thread.call = outer
        if event.is_finished_by_waiting:
            events[event] = number, submitted, started
        return event

    return call


def awaited(recorder: Recorder, wait: Callable[..., Any]) -> Callable[..., Any]:
    """Has the wait for an event be part of the call that began its execution."""

    @wraps(wait)
    def call(event: Any, *arguments: Any) -> Any:
        begun = recorder.events.get(event)
        if begun is None:
            return wait(event, *arguments)
        number, submitted, started = begun
        with recorder.as_part_of(number):
            start = time.monotonic_ns()
            try:
                return wait(event, *arguments)
            finally:
                end = time.monotonic_ns()
                recorder.add("wait for the event", "step", start, end_ns=end)
                if event.is_signalled and recorder.events.pop(event, None) is not None:
                    recorder.add("under way", "step", started, end_ns=end)
                    recorder.add("compute in the background", "call", submitted, end_ns=end)

    return call


def enqueued(recorder: Recorder, enqueue: Callable[..., Any]) -> Callable[..., Any]:
    """Has what a call leaves to a thread in the background be part of this call."""

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


def looked_up(name: str) -> Describe:
    """Describes a look-up, whose result is a `Miss` or None if there was nothing."""

    def describe(arguments: tuple[Any, ...], result: Any) -> tuple[str, Mapping[str, Any]]:
        del arguments
        if result is not None and not isinstance(result, Miss):
            return name, _HIT
        return name, {"hit": False, "reason": getattr(result, "reason", "") or "there is no such entry"}

    return describe


def step_call(step: Any) -> tuple[str, Mapping[str, Any]]:
    """Names a call of a step's device; the step itself is kept for its kernels.

    Args:
        step: an `ExecutionStep`.
    """
    return f"step on {step.device.name}", {"operations": len(step.operations), "_step": step}


#: Describes a call of a `RecoveringStep`.
STEP: Final = Later(lambda arguments: arguments[0]._step, step_call)

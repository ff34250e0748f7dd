"""Records the calls that applications make again and again.

A run of a small model takes a few microseconds, of which its record has to take little: while a trace
is taken, the usual way of a run is here, between readings of the clock. One tuple holds them, and
becomes spans after the trace. Everything unusual goes through the methods themselves.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from neurald.hal.execution.recorded_calls import ShortCut
from neurald.runtime.execution.burst import Burst
from neurald.runtime.execution.program.executor import SimpleExecutor
from neurald.runtime.tracing.recorded import NO_DETAILS, Later, Replace, recorded, step_call
from neurald.runtime.tracing.span import Recorder, Span, failure

#: With more inputs the method itself is called.
_MAX_ARGUMENTS = 1 << 10


def called(name: str, category: str, compilation: Callable[[Any], Any], *, is_call: bool = True) -> Replace:
    """Returns a replacement for a method that runs a compilation, whose kernels belong to the call.

    Args:
        name: of the span.
        category: of the span.
        compilation: returns the compilation of the object whose method is called.
        is_call: whether applications call it.
    """
    describe = Later(
        lambda arguments: compilation(arguments[0]), lambda found: (name, {"_compilation": found})
    )
    return recorded(category, describe, is_call=is_call)


def compilation_of(execution: Any) -> Any:
    """Returns the compilation of an execution."""
    return execution._compilation


def itself(compilation: Any) -> Any:
    """Returns the compilation."""
    return compilation


def run(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Records `Compilation.run`."""
    threads, now, extend, values = recorder.threads, time.monotonic_ns, recorder.extend, recorder.values
    next_call, most, expand = recorder.next_call, recorder.most_values, _RepeatedCall(recorder, "run")
    full = called("run", "call", itself)(recorder, method)

    @wraps(method)
    def call(compilation: Any, *arrays: Any) -> Any:
        function = compilation._array_runs.latest
        if function is None:
            return full(compilation, *arrays)
        thread = threads.state
        outer = thread.call
        thread.call = number = outer or next_call()
        try:
            start = now()
            outputs = function(*arrays)
            end = now()
        except BaseException as error:
            recorder.add("run", "call", start, failure(error))
            raise
        finally:
            thread.call = outer
        if outputs is None:
            return full(compilation, *arrays)
        executor = compilation.executor
        extend((expand, start, end, thread.number, number, start, compilation, executor, None))
        if len(values) > most:
            recorder.trim()
        return outputs

    if recorder.native is None:
        return call
    short_cut = ShortCut(
        path=("_array_runs", "latest"), most_arguments=_MAX_ARGUMENTS, subject=expand.subject
    )
    return recorder.native.shortened(call, short_cut)


def compute(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Records `Execution.compute`."""
    threads, now, extend, values = recorder.threads, time.monotonic_ns, recorder.extend, recorder.values
    next_call, most, expand = recorder.next_call, recorder.most_values, _RepeatedCall(recorder, "compute")
    callers = recorder.callers
    full = called("compute", "call", compilation_of)(recorder, method)

    def in_full(execution: Any, burst: Any) -> None:
        if execution._reusable and callers.get(id(execution)) is not execution:
            callers[id(execution)] = execution
            execution.forget_fast_paths()
        full(execution, burst=burst)

    @wraps(method)
    def call(execution: Any, *, burst: Any = None) -> None:
        short = execution._short
        if short is None:
            in_full(execution, burst)
            return
        thread = threads.state
        outer = thread.call
        thread.call = number = outer or next_call()
        try:
            if burst is None:
                start = begun = now()
                done = short()
                end = now()
            elif burst.__class__ is Burst:
                start = now()
                user = object()
                try:
                    burst.begin_use(execution._compilation, user)
                    begun = now()
                    done = short()
                    end = now()
                finally:
                    if burst.use.user is user:
                        burst.use.user = None
            else:
                done = False
        except BaseException as error:
            recorder.add("compute", "call", start, failure(error))
            raise
        finally:
            thread.call = outer
        if done is not True and not (done and execution._accepts(done)):
            in_full(execution, burst)
            return
        compilation = execution._compilation
        executor = compilation.executor
        extend((expand, start, end, thread.number, number, begun, compilation, executor, None))
        if len(values) > most:
            recorder.trim()

    if recorder.native is None:
        return call

    def finish(execution: Any, done: Any) -> bool:
        if done and execution._accepts(done):
            return True
        in_full(execution, None)
        return False

    short_cut = ShortCut(
        path=("_short",),
        most_arguments=1,
        owner="_compilation",
        subject=expand.subject,
        expected=True,
        finish=finish,
    )
    return recorder.native.shortened(call, short_cut)


def done(name: str) -> Replace:
    """Returns a replacement for a method that returns whether it did anything, recorded if it did."""

    def replace(recorder: Recorder, method: Callable[..., bool]) -> Callable[..., bool]:
        threads, now, extend, span = recorder.threads, time.monotonic_ns, recorder.extend, recorder.span

        @wraps(method)
        def call(*arguments: Any) -> bool:
            start = now()
            has_run = method(*arguments)
            if has_run:
                end, thread = now(), threads.state
                # Others that are recorded with it trim the records.
                extend((span, start, end, thread.number, thread.call, name, "step", None, None))
            return has_run

        return call

    return replace


def short_run(recorder: Recorder, method: Callable[..., bool]) -> Callable[..., bool]:
    """Records `Execution._ran_short`, if it has run."""

    @wraps(method)
    def call(execution: Any) -> bool:
        start = time.monotonic_ns()
        has_run = method(execution)
        if has_run:
            name, details = _step_of(execution._compilation.executor)
            recorder.add(name, "device", start, details)
        return has_run

    return call


def on_arrays(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Records calls of `ArrayRuns`' functions."""

    @wraps(method)
    def call(compilation: Any, function: Any, inputs: Sequence[Any]) -> Any:
        start = time.monotonic_ns()
        try:
            return method(compilation, function, inputs)
        finally:
            name, details = _step_of(compilation.executor)
            recorder.add(name, "device", start, details)

    return call


def native(recorder: Recorder, create: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces a method that returns a function, so that the calls of that function are recorded."""

    @wraps(create)
    def make(*arguments: Any, **named: Any) -> Any:
        begun = time.monotonic_ns()
        function = create(*arguments, **named)
        recorder.add("bind", "step", begun)
        if function is None:
            return None
        name, details = step_call(arguments[0]._step)
        threads, now, extend, values = recorder.threads, time.monotonic_ns, recorder.extend, recorder.values
        most, span = recorder.most_values, recorder.span

        def call(*inner: Any) -> Any:
            start = now()
            try:
                return function(*inner)
            finally:
                # As fast as `Recorder.add` can be, since this is a part of each run.
                end, thread = now(), threads.state
                extend((span, start, end, thread.number, thread.call, name, "device", details, None))
                if len(values) > most:
                    recorder.trim()

        return call

    return make


def _step_of(executor: Any) -> tuple[str, Mapping[str, Any]]:
    return step_call(executor.step) if isinstance(executor, SimpleExecutor) else ("steps", NO_DETAILS)


class _RepeatedCall:
    """Makes the spans of a repeated call: the call, and its step, which is most of it.

    Args:
        recorder: knows the process.
        name: of the call.
    """

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._process = recorder.process
        self._name = name
        self._recorder = recorder

    def subject(self, compilation: Any, executor: Any) -> int:
        """Returns a number for calls of a compilation that native code records."""

        def expand(start: int, end: int, thread: int, call: int) -> tuple[Span, ...]:
            return self(start, end, thread, call, start, compilation, executor, None)

        return self._recorder.subject(expand)

    def __call__(
        self,
        start: int,
        end: int,
        thread: int,
        call: int,
        begun: int,
        compilation: Any,
        executor: Any,
        _: None,
    ) -> tuple[Span, ...]:
        name, details = _step_of(executor)
        process = self._process
        return (
            # Where both take as long, the first one contains the second.
            Span(self._name, "call", start, end, process, thread, call, {"_compilation": compilation}),
            Span(name, "device", begun, end, process, thread, call, details),
        )

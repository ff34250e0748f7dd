"""The methods whose calls are recorded, and how they are while a trace is taken.

A method is replaced by one that records its calls when a trace begins, and put back when it ends.
So the library does nothing for traces while none is taken.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from importlib import import_module
from typing import Any, Final, TypeAlias

from msgspec import Struct

from neurald.hal.cache.store import Miss
from neurald.hal.rpc.transport.call_times import CallTimes, times_from, trace_header
from neurald.runtime.tracing.span import Recorder

#: Returns name and details of a span, from the arguments of the call and its result.
Describe: TypeAlias = Callable[[tuple[Any, ...], Any], tuple[str, Mapping[str, Any]]]
#: Makes the replacement of a method.
Replace: TypeAlias = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]

_NO_DETAILS: Final[Mapping[str, Any]] = {}
_HIT: Final[Mapping[str, Any]] = {"hit": True}


class TracePoint(Struct, frozen=True, kw_only=True):
    """A method or function.

    Attributes:
        module: where its class is.
        owner: the class; empty for a function of the module.
        method: the method, or the name of a function where it is used.
        replace: makes its replacement.
    """

    module: str
    owner: str
    method: str
    replace: Replace


def _named(name: str) -> Describe:
    return lambda arguments, result: (name, _NO_DETAILS)


def recorded(category: str, describe: Describe, *, is_call: bool = False) -> Replace:
    """Returns a replacement that records each call as a span.

    Args:
        category: of the span.
        describe: names it.
        is_call: whether applications call the method.
    """

    def replace(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            begun = recorder.begin_call() if is_call else 0
            start = time.monotonic_ns()
            try:
                result = method(*arguments, **named)
            except BaseException as error:
                name, details = describe(arguments, None)
                recorder.add(name, category, start, {**details, "error": f"{type(error).__name__}: {error}"})
                raise
            else:
                name, details = describe(arguments, result)
                recorder.add(name, category, start, details)
                return result
            finally:
                if begun:
                    recorder.end_call()

        return call

    return replace


def _run(name: str, details: Callable[[Any], Mapping[str, Any]], *, has_fast_paths: bool = True) -> Replace:
    """Returns a replacement for a method that applications call again and again.

    It is made for speed, since what it takes is a part of each run.

    Args:
        name: of the span.
        details: returns those of an object whose method is called.
        has_fast_paths: whether the object is to forget, at its first call, what was made before
            the trace.
    """

    def replace(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
        callers, threads, now = recorder.callers, recorder.threads, time.monotonic_ns
        next_call, append, count = recorder.next_call, recorder.append, recorder.count
        process = recorder.process

        @wraps(method)
        def call(owner: Any, *arguments: Any, **named: Any) -> Any:
            known = callers.get(id(owner))
            if known is None:
                # The object is kept, since another one could get its address.
                known = callers[id(owner)] = owner, details(owner)
                if has_fast_paths:
                    owner.forget_fast_paths()
            thread = threads.state
            is_outer = not thread.call
            if is_outer:
                thread.call = next_call()
            start = now()
            try:
                result = method(owner, *arguments, **named)
            except BaseException as error:
                failed = {**known[1], "error": f"{type(error).__name__}: {error}"}
                append((name, "call", start, now(), process, thread.number, thread.call, failed))
                raise
            else:
                append((name, "call", start, now(), process, thread.number, thread.call, known[1]))
                return result
            finally:
                count()
                if is_outer:
                    thread.call = 0

        return call

    return replace


def _handed_over(name: str, position: int = 0) -> Replace:
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
                    recorder.add("wait for a thread", "step", submitted)
                    try:
                        return work()
                    finally:
                        recorder.add(name, "call", submitted)

            return submit(*arguments[:position], numbered, *arguments[position + 1 :])

        return call

    return replace


def _begun(recorder: Recorder, start: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers the call that began an execution, for those who wait for its event."""
    begun = recorded("call", _named("start to compute"), is_call=True)(recorder, start)

    @wraps(start)
    def call(*arguments: Any, **named: Any) -> Any:
        submitted, number = time.monotonic_ns(), recorder.thread.call or recorder.next_call()
        with recorder.as_part_of(number):
            event = begun(*arguments, **named)
        if event.is_finished_by_waiting:
            recorder.events[event] = number, submitted
        return event

    return call


def _awaited(recorder: Recorder, wait: Callable[..., Any]) -> Callable[..., Any]:
    """Has the wait for an event be part of the call that began its execution."""

    @wraps(wait)
    def call(event: Any, *arguments: Any) -> Any:
        begun = recorder.events.get(event)
        if begun is None:
            return wait(event, *arguments)
        number, submitted = begun
        with recorder.as_part_of(number):
            start = time.monotonic_ns()
            try:
                return wait(event, *arguments)
            finally:
                recorder.add("wait for the event", "step", start)
                if event.is_signalled and recorder.events.pop(event, None) is not None:
                    recorder.add("compute in the background", "call", submitted)

    return call


def _native(recorder: Recorder, create: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces a method that returns a function, so that the calls of that function are recorded."""

    @wraps(create)
    def make(*arguments: Any, **named: Any) -> Any:
        begun = time.monotonic_ns()
        function = create(*arguments, **named)
        recorder.add("bind", "step", begun)
        if function is None:
            return None
        name, details = _step(arguments, None)
        threads, append, count = recorder.threads, recorder.append, recorder.count
        process, now = recorder.process, time.monotonic_ns

        def call(*inner: Any, **more: Any) -> Any:
            start = now()
            try:
                return function(*inner, **more)
            finally:
                # As fast as `Recorder.add` can be, since this is a part of each run.
                end, thread = now(), threads.state
                append((name, "device", start, end, process, thread.number, thread.call, details))
                count()

        return call

    return make


def _step(arguments: tuple[Any, ...], result: Any) -> tuple[str, Mapping[str, Any]]:
    """Names a call of a step's device; the step itself is kept for its kernels."""
    del result
    step = arguments[0]._step
    return f"step on {step.device.name}", {"operations": len(step.operations), "_step": step}


def _prepared(arguments: tuple[Any, ...], result: Any) -> tuple[str, Mapping[str, Any]]:
    details: dict[str, Any] = {"operations": len(arguments[2].main.operations)}
    if result is not None:
        details |= {"cache": result.report.cache.value, "reason": result.report.reason}
    return f"prepare on {arguments[1].name}", details


def _looked_up(name: str) -> Describe:
    """Describes a look-up, whose result is a `Miss` or None if there was nothing."""

    def describe(arguments: tuple[Any, ...], result: Any) -> tuple[str, Mapping[str, Any]]:
        del arguments
        if result is not None and not isinstance(result, Miss):
            return name, _HIT
        return name, {"hit": False, "reason": getattr(result, "reason", "") or "there is no such entry"}

    return describe


def _submitted(recorder: Recorder, submit: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for stamps of each call that is submitted."""

    @wraps(submit)
    def call(peer: Any, *arguments: Any, **named: Any) -> Any:
        peer.want_stamps(recorder.thread.call or _UNNUMBERED)
        recorder.stamped.add(peer)
        exchange, start = recorder.exchanges[peer] = recorder.next_exchange(), time.monotonic_ns()
        try:
            return submit(peer, *arguments, **named)
        finally:
            recorder.add("submit to the ring", "device", start, {"exchange": exchange})

    return call


def _completed(recorder: Recorder, complete: Callable[..., Any]) -> Callable[..., Any]:
    """Records the wait for a daemon, and what the daemon did meanwhile."""

    @wraps(complete)
    def call(peer: Any, *arguments: Any, **named: Any) -> Any:
        start = time.monotonic_ns()
        try:
            return complete(peer, *arguments, **named)
        finally:
            end = time.monotonic_ns()
            recorder.add("wait for the daemon", "device", start, end_ns=end)
            stamps = peer.stamps()
            exchange, submitted = recorder.exchanges.get(peer, (0, start))
            times = (stamps.arrived_ns, stamps.admitted_ns, stamps.ended_ns, stamps.replied_ns)
            # The daemon may write anything.
            if (
                stamps.number == (recorder.thread.call or _UNNUMBERED)
                and list(times) == sorted(times)
                and submitted <= times[0]
                and times[-1] <= end
            ):
                recorder.add_daemon(exchange, stamps.process, times)

    return call


class _Stub:
    """Makes a call like a stub of gRPC, and keeps what the daemon sent after the reply."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._call: Any = None

    def __call__(self, message: Any, **named: Any) -> Any:
        if hasattr(self._stub, "with_call"):
            reply, self._call = self._stub.with_call(message, **named)
            return reply
        self._call = self._stub(message, **named)
        return self._call

    def future(self, message: Any, **named: Any) -> Any:
        self._call = self._stub.future(message, **named)
        return self._call

    def times(self) -> CallTimes | None:
        """Returns the times of a call that has succeeded."""
        return times_from(self._call.trailing_metadata())


def _add_exchange(
    recorder: Recorder, connection: Any, method: str, stub: _Stub, start: int, exchange: int, end: int
) -> None:
    """Adds what a daemon did for a call that has succeeded."""
    times = stub.times()
    times = None if times is None else times.shifted(start, end)
    if times is not None:
        host = "" if connection.is_local else connection.host
        process = recorder.process_on(host, times.process) if host else times.process
        recorder.add_call(method, exchange, process, times, host)


def _unused(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces a method by one that returns None, so that its caller takes a way that is recorded."""
    del recorder, method
    return lambda *_: None


def _invoked(recorder: Recorder, invoke: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for the times of each call."""

    @wraps(invoke)
    def call(connection: Any, method: str, stub: Any, *arguments: Any) -> Any:
        traced, exchange = _Stub(stub), recorder.next_exchange()
        message, timeout_s, metadata, *others = arguments
        asking = (*metadata, trace_header(recorder.trace_id, recorder.thread.call))
        start = time.monotonic_ns()
        try:
            reply = invoke(connection, method, traced, message, timeout_s, asking, *others)
        finally:
            end = time.monotonic_ns()
            recorder.add(f"call {method}", "device", start, {"exchange": exchange}, end)
        _add_exchange(recorder, connection, method, traced, start, exchange, end)
        return reply

    return call


def _streamed(recorder: Recorder, replies: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for the times of each call with many replies."""

    @wraps(replies)
    def call(connection: Any, method: str, stub: Any, *arguments: Any) -> Iterator[bytes]:
        traced, exchange = _Stub(stub), recorder.next_exchange()
        messages, timeout_s, metadata, *others = arguments
        asking = (*metadata, trace_header(recorder.trace_id, recorder.thread.call))
        start = time.monotonic_ns()
        try:
            yield from replies(connection, method, traced, messages, timeout_s, asking, *others)
        finally:
            end = time.monotonic_ns()
            recorder.add(f"call {method}", "device", start, {"exchange": exchange}, end)
        _add_exchange(recorder, connection, method, traced, start, exchange, end)

    return call


def _enqueued(recorder: Recorder, enqueue: Callable[..., Any]) -> Callable[..., Any]:
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


#: The number of calls outside of any call of the application.
_UNNUMBERED: Final = 2**32 - 1

_CACHE: Final = "neurald.hal.cache.store"
_BUILDER: Final = "neurald.runtime.compilation_builder"
_PREPARER: Final = "neurald.runtime.plan.preparer"
_CACHED: Final = "neurald.runtime.plan.cached_preparation"
_EXECUTION: Final = "neurald.runtime.execution.execution"
_FUNCTION: Final = "neurald.runtime.function.compiled_function"
_STEP: Final = "neurald.runtime.execution.recovery.recovering_step"

TRACE_POINTS: Final[tuple[TracePoint, ...]] = tuple(
    TracePoint(module=module, owner=owner, method=method, replace=replace)
    for module, owner, method, replace in (
        ("neurald", "", "load_tflite", recorded("call", _named("load"), is_call=True)),
        ("neurald", "", "compile", recorded("call", _named("nd.compile"), is_call=True)),
        ("neurald.runtime.function.compile", "", "load_tflite", recorded("compile", _named("load"))),
        ("neurald.runtime.tflite.load", "", "file_content", recorded("compile", _named("map the file"))),
        ("neurald.runtime.tflite.load", "", "_convert", recorded("compile", _named("convert the file"))),
        (
            "neurald.runtime.tflite.kept.converted",
            "ConvertedFile",
            "__init__",
            recorded("compile", _named("identify the file")),
        ),
        (
            "neurald.runtime.tflite.kept.converted",
            "ConvertedFile",
            "load",
            recorded("compile", _looked_up("load the converted file")),
        ),
        (
            "neurald.runtime.tflite.kept.converted",
            "ConvertedFile",
            "store",
            recorded("compile", _named("store the converted file")),
        ),
        (
            "neurald.runtime.function.compile",
            "",
            "with_outputs",
            recorded("compile", _named("find values to keep")),
        ),
        (_BUILDER, "CompilationBuilder", "__init__", recorded("compile", _named("check the options"))),
        (_BUILDER, "", "devices", recorded("compile", _named("find devices"))),
        (
            "neurald.runtime.partitioning.candidates",
            "",
            "find_candidates",
            recorded("compile", _named("ask devices")),
        ),
        (
            "neurald.runtime.partitioning.partitioner",
            "",
            "partition",
            recorded("compile", _named("choose devices")),
        ),
        (_BUILDER, "CompilationBuilder", "_is_supported", recorded("compile", _named("ask devices"))),
        (_BUILDER, "CompilationBuilder", "_compilation", recorded("compile", _named("make ready to run"))),
        (_PREPARER, "Preparer", "load", recorded("compile", _named("load from the cache"))),
        (_BUILDER, "CompilationBuilder", "_cpu_guard", recorded("compile", _named("compare with the CPU"))),
        ("neurald.runtime.plan.planner", "", "make_plan", recorded("compile", _named("plan"))),
        (
            "neurald.runtime.execution.recovery.recovery",
            "Recovery",
            "__init__",
            recorded("compile", _named("get ready to recover")),
        ),
        (
            "neurald.runtime.compilation",
            "Compilation",
            "__init__",
            recorded("compile", _named("get ready to run")),
        ),
        (
            _BUILDER,
            "CompilationBuilder",
            "finish",
            recorded("call", _named("compile"), is_call=True),
        ),
        (
            "neurald.runtime.compilation",
            "Compilation",
            "run",
            _run("run", lambda compilation: {"_compilation": compilation}),
        ),
        (
            _EXECUTION,
            "Execution",
            "compute",
            _run("compute", lambda execution: {"_compilation": execution._compilation}),
        ),
        (_EXECUTION, "Execution", "_start", recorded("step", _named("bind"))),
        (_EXECUTION, "Execution", "start_compute", _begun),
        (_EXECUTION, "Execution", "start_compute_with_dependencies", _begun),
        (_EXECUTION, "", "event_of", _handed_over("compute in the background")),
        ("neurald.runtime.execution.background.event", "Event", "_await", _awaited),
        ("neurald.runtime.execution.program.overlapping_steps", "", "_submit", _handed_over("steps")),
        (
            "neurald.runtime.execution.background.worker_pool",
            "Lane",
            "submit",
            _handed_over("submit", position=1),
        ),
        (
            _FUNCTION,
            "CompiledFunction",
            "__call__",
            _run("function", lambda _: _NO_DETAILS, has_fast_paths=False),
        ),
        (_FUNCTION, "CompiledFunction", "__init__", recorded("compile", _named("describe the function"))),
        (_FUNCTION, "", "converted", recorded("step", _named("convert an input"))),
        (_FUNCTION, "", "dequantized", recorded("step", _named("convert an output"))),
        (
            "neurald.runtime.compilation",
            "Compilation",
            "_checked",
            recorded("step", _named("check the inputs")),
        ),
        (
            "neurald.runtime.execution.binding.arrays",
            "OutputShapes",
            "__call__",
            recorded("step", _named("find the shapes of outputs")),
        ),
        (
            "neurald.runtime.execution.array_runs",
            "ArrayRuns",
            "prepare",
            recorded("step", _named("find a function for arrays")),
        ),
        (
            "neurald.runtime.execution.quick_runs",
            "QuickRuns",
            "first_run",
            recorded("step", _named("run and prepare to repeat it")),
        ),
        (_PREPARER, "Preparer", "prepare", recorded("compile", _prepared)),
        (
            _CACHED,
            "CachedPreparation",
            "load",
            recorded("compile", _looked_up("load from the cache")),
        ),
        (_CACHED, "CachedPreparation", "_compile", recorded("compile", _named("compile and store"))),
        (_CACHED, "", "compiled", recorded("compile", _named("compile"))),
        (_PREPARER, "", "compiled", recorded("compile", _named("compile"))),
        (_PREPARER, "", "first_tier", recorded("compile", _named("prepare the first tier"))),
        (_PREPARER, "", "key_parts", recorded("compile", _named("compute the key"))),
        (_CACHE, "Cache", "load", recorded("compile", _looked_up("look up in the cache"))),
        (_CACHE, "Cache", "store", recorded("compile", _named("write to the cache"))),
        (
            "neurald.hal.compiling.background",
            "BackgroundCompiler",
            "compile",
            recorded("compile", _named("compile in another process")),
        ),
        ("neurald.runtime.execution.background.optimization", "Optimization", "_enqueue", _enqueued),
        (_STEP, "RecoveringStep", "execute", recorded("step", _step)),
        (_STEP, "RecoveringStep", "create_short_execution", _native),
        (_STEP, "RecoveringStep", "create_reusable_execution", _native),
        (_STEP, "RecoveringStep", "create_array_function", _native),
        (_STEP, "RecoveringStep", "create_open_function", _native),
        (_STEP, "RecoveringStep", "create_native_call", _native),
        (
            "neurald.runtime.execution.recovery.cpu_runs",
            "WholeModelFallback",
            "execute",
            recorded("step", _named("whole model on the CPU")),
        ),
        ("neurald.hal.rpc.client.ring", "Ring", "bind", recorded("device", _named("bind to the ring"))),
        ("neurald.hal.rpc.client.ring_peer", "RingPeer", "submit", _submitted),
        ("neurald.hal.rpc.client.ring_peer", "RingPeer", "complete", _completed),
        ("neurald.hal.rpc.client.connection", "Connection", "_through_kept_call", _unused),
        ("neurald.hal.rpc.client.connection", "Connection", "_invoke", _invoked),
        ("neurald.hal.rpc.client.connection", "Connection", "_replies", _streamed),
    )
)


def owner_of(point: TracePoint) -> Any:
    """Returns the class or module whose attribute is replaced."""
    module = import_module(point.module)
    return getattr(module, point.owner) if point.owner else module


def install(recorder: Recorder) -> Callable[[], None]:
    """Begins to record the calls of all trace points; returns a function that ends it."""
    undo: list[Callable[[], None]] = []
    for point in TRACE_POINTS:
        owner = owner_of(point)
        # Names of the package are imported when they are first used.
        original = owner.__dict__.get(point.method) or getattr(owner, point.method)
        setattr(owner, point.method, point.replace(recorder, original))
        undo.append(partial(setattr, owner, point.method, original))

    def uninstall() -> None:
        for each in undo:
            each()
        # Fast paths that were made in the meantime would go on recording.
        for caller, _ in list(recorder.callers.values()):
            if hasattr(caller, "forget_fast_paths"):
                caller.forget_fast_paths()
        for peer in list(recorder.stamped):
            peer.want_stamps(0)

    return uninstall

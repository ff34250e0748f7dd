"""The methods whose calls are recorded, and how they are while a trace is taken.

A method is replaced by one that records its calls when a trace begins, and put back when it ends.
So the library does nothing for traces while none is taken.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

from neurald.hal.process.fork import forkable_lock
from neurald.runtime.tracing import daemon_calls, repeated_runs
from neurald.runtime.tracing.imported import when_imported
from neurald.runtime.tracing.recorded import (
    STEP,
    LookUp,
    Replace,
    awaited,
    begun,
    enqueued,
    finished_by_waiting,
    handed_over,
    prepared,
    recorded,
)
from neurald.runtime.tracing.span import Recorder


class TracePoint(Struct, frozen=True, kw_only=True):
    """A method or function, or a flag of a class that makes its objects do something for a trace.

    Attributes:
        module: where its class is.
        owner: the class; empty for a function of the module.
        method: the method or flag, or the name of a function where it is used.
        replace: makes its replacement.
    """

    module: str
    owner: str
    method: str
    replace: Replace


_CACHE: Final = "neurald.hal.cache.store"
_BUILDER: Final = "neurald.runtime.compilation_builder"
_COMPILING: Final = "neurald.runtime.model_compilation"
_PREPARER: Final = "neurald.runtime.plan.preparer"
_CACHED: Final = "neurald.runtime.plan.cached_preparation"
_EXECUTION: Final = "neurald.runtime.execution.execution"
_FENCED: Final = "neurald.runtime.execution.background.fenced"
_FUNCTION: Final = "neurald.runtime.function.compiled_function"
_SERVING: Final = "neurald.runtime.serving."
_STEP: Final = "neurald.runtime.execution.recovery.recovering_step"
_LITERT: Final = "neurald.runtime.litert."
_INTERPRETER: Final = _LITERT + "interpreter.interpreter"
_KEPT: Final = "neurald.hal.rpc.client.calls.kept_stream"

TRACE_POINTS: Final[tuple[TracePoint, ...]] = tuple(
    TracePoint(module=module, owner=owner, method=method, replace=replace)
    for module, owner, method, replace in (
        ("neurald", "", "load_tflite", recorded("call", "load", is_call=True)),
        ("neurald", "", "compile", recorded("call", "nd.compile", is_call=True)),
        ("neurald.runtime.function.compile", "", "load_tflite", recorded("compile", "load")),
        ("neurald.runtime.tflite.load", "", "_convert", recorded("compile", "convert the file")),
        (
            "neurald.runtime.tflite.kept.converted",
            "ConvertedFile",
            "_store",
            recorded("compile", "store the converted file"),
        ),
        ("neurald.runtime.function.compile", "", "_compiled", recorded("compile", "make the function")),
        (_BUILDER, "", "devices", recorded("compile", "find devices")),
        (
            "neurald.runtime.partitioning.candidates",
            "",
            "find_candidates",
            recorded("compile", "ask devices"),
        ),
        (
            "neurald.runtime.partitioning.partitioner",
            "",
            "partition",
            recorded("compile", "choose devices"),
        ),
        (_COMPILING, "ModelCompilation", "_is_supported", recorded("compile", "ask devices")),
        (_COMPILING, "ModelCompilation", "_compilation", recorded("compile", "make ready to run")),
        (_PREPARER, "Preparer", "load", recorded("compile", "load from the cache")),
        (_COMPILING, "ModelCompilation", "_guard", recorded("compile", "compare with one device")),
        ("neurald.runtime.plan.planner", "", "make_plan", recorded("compile", "plan")),
        (
            _BUILDER,
            "CompilationBuilder",
            "finish",
            recorded("call", "compile", is_call=True),
        ),
        (
            "neurald.runtime.compilation",
            "Compilation",
            "run",
            repeated_runs.run,
        ),
        (
            "neurald.runtime.compilation",
            "Compilation",
            "run_with_receipt",
            repeated_runs.called("run", "call", None),
        ),
        (
            _EXECUTION,
            "Execution",
            "compute",
            repeated_runs.compute,
        ),
        (_EXECUTION, "Execution", "_ran_short", repeated_runs.SHORT_RUN),
        ("neurald.runtime.execution.array_runs", "", "run_on", repeated_runs.ON_ARRAYS),
        (
            "neurald.runtime.execution.program.compound_executor",
            "CompoundExecutor",
            "execute",
            recorded("step", "run the steps"),
        ),
        (_EXECUTION, "", "start_fenced", recorded("step", "launch the execution")),
        (_FENCED, "", "start_thread", handed_over("compute in the background")),
        (_FENCED, "", "_wait_for", recorded("step", "wait for the dependencies")),
        (_EXECUTION, "Execution", "start_compute", repeated_runs.start),
        (_EXECUTION, "Execution", "start_compute_with_dependencies", begun),
        (_EXECUTION, "", "event_of", handed_over("compute in the background")),
        ("neurald.runtime.execution.background.event", "Event", "finish_by", finished_by_waiting),
        ("neurald.runtime.execution.background.event", "Event", "_await", awaited),
        ("neurald.runtime.execution.program.overlapping_steps", "", "_submit", handed_over("steps")),
        (
            "neurald.runtime.execution.background.worker_pool",
            "Lane",
            "submit",
            handed_over("submit", is_method=True),
        ),
        (
            _FUNCTION,
            "CompiledFunction",
            "_call",
            recorded("call", "function", is_call=True),
        ),
        (_FUNCTION, "", "converted", recorded("step", "convert an input")),
        (_FUNCTION, "", "dequantized", recorded("step", "convert an output")),
        (
            "neurald.runtime.execution.array_runs",
            "ArrayRuns",
            "prepare",
            recorded("step", "find a function for arrays"),
        ),
        (
            "neurald.runtime.execution.array_runs",
            "ArrayRuns",
            "_opened",
            recorded("step", "find a function for all shapes"),
        ),
        (
            "neurald.runtime.execution.expected_shapes",
            "ExpectedShapes",
            "of_outputs",
            recorded("step", "infer the shapes of the outputs"),
        ),
        (
            "neurald.runtime.execution.array_computation",
            "",
            "_bound",
            recorded("step", "make an execution"),
        ),
        (
            "neurald.runtime.execution.quick_runs",
            "QuickRuns",
            "first_run",
            recorded("step", "run and prepare to repeat it"),
        ),
        (_PREPARER, "Preparer", "prepare", recorded("compile", prepared)),
        (
            _CACHED,
            "CachedPreparation",
            "load",
            recorded("compile", LookUp(name="load from the cache")),
        ),
        (_CACHED, "CachedPreparation", "_compile", recorded("compile", "compile and store")),
        (_CACHED, "", "compiled", recorded("compile", "compile")),
        (_PREPARER, "", "compiled", recorded("compile", "compile")),
        (_PREPARER, "", "first_tier", recorded("compile", "prepare the first tier")),
        (_PREPARER, "", "key_parts", recorded("compile", "compute the key")),
        (_CACHE, "Cache", "load", recorded("compile", LookUp(name="look up in the cache"))),
        (_CACHE, "Cache", "store", recorded("compile", "write to the cache")),
        (
            "neurald.hal.compiling.separate_compiler",
            "SeparateCompiler",
            "compile",
            recorded("compile", "compile in another process"),
        ),
        ("neurald.runtime.execution.background.optimization", "Optimization", "_enqueue", enqueued),
        (_STEP, "RecoveringStep", "execute", recorded("step", STEP)),
        (
            "neurald.runtime.execution.recovery.cpu_runs",
            "WholeModelFallback",
            "execute",
            recorded("step", "whole model on the CPU"),
        ),
        *(
            (_INTERPRETER, "Interpreter", method, recorded("call", name, is_call=True))
            for method, name in (
                ("__init__", "Interpreter"),
                ("allocate_tensors", "allocate_tensors"),
                ("set_tensor", "set_tensor"),
                ("invoke", "invoke"),
                ("get_tensor", "get_tensor"),
            )
        ),
        (
            _LITERT + "interpreter.signature_runner",
            "SignatureRunner",
            "__call__",
            recorded("call", "signature", is_call=True),
        ),
        *(
            (
                _LITERT + "compiled_model.compiled_model",
                "CompiledModel",
                method,
                recorded("call", method, is_call=True),
            )
            for method in ("from_file", "from_buffer", "run_by_name", "run_by_index")
        ),
        (
            _LITERT + "compiled_model.compiled_model",
            "CompiledModel",
            "__init__",
            recorded("compile", "describe the signatures"),
        ),
        (_LITERT + "subgraphs.model_source", "ModelSource", "__init__", recorded("compile", "read the file")),
        (_LITERT + "subgraphs.model_source", "ModelSource", "load", recorded("compile", "load the subgraph")),
        (
            _LITERT + "subgraphs.prepared_shapes",
            "PreparedShapes",
            "prepare",
            recorded("compile", "prepare the subgraph"),
        ),
        (_SERVING + "service", "ServedModel", "__call__", recorded("call", "request", is_call=True)),
        (_SERVING + "service", "ServedModel", "run", recorded("call", "request", is_call=True)),
        (_SERVING + "balancer", "Balancer", "take", recorded("step", "choose a service")),
        (_SERVING + "client_lane", "ClientLane", "run", daemon_calls.RAN_IN_SERVICE),
        (_SERVING + "client_lane", "ClientLane", "_place", recorded("step", "place the inputs")),
        ("neurald.hal.rpc.client.rings.ring_peer", "RingPeer", "exchange", daemon_calls.EXCHANGED),
        ("neurald.hal.rpc.client.rings.ring_peer", "RingPeer", "submit", daemon_calls.SUBMITTED),
        ("neurald.hal.rpc.client.rings.ring_peer", "RingPeer", "_completed", daemon_calls.COMPLETED),
        (_KEPT, "KeptStream", "wants_times", daemon_calls.timed),
        (_KEPT, "KeptStream", "_is_answered", daemon_calls.kept),
        ("neurald.hal.rpc.client.calls.client_calls", "ClientCalls", "invoke", daemon_calls.invoked),
        ("neurald.hal.rpc.client.calls.client_calls", "ClientCalls", "replies", daemon_calls.streamed),
    )
)


def owner_of(point: TracePoint) -> Any:
    """Returns the class or module whose attribute is replaced."""
    module = import_module(point.module)
    return getattr(module, point.owner) if point.owner else module


def install(recorder: Recorder) -> Callable[[], None]:
    """Begins to record the calls of all trace points; returns a function that ends it.

    Modules that are not imported yet get their trace points when they are.
    """
    undo: list[Callable[[], None]] = []
    lock = forkable_lock()
    is_over = False

    def begin(points: Sequence[TracePoint]) -> None:
        # This may import modules, whose points begin in the meantime, perhaps in other threads.
        found = [_found(point) for point in points]
        with lock:
            if not is_over:
                undo.extend(_replaced(*each, recorder) for each in found)

    by_module: dict[str, list[TracePoint]] = {}
    for point in TRACE_POINTS:
        by_module.setdefault(point.module, []).append(point)
    stop = when_imported({name: partial(begin, points) for name, points in by_module.items()})

    def uninstall() -> None:
        nonlocal is_over
        stop()
        with lock:
            is_over = True
        for each in undo:
            each()
        for ring in list(recorder.rings.values()):
            ring.want_no_stamps()

    return uninstall


def _found(point: TracePoint) -> tuple[TracePoint, Any, Any]:
    """Returns a point, what has its method, and the method."""
    owner = owner_of(point)
    # Names of the package are imported when they are first used.
    return point, owner, owner.__dict__.get(point.method) or getattr(owner, point.method)


def _replaced(point: TracePoint, owner: Any, original: Any, recorder: Recorder) -> Callable[[], None]:
    """Replaces what a point names; returns a function that puts it back."""
    if isinstance(original, classmethod):
        replacement: Any = classmethod(point.replace(recorder, original.__func__))
    else:
        replacement = point.replace(recorder, original)
    setattr(owner, point.method, replacement)
    return partial(setattr, owner, point.method, original)

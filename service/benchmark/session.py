"""Measures a model: loading, preparing, the first run, further runs, and optional measurements."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.runtime.execution.profile import StepProfile
from neurald.service.benchmark.accuracy import differences
from neurald.service.benchmark.breakdown import time_parts
from neurald.service.benchmark.clients import run_clients
from neurald.service.benchmark.memory import memory_use
from neurald.service.benchmark.pacing import Pacing
from neurald.service.benchmark.peers import measure_peers
from neurald.service.console.delegation import (
    Requirement,
    delegation,
    require_devices,
    require_full_delegation,
)
from neurald.service.console.device_choice import describe_steps, executions_on_cpu, find_devices
from neurald.service.console.measurement import (
    PERCENTILES,
    BoundExecution,
    RunControl,
    repeat,
    summarise,
)
from neurald.service.console.output import note, progress, status
from neurald.service.console.processor_pressure import ProcessorPressure
from neurald.service.console.profile import describe_profile, median_profile
from neurald.service.console.startup import preparing
from neurald.service.console.verification import describe_verification
from neurald.service.tensors.arrays import (
    SEED,
    Slot,
    input_slots,
    output_slots,
    random_inputs,
    read_inputs,
)
from neurald.service.tensors.shapes import Shapes, default_shape_remarks, parse_shapes
from neurald.service.tensors.single_inputs import parse_ranges, read_files

Array = np.ndarray[Any, np.dtype[Any]]


#: Identifies this program in caches of other folders.
_CACHE_TOKEN = b"neurald benchmark".ljust(32, b"\0")
#: Runs that a trace has besides the first one.
_TRACED_RUNS = 20
#: Maximum number of latencies in a document; of more runs, evenly distributed ones are taken.
_MAX_LATENCIES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSettings:
    """Describes a measurement; see the options of `neurald benchmark`.

    Attributes:
        model: a .tflite file.
        devices: names of the devices to use; none to let neurald choose.
        warmup, control: how often the model is run, before and while it is measured.
        delay_s, frequency_hz: see `Pacing`.
        signature: the signature of the file.
        shapes: the shapes of random inputs, as `NAME=SHAPE`.
        inputs: a `.npz` file with all inputs; None if there is none.
        input_files: files of single inputs, as `NAME=FILE`.
        input_ranges: the ranges of random inputs, as `NAME=LOW:HIGH`.
        threads: CPU threads.
        relaxed: allows float32 to be computed as float16.
        preference: what compiling optimises for.
        priority: the rank of the executions.
        cache_dir: where compiled code is kept; None for the user's own cache.
        max_partitions: the largest number of steps of each device; None for any number.
        min_operations: the least number of operations of a step.
        startup: whether runs before the model is compiled count.
        burst: runs in a burst.
        percentiles: those of the latencies that are stated.
        profile: times kernels.
        clients: the numbers of clients that run at the same time, one after the other.
        reference: the device whose outputs are compared; None to compare none.
        require_full_delegation: fails if an operation runs on the CPU device.
        requirements: fail if less runs on a device.
        verified_share: the verified share of the time, for verification by the CPU device.
        peers: measures other runtimes.
        onnx: the same model for ONNX Runtime.
        trace: the file for a trace of loading, preparing and the first runs, which are not
            measured.
        quiet: shows nothing on stderr.
    """

    model: Path
    devices: Sequence[str] = ()
    warmup: RunControl
    control: RunControl
    delay_s: float = 0.0
    frequency_hz: float = 0.0
    signature: str | None = None
    shapes: Sequence[str] = ()
    inputs: Path | None = None
    input_files: Sequence[str] = ()
    input_ranges: Sequence[str] = ()
    threads: int | None = None
    relaxed: bool = False
    preference: nd.Preference = nd.Preference.FAST_SINGLE_ANSWER
    priority: nd.Priority = nd.Priority.MEDIUM
    cache_dir: Path | None = None
    max_partitions: int | None = None
    min_operations: int = 1
    startup: nd.Startup = nd.Startup.OPTIMIZED
    burst: bool = False
    percentiles: Sequence[float] = PERCENTILES
    profile: bool = False
    clients: Sequence[int] = ()
    reference: str | None = None
    require_full_delegation: bool = False
    requirements: Sequence[Requirement] = ()
    verified_share: float = 0.0
    peers: bool = False
    onnx: Path | None = None
    trace: Path | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """A model that has run once, and how long that took.

    Attributes:
        model: the model as it was loaded.
        compilation: its compilation.
        slots: the inputs that the model needs.
        source: where the inputs come from.
        inputs, outputs: the arrays of the first run.
        remarks: what is to be said about the inputs.
        load_s, prepare_s, first_s: the durations of loading, preparing and the first run.
        optimized_s: the time from the begin of preparation until code was optimised.
    """

    model: Model
    compilation: nd.Compilation
    slots: Sequence[Slot]
    source: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    remarks: Sequence[str]
    load_s: float
    prepare_s: float
    first_s: float
    optimized_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """The runs of a model that were measured.

    Attributes:
        warmup, steady: the seconds that each run took.
        rate: runs per second; None without pauses between them.
        waiting: the share of the time in which the process waited for a processor.
        steps: the steps that ran, described for JSON.
        profiles: the kernel times of each step; none if they were not asked for.
    """

    warmup: Sequence[float]
    steady: Sequence[float]
    rate: float | None
    waiting: float | None
    steps: Sequence[dict[str, Any]]
    profiles: Sequence[StepProfile]


def measure(settings: BenchmarkSettings) -> dict[str, Any]:
    """Measures a model.

    Returns:
        A document for JSON.

    Raises:
        Error: the model cannot be loaded, compiled or run, or something required does not hold.
    """
    chosen = find_devices(settings.devices)
    reference = None if settings.reference is None else find_devices([settings.reference])
    if settings.requirements:
        require_devices(settings.requirements, chosen or nd.devices())
    memory = {"before_load": memory_use()}
    started = _start(settings, chosen)
    memory["after_first_run"] = memory_use()
    if not settings.quiet:
        for remark in started.remarks:
            note(remark)
    runs = _run_again(settings, started)
    memory["after_runs"] = memory_use()
    where = delegation(runs.steps)
    if settings.require_full_delegation:
        require_full_delegation(where)
    for requirement in settings.requirements:
        requirement.check(runs.steps, started.compilation.explain())
    document = _described(settings, started, runs)
    document["delegation"] = where
    document["memory"] = memory
    given = started.inputs, started.outputs
    if settings.profile:
        document["profile"] = describe_profile(started.model, runs.profiles)
    if settings.clients:
        document["clients"] = _clients(settings, started.compilation, *given)
    if settings.reference is not None:
        document["accuracy"] = _accuracy(settings, started.model, settings.reference, reference, *given)
    if settings.peers:
        document["peers"] = _peers(settings, started.inputs)
    return document


def _start(settings: BenchmarkSettings, devices: Sequence[nd.Device] | None) -> _Started:
    """Loads and compiles the model, and runs it for the first time."""
    with ExitStack() as prepared:
        shown = prepared.enter_context(preparing(settings.model.name, quiet=settings.quiet))
        if settings.trace is not None:
            prepared.enter_context(nd.trace(settings.trace))
        load_tflite = nd.load_tflite  # The import is not part of loading.
        start = time.perf_counter()
        loaded = load_tflite(settings.model, signature=settings.signature)
        load_s = time.perf_counter() - start
        slots = input_slots(loaded)
        shapes = parse_shapes(settings.shapes, slots)
        source, inputs, remarks = _inputs(settings, slots, shapes)
        start = time.perf_counter()
        builder = _builder(settings, loaded, devices)
        builder.set_progress_callback(shown.step)
        compilation = builder.finish()
        prepare_s = time.perf_counter() - start
        first_start = time.perf_counter()
        outputs = compilation.run(*inputs)
        first_s = time.perf_counter() - first_start
        compilation.wait_until_optimized()
        optimized_s = time.perf_counter() - start
        for _ in range(_TRACED_RUNS if settings.trace is not None else 0):
            compilation.run(*inputs)
    return _Started(
        model=loaded,
        compilation=compilation,
        slots=slots,
        source=source,
        inputs=inputs,
        outputs=outputs,
        remarks=remarks,
        load_s=load_s,
        prepare_s=prepare_s,
        first_s=first_s,
        optimized_s=optimized_s,
    )


def _run_again(settings: BenchmarkSettings, started: _Started) -> _Runs:
    """Runs the model as often as the settings say, and measures that."""
    compilation = started.compilation
    warmup: list[float] = []
    with compilation.create_burst() if settings.burst else nullcontext() as used:
        execution = BoundExecution(compilation, started.inputs, started.outputs, used)
        if settings.warmup.runs or settings.warmup.min_s:
            with progress("warming up", quiet=settings.quiet) as bar:
                warmup = repeat(execution.time_once, settings.warmup, bar.advance_to)
        elsewhere = executions_on_cpu(compilation)
        pacing = Pacing(settings.delay_s, settings.frequency_hz)
        with progress("measuring", quiet=settings.quiet) as bar:
            pressure = ProcessorPressure()
            steady_start = time.perf_counter()
            steady = repeat(execution.time_once, settings.control, bar.advance_to, pacing.wait)
            steady_s = time.perf_counter() - steady_start
            waiting = pressure.share()
        steps = describe_steps(compilation, elsewhere)
        with status("profiling", quiet=settings.quiet):
            profiles = median_profile(compilation, execution.time_once) if settings.profile else ()
    return _Runs(
        warmup=warmup,
        steady=steady,
        rate=pacing.rate(steady, steady_s),
        waiting=waiting,
        steps=steps,
        profiles=profiles,
    )


def _described(settings: BenchmarkSettings, started: _Started, runs: _Runs) -> dict[str, Any]:
    """Describes what was measured, for JSON."""
    compilation, warmup, steady = started.compilation, runs.warmup, runs.steady
    shown = np.linspace(0, len(steady) - 1, min(len(steady), _MAX_LATENCIES)).astype(np.int64)
    is_instant = settings.startup is nd.Startup.INSTANT
    return {
        "model": str(settings.model),
        "model_bytes": settings.model.stat().st_size,
        "inputs": started.source,
        "input_shapes": {
            slot.key: list(array.shape) for slot, array in zip(started.slots, started.inputs, strict=True)
        },
        "threads": settings.threads,
        "relaxed": settings.relaxed,
        "preference": settings.preference.name.lower(),
        "priority": settings.priority.name.lower(),
        "burst": settings.burst,
        "delay_s": settings.delay_s,
        "frequency_hz": settings.frequency_hz,
        "steps": runs.steps,
        "fallback": compilation.report.fallback,
        "load_ms": started.load_s * 1e3,
        "startup": settings.startup.value,
        "prepare_ms": started.prepare_s * 1e3,
        "compile_ms": _step_ms(runs.steps, is_hit=False),
        "cache_load_ms": _step_ms(runs.steps, is_hit=True),
        "optimized_ms": started.optimized_s * 1e3 if is_instant else None,
        "status": str(compilation.status),
        "first_ms": started.first_s * 1e3,
        "warmup": {"runs": len(warmup), "mean_ms": sum(warmup) / len(warmup) * 1e3 if warmup else None},
        "percentiles": list(settings.percentiles),
        "steady": _steady(steady, settings.percentiles, runs.rate),
        "waiting": runs.waiting,
        "verification": describe_verification(compilation),
        "parts": time_parts(compilation, started.inputs, started.outputs),
        "latencies_ms": [steady[each] * 1e3 for each in shown.tolist()],
    }


def _builder(
    settings: BenchmarkSettings, model: Model, devices: Sequence[nd.Device] | None
) -> nd.CompilationBuilder:
    measured = replace(model, relaxed=True) if settings.relaxed else model
    builder = nd.CompilationBuilder(measured, devices, settings.threads)
    builder.set_startup(settings.startup)
    builder.set_verification(settings.verified_share)
    builder.set_preference(settings.preference)
    builder.set_priority(settings.priority)
    if settings.cache_dir is not None:
        builder.set_caching(settings.cache_dir, _CACHE_TOKEN)
    if settings.max_partitions is not None or settings.min_operations > 1:
        builder.set_partitioning(
            nd.Partitioning(max_partitions=settings.max_partitions, min_operations=settings.min_operations)
        )
    return builder


def _inputs(
    settings: BenchmarkSettings, slots: Sequence[Slot], shapes: Shapes
) -> tuple[str, list[Array], list[str]]:
    """Returns where the inputs come from, the inputs, and remarks on them."""
    ranges = parse_ranges(settings.input_ranges, slots)
    if settings.inputs is not None:
        if settings.input_files or ranges or shapes:
            raise BadData("a file with all inputs leaves nothing to other options for inputs or shapes")
        return str(settings.inputs), read_inputs(settings.inputs, slots), []
    files = read_files(settings.input_files, slots, shapes)
    others = [slot for slot in slots if slot.key not in files]
    random = {
        slot.key: array
        for slot, array in zip(others, random_inputs(others, shapes, ranges=ranges), strict=True)
    }
    sources = [f"random (seed {SEED})"] if random else []
    return (
        ", ".join([*sources, *settings.input_files]) or "no",
        [files[slot.key] if slot.key in files else random[slot.key] for slot in slots],
        default_shape_remarks(others, shapes),
    )


def _steady(
    seconds: Sequence[float], percentiles: Sequence[float], rate: float | None
) -> dict[str, float | int]:
    """Returns the rate and the distribution of latencies; the rate is given if runs had pauses."""
    found = summarise(seconds, percentiles)
    return found if rate is None else {**found, "inferences_per_s": rate}


def _step_ms(steps: Sequence[Mapping[str, Any]], *, is_hit: bool) -> float:
    """Returns the time in which steps were prepared from the cache, or without it.

    Steps are prepared at the same time, so that the sum may exceed the time of all.
    """
    return sum(float(step["prepare_ms"]) for step in steps if (step["cache"] == "hit") is is_hit)


def _clients(
    settings: BenchmarkSettings,
    compilation: nd.Compilation,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> list[dict[str, Any]]:
    def create() -> Callable[[], float]:
        return BoundExecution(compilation, inputs, outputs).time_once

    with status("running clients", quiet=settings.quiet):
        return [
            run_clients(create, count, settings.control, settings.percentiles) for count in settings.clients
        ]


def _accuracy(
    settings: BenchmarkSettings,
    model: Model,
    reference: str,
    devices: Sequence[nd.Device] | None,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> dict[str, Any]:
    """Compares outputs with those of another device.

    Args:
        settings: say whether the progress is shown.
        model: the model.
        reference: the name of the device.
        devices: the device.
        inputs, outputs: those of a run.
    """
    with status(f"running on {reference}", quiet=settings.quiet):
        compilation = nd.CompilationBuilder(model, devices).finish()
        expected = compilation.run(*inputs)
    names = [slot.key for slot in output_slots(model)]
    return {"reference": reference, "outputs": differences(names, outputs, expected)}


def _peers(settings: BenchmarkSettings, inputs: Sequence[Array]) -> list[dict[str, Any]]:
    threads = settings.threads or len(os.sched_getaffinity(0))
    with status("running other runtimes", quiet=settings.quiet):
        return measure_peers(
            settings.model, settings.onnx, inputs, threads, settings.warmup, settings.control
        )

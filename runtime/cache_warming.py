"""Fills the compilation cache ahead of time and reports how much time that saves."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neurald.hal.cache.store import default_directory
from neurald.hal.device import Device
from neurald.hal.model.types import Model, Preference, Priority
from neurald.runtime.compilation import Compilation, CompilationBuilder
from neurald.runtime.plan.preparer import CacheOutcome, PreparationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmedStep:
    """What the cache will do for one step of a compilation.

    Attributes:
        device: name of the step's device.
        operations: number of the model's operations in the step.
        cache: what the cache held for the step before warming.
        reason: why the cache held nothing, or why nothing was stored.
        cold_ms: time to compile, in milliseconds.
        warm_ms: time to load from the cache instead, in milliseconds; None if the cache has no
            entry.
        key: of the cache entry, in hexadecimal.
    """

    device: str
    operations: int
    cache: CacheOutcome
    reason: str
    cold_ms: float | None
    warm_ms: float | None
    key: str


def warm(
    model: Model,
    devices: Sequence[Device] | None = None,
    threads: int | None = None,
    *,
    preference: Preference = Preference.FAST_SINGLE_ANSWER,
    priority: Priority = Priority.MEDIUM,
    attributes: Sequence[tuple[str, int, bytes]] = (),
    directory: str | Path | None = None,
    token: bytes = b"",
    inputs: Sequence[Any] | None = None,
) -> tuple[WarmedStep, ...]:
    """Compiles a model so that later compilations take its steps from the cache.

    Every argument except `inputs` is part of the cache key, so the values must be those that the
    application uses. Whatever was not cached is compiled, then loaded from the cache once to
    confirm the entry and to measure the saving.

    Args:
        model, devices, threads: as for `CompilationBuilder`.
        preference, priority: as for its setters.
        attributes: as for `CompilationBuilder.add_extension_attribute`, one after another.
        directory: as for `CompilationBuilder.set_caching`; None for the user's own cache.
        token: of 32 bytes, or none; needed with a directory.
        inputs: as for `Compilation.run`, for models whose inputs have unspecified dimensions. The
            model is run with them, so that the cache gets entries for their shapes. The reported
            times are then those of the whole run.

    Raises:
        BadData: an argument is refused by `CompilationBuilder`, or inputs do not fit.
        Error: the model does not compile or does not run.
    """

    def compiled() -> _Compiled:
        builder = CompilationBuilder(model, devices, threads)
        builder.set_preference(preference)
        builder.set_priority(priority)
        for extension, attribute, value in attributes:
            builder.add_extension_attribute(extension, attribute, value)
        if directory is not None or token:
            builder.set_caching(default_directory() if directory is None else directory, token)
        compilation = builder.finish()
        started = time.perf_counter()
        if inputs is not None:
            compilation.run(*inputs)
        return _Compiled(compilation=compilation, run_ms=(time.perf_counter() - started) * 1000)

    first = compiled()
    again = compiled() if _is_new(first, has_run=inputs is not None) else first
    # Both compilations partition the model in the same way, unless a device failed in between.
    later = {report.key: report for report in again.compilation.report.steps}
    return tuple(
        _step_of_shapes(len(step.operations), report, later.get(report.key, report), first, again)
        if report.is_later and inputs is not None
        else _step(len(step.operations), report, later.get(report.key, report))
        for step, report in zip(first.compilation.plan.steps, first.compilation.report.steps, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """A compilation, and the duration of its first run if it was run."""

    compilation: Compilation
    run_ms: float


def _is_new(compiled: _Compiled, *, has_run: bool) -> bool:
    """Returns True if this compilation added entries that the next one can load."""
    return any(
        report.cache is CacheOutcome.MISS and (report.is_stored or (has_run and report.is_later))
        for report in compiled.compilation.report.steps
    )


def _step(operations: int, report: PreparationReport, later: PreparationReport) -> WarmedStep:
    is_warm = later.cache is CacheOutcome.HIT
    reason = report.reason
    if report.is_stored and not is_warm:
        reason = f"{reason}; stored, and yet not to be had again: {later.reason}"
    return WarmedStep(
        device=report.device,
        operations=operations,
        cache=report.cache,
        reason=reason,
        cold_ms=None if report.is_later else report.compile_ms,
        warm_ms=later.milliseconds if is_warm else None,
        key=report.key,
    )


def _step_of_shapes(
    operations: int, report: PreparationReport, later: PreparationReport, first: _Compiled, again: _Compiled
) -> WarmedStep:
    """Describes a step that was compiled for the shapes of a run."""
    if report.variants is None:
        # A daemon does not report its variants; the saving shows in the run times.
        kept, reason = None, "its daemon keeps what it compiles for shapes"
    else:
        kept = report.variants.record
        reason = "" if kept is not None else "nothing was stored for these shapes"
    if kept is not None and kept.was_there:
        return WarmedStep(
            device=report.device,
            operations=operations,
            cache=CacheOutcome.HIT,
            reason="",
            cold_ms=kept.compile_ms,
            warm_ms=first.run_ms,
            key=kept.key,
        )
    found = None if later.variants is None else later.variants.record
    is_warm = report.variants is None or (found is not None and found.was_there)
    if kept is not None:
        reason = "first use of these shapes"
        if not is_warm:
            reason += "; stored, and yet not to be had again"
    return WarmedStep(
        device=report.device,
        operations=operations,
        cache=CacheOutcome.MISS,
        reason=reason,
        cold_ms=first.run_ms,
        warm_ms=again.run_ms if is_warm else None,
        key=report.key if kept is None else kept.key,
    )

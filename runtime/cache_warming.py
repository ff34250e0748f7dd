"""Fills the compilation cache in advance and reports how much time that saves."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from neurald.hal.cache.store import default_directory
from neurald.hal.device import Device
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference, Priority
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.plan.prepared_step import NOTHING_TO_CACHE, CacheOutcome, PreparationReport
from neurald.runtime.plan.startup import Startup


class WarmedStep(Struct, frozen=True, kw_only=True):
    """The effect of the cache on one step of a compilation.

    Attributes:
        device: name of the step's device.
        operations: number of operations in the step.
        cache: whether the cache had an entry for the step before warming.
        reason: why the cache had no entry, or why nothing was stored.
        cold_ms: time to compile the step, in milliseconds.
        warm_ms: time to load the step from the cache, in milliseconds; None if the cache still has
            no entry.
        key: key of the cache entry, in hexadecimal.
    """

    device: str
    operations: int
    cache: CacheOutcome
    reason: str
    cold_ms: float | None
    warm_ms: float | None
    key: str

    @property
    def is_uncached(self) -> bool:
        """True if the step was compiled, but later compilations have to compile it again."""
        return self.cold_ms is not None and self.warm_ms is None and self.reason != NOTHING_TO_CACHE


def warm(
    model: Model,
    devices: Sequence[Device | str] | None = None,
    threads: int | None = None,
    *,
    preference: Preference = Preference.FAST_SINGLE_ANSWER,
    priority: Priority = Priority.MEDIUM,
    attributes: Sequence[tuple[str, int, bytes]] = (),
    directory: str | Path | None = None,
    token: bytes = b"",
    inputs: Sequence[Any] | None = None,
) -> tuple[WarmedStep, ...]:
    """Compiles a model so that later compilations load its steps from the cache.

    Every argument except `inputs` is part of the cache key, so the values must be those that the
    application uses. Steps that were not cached are compiled, and then loaded from the cache once
    to confirm the entry and to measure the time saved.

    Args:
        model, devices, threads: as for `CompilationBuilder`.
        preference, priority: as for its setters.
        attributes: as for `CompilationBuilder.add_extension_attribute`, one after another.
        directory: as for `CompilationBuilder.set_caching`; None for the user's own cache.
        token: 32 bytes, required with a directory; empty for none.
        inputs: as for `Compilation.run`, for models whose inputs have unspecified dimensions. The
            model is run with them, so that the cache gets entries for their shapes. The reported
            times are then those of the whole run.

    Raises:
        BadData: `CompilationBuilder` refuses an argument, or the inputs do not match the model.
        Error: the model does not compile or does not run.
    """

    def compiled() -> _CompiledRun:
        builder = CompilationBuilder(model, devices, threads)
        builder.set_startup(Startup.OPTIMIZED)
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
        return _CompiledRun(compilation=compilation, run_ms=(time.perf_counter() - started) * 1000)

    first = compiled()
    second = compiled() if _has_new_entries(first, has_run=inputs is not None) else first
    # Both compilations partition the model in the same way, unless a device failed in between.
    later = {report.key: report for report in second.compilation.report.steps}
    return tuple(
        _step_of_shapes(len(step.operations), report, later.get(report.key, report), first, second)
        if report.is_later and inputs is not None
        else _step(len(step.operations), report, later.get(report.key, report))
        for step, report in zip(first.compilation.plan.steps, first.compilation.report.steps, strict=True)
    )


class _CompiledRun(Struct, frozen=True, kw_only=True):
    """A compilation, and the duration of its first run in milliseconds if it was run."""

    compilation: Compilation
    run_ms: float


def _has_new_entries(compiled: _CompiledRun, *, has_run: bool) -> bool:
    """Returns True if the compilation has stored entries that the next one can load."""
    return any(
        report.cache is CacheOutcome.MISS and (report.is_stored or (has_run and report.is_later))
        for report in compiled.compilation.report.steps
    )


def _step(operations: int, report: PreparationReport, later: PreparationReport) -> WarmedStep:
    is_warm = later.cache is CacheOutcome.HIT
    reason = report.reason
    if report.is_stored and not is_warm:
        reason = f"{reason}; it was stored, but could not be loaded again: {later.reason}"
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
    operations: int,
    report: PreparationReport,
    later: PreparationReport,
    first: _CompiledRun,
    second: _CompiledRun,
) -> WarmedStep:
    """Describes a step that was compiled for the shapes of a run."""
    if report.variants is None:
        # A daemon does not report its variants; the run times show the saving.
        record, reason = None, "its daemon caches what it compiles for each set of shapes"
    else:
        record = report.variants.record
        reason = "" if record is not None else "nothing was stored for these shapes"
    if record is not None and record.was_there:
        return WarmedStep(
            device=report.device,
            operations=operations,
            cache=CacheOutcome.HIT,
            reason="",
            cold_ms=record.compile_ms,
            warm_ms=first.run_ms,
            key=record.key,
        )
    second_record = None if later.variants is None else later.variants.record
    is_warm = report.variants is None or (second_record is not None and second_record.was_there)
    if record is not None:
        reason = "first use of these shapes"
        if not is_warm:
            reason += "; it was stored, but could not be loaded again"
    return WarmedStep(
        device=report.device,
        operations=operations,
        cache=CacheOutcome.MISS,
        reason=reason,
        cold_ms=first.run_ms,
        warm_ms=second.run_ms if is_warm else None,
        key=report.key if record is None else record.key,
    )

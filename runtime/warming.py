"""Fills the compilation cache ahead of time, and tells whether that did any good."""

from collections.abc import Sequence
from dataclasses import dataclass

from neurald.hal.device import Device
from neurald.hal.types import Model
from neurald.runtime.compilation import Compilation, CompilationBuilder
from neurald.runtime.preparation import CacheOutcome, PreparationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmedStep:
    """What the cache does for one step of a compilation from now on.

    Attributes:
        device: its name.
        operations: how many of the model's the step has.
        cache: what the cache had for it when it was warmed.
        reason: why it had nothing, or why it will have nothing.
        cold_ms: how long compiling takes.
        warm_ms: how long the cache takes in its place; None where it has nothing.
        key: of the entry, in hexadecimal.
    """

    device: str
    operations: int
    cache: CacheOutcome
    reason: str
    cold_ms: float | None
    warm_ms: float | None
    key: str


def warm(
    model: Model, devices: Sequence[Device] | None = None, threads: int | None = None
) -> tuple[WarmedStep, ...]:
    """Compiles a model so that compiling it in the same way later takes its steps from the user's cache.

    What was not there is compiled, and then taken from the cache once: it is known to be of use, and how much.

    Args:
        model, devices, threads: as for `CompilationBuilder`.

    Raises:
        Error: it does not compile.
    """

    def compiled() -> Compilation:
        return CompilationBuilder(model, devices, threads).finish()

    first = compiled()
    again = compiled() if any(report.is_stored for report in _missed(first)) else first
    later = {report.key: report for report in again.report.steps}
    return tuple(
        _step(len(step.operations), report, later.get(report.key, report))
        for step, report in zip(first.plan.steps, first.report.steps, strict=True)
    )


def _missed(compilation: Compilation) -> list[PreparationReport]:
    return [report for report in compilation.report.steps if report.cache is CacheOutcome.MISS]


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
        cold_ms=report.compile_ms,
        warm_ms=later.milliseconds if is_warm else None,
        key=report.key,
    )

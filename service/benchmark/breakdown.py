"""Splits the time of a run into compute, transfer, queue and overhead."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.device import StepDuration

Array = np.ndarray[Any, np.dtype[Any]]

#: Fields of `StepDuration`, and what the report calls them.
_PARTS = {
    "compute": "compute_ns",
    "driver": "overhead_ns",
    "queue": "queue_ns",
    "transfer": "transfer_ns",
}
_RUNS = 20


def time_parts(
    compilation: nd.Compilation, inputs: Sequence[Array], outputs: Sequence[Array], time_ns: Callable[[], int]
) -> dict[str, float | None]:
    """Measures the parts of some runs, in ms on average.

    Args:
        compilation: to run.
        inputs: of a run.
        outputs: arrays like its results.
        time_ns: the clock.

    Returns:
        `total_ms`; `compute_ms` on devices; `driver_ms`, the other time in drivers; `queue_ms`,
        waiting for other executions; `transfer_ms`, in calls of drivers but outside of them;
        `runtime_ms`, the rest of the total, in this library. What no device can measure is None.
        Runs whose parts are measured take longer than others.
    """
    totals, found = [], []
    execution = nd.Execution(compilation, reusable=True)
    execution.set_measure_timing()
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    for position, array in enumerate(outputs):
        execution.set_output(position, np.empty_like(array, order="C"))
    execution.compute()
    for _ in range(_RUNS):
        start = time_ns()
        execution.compute()
        totals.append(time_ns() - start)
        found.append(execution.step_durations())
    parts = {f"{name}_ms": _mean_ms(found, field) for name, field in _PARTS.items()}
    total = mean(totals) / 1e6
    measured = sum(part for part in parts.values() if part is not None)
    return {"total_ms": total, **parts, "runtime_ms": max(0.0, total - measured)}


def _mean_ms(runs: Sequence[Sequence[StepDuration]], field: str) -> float | None:
    values = [[getattr(step, field) for step in steps] for steps in runs]
    known = [sum(value or 0 for value in row) for row in values if any(value is not None for value in row)]
    return mean(known) / 1e6 if known else None

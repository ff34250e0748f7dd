"""Splits the time of a run into computing, transfers to devices and back, queues, and the rest."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.device import COPY_IN, COPY_OUT, StepDuration
from neurald.runtime.execution.measurement.profile import StepProfile
from neurald.runtime.tracing.span import Span

Array = np.ndarray[Any, np.dtype[Any]]

_RUNS = 20
#: What the span of a daemon that computes is called, and that of waiting for its device.
_DRIVER, _WAIT = "driver", "wait for the device"


def time_parts(
    compilation: nd.Compilation, inputs: Sequence[Array], outputs: Sequence[Array], time_ns: Callable[[], int]
) -> dict[str, float | None]:
    """Measures the parts of some runs, in ms on average over the half with medium times.

    Args:
        compilation: to run.
        inputs: of a run.
        outputs: arrays like its results.
        time_ns: the clock.

    Returns:
        `total_ms`; `compute_ms` on devices; `driver_ms`, the other time in drivers; `queue_ms`,
        waiting for other executions; `transfer_in_ms` and `transfer_out_ms`, between the call of a
        driver in another process and its begin, between its end and that of the call, and the
        copies to the memory of a device and from it; `runtime_ms`, the rest of the total, in this
        library. What no device can measure is None. Runs whose parts are measured take longer than
        others.
    """
    found: list[tuple[int, Sequence[StepDuration]]] = []
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
        found.append((time_ns() - start, execution.step_durations()))
    with nd.trace() as trace:
        for _ in range(_RUNS):
            execution.compute()
    are_remote = [step.device.is_remote for step in compilation.plan.steps]
    # Pauses of the machine are no part of a run.
    medium = sorted(found, key=lambda each: each[0])[_RUNS // 4 : -(_RUNS // 4)]
    runs = [steps for _, steps in medium]
    parts = parts_ms(runs, are_remote, inward_share(trace.spans), _copies_ms(compilation.profile()))
    total = mean(total_ns for total_ns, _ in medium) / 1e6
    measured = sum(part for part in parts.values() if part is not None)
    return {"total_ms": total, **parts, "runtime_ms": max(0.0, total - measured)}


def parts_ms(
    runs: Sequence[Sequence[StepDuration]],
    are_remote: Sequence[bool],
    share: float | None,
    copies_ms: tuple[float, float],
) -> dict[str, float | None]:
    """Returns the parts of a run that devices and their drivers take, in ms.

    Args:
        runs: the durations of the steps of each run.
        are_remote: whether a step's device is in another process, for each step.
        share: that of the transfers between processes before the driver begins.
        copies_ms: the times of the copies to the memory of devices, and from it.
    """
    # What is around a driver in this process is this library.
    moved = [sum(each.transfer_ns for each in run if are_remote[each.step]) for run in runs]
    moved_ms = mean(moved) / 1e6
    copies = sum(copies_ms)
    compute = _mean_ms([[step.compute_ns for step in steps] for steps in runs])
    if compute is not None:
        # Copies are part of the time on the device.
        compute = max(0.0, compute - copies)
    is_split = share is not None or not moved_ms
    inward = share or 0.0
    return {
        "compute_ms": compute,
        "driver_ms": _mean_ms([[step.overhead_ns for step in steps] for steps in runs]),
        "queue_ms": _mean_ms([[step.queue_ns for step in steps] for steps in runs]),
        "transfer_in_ms": inward * moved_ms + copies_ms[0] if is_split else None,
        "transfer_out_ms": (1 - inward) * moved_ms + copies_ms[1] if is_split else None,
    }


def inward_share(spans: Iterable[Span]) -> float | None:
    """Returns the share of the time around drivers of other processes that is before they begin.

    Args:
        spans: of a trace.

    Returns:
        None if no daemon has told when it ran.
    """
    steps: dict[int, list[Span]] = {}
    waits: dict[int, list[Span]] = {}
    drivers: list[Span] = []
    for span in spans:
        if span.category == "daemon" and span.name == _DRIVER:
            drivers.append(span)
        elif span.category == "daemon" and span.name == _WAIT:
            waits.setdefault(span.call, []).append(span)
        elif "operations" in span.details and span.category in ("step", "device"):
            steps.setdefault(span.call, []).append(span)
    inward = outward = 0
    for driver in drivers:
        around = [each for each in steps.get(driver.call, ()) if _contains(each, driver)]
        if not around:
            continue
        step = min(around, key=_length)
        waited = sum(_length(each) for each in waits.get(driver.call, ()) if _contains(step, each))
        inward += max(0, driver.start_ns - step.start_ns - waited)
        outward += step.end_ns - driver.end_ns
    return inward / (inward + outward) if inward + outward else None


def _contains(outer: Span, inner: Span) -> bool:
    return outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns


def _length(span: Span) -> int:
    return span.end_ns - span.start_ns


def _copies_ms(profiles: Sequence[StepProfile]) -> tuple[float, float]:
    """Returns the times of the copies to the memory of devices, and from it."""
    kernels = [kernel for profile in profiles for kernel in profile.kernels]
    found = [
        sum(each.duration_ns for each in kernels if each.label == label) for label in (COPY_IN, COPY_OUT)
    ]
    return found[0] / 1e6, found[1] / 1e6


def _mean_ms(runs: Sequence[Sequence[int | None]]) -> float | None:
    known = [sum(value or 0 for value in row) for row in runs if any(value is not None for value in row)]
    return mean(known) / 1e6 if known else None

"""Splits the time of a run into computing, transfers to devices and back, queues, and the rest."""

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any

import numpy as np
from msgspec import Struct

import neurald as nd
from neurald.hal.device import COPY_IN, COPY_OUT, StepDuration
from neurald.runtime.execution.profile import StepProfile
from neurald.runtime.tracing.span import Span

Array = np.ndarray[Any, np.dtype[Any]]

_RUNS = 20
#: Runs before those that are measured, since the first ones take longer.
_FIRST_RUNS = 3
#: What the span of a daemon that computes is called, and that of waiting for its device.
_DRIVER, _WAIT = "driver", "wait for the device"


class RunTimes(Struct, frozen=True, kw_only=True):
    """Divides the time of one run.

    Attributes:
        total_ns: the duration of the run.
        steps_ns: from the calls of devices to their ends.
        inward_ns, outward_ns: the parts of this before and after drivers of other processes
            computed or waited for their device.
        drivers: how many of these drivers have told when they ran.
    """

    total_ns: int
    steps_ns: int
    inward_ns: int
    outward_ns: int
    drivers: int


class Copies(Struct, frozen=True, kw_only=True):
    """The times of copies to devices and back in a profile, which times kernels one by one.

    Attributes:
        inward_ms, outward_ms: the times of copies to the memory of devices, and from it.
        total_ms: those of all kernels and copies.
    """

    inward_ms: float = 0.0
    outward_ms: float = 0.0
    total_ms: float = 0.0


def time_parts(
    compilation: nd.Compilation, inputs: Sequence[Array], outputs: Sequence[Array]
) -> dict[str, float | None]:
    """Measures the parts of some runs, in ms on average over the half with medium times.

    The runs are traced, which hardly changes how long they take. What devices measure themselves
    comes from other runs, which take longer: it only says how the time in drivers is divided.

    Args:
        compilation: the compilation to run.
        inputs: the inputs of a run.
        outputs: arrays like its results.

    Returns:
        `total_ms`; `compute_ms` on devices; `driver_ms`, the other time in drivers; `queue_ms`,
        waiting for other executions; `transfer_in_ms` and `transfer_out_ms`, between the call of a
        driver in another process and its begin, between its end and that of the call, and the
        copies to the memory of a device and from it; `runtime_ms`, the rest of the total, in this
        library. What no device can measure is None.
    """
    timed = _bound(compilation, inputs, outputs)
    timed.set_measure_timing()
    durations = []
    for _ in range(_FIRST_RUNS + _RUNS):
        timed.compute()
        durations.append(timed.step_durations())
    execution = _bound(compilation, inputs, outputs)
    for _ in range(_FIRST_RUNS):
        execution.compute()
    with nd.trace() as trace:
        for _ in range(_RUNS):
            execution.compute()
    # Pauses of the machine are not part of a run.
    calls = sorted(run_times(trace.spans), key=lambda each: each.total_ns)[_RUNS // 4 : -(_RUNS // 4)]
    remote_steps = sum(step.device.is_remote for step in compilation.plan.steps)
    parts = parts_ms(calls, durations[_FIRST_RUNS:], remote_steps, _copies(compilation.profile()))
    total_ns, steps_ns = mean(each.total_ns for each in calls), mean(each.steps_ns for each in calls)
    return {"total_ms": total_ns / 1e6, **parts, "runtime_ms": max(0.0, total_ns - steps_ns) / 1e6}


def _bound(compilation: nd.Compilation, inputs: Sequence[Array], outputs: Sequence[Array]) -> nd.Execution:
    """Returns an execution that computes with these inputs, to arrays like these outputs."""
    execution = nd.Execution(compilation, reusable=True)
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    for position, array in enumerate(outputs):
        execution.set_output(position, np.empty_like(array, order="C"))
    return execution


def parts_ms(
    calls: Sequence[RunTimes],
    durations: Sequence[Sequence[StepDuration]],
    remote_steps: int,
    copies: Copies,
) -> dict[str, float | None]:
    """Returns the parts of a run that devices and their drivers take, in ms.

    Args:
        calls: the times of runs.
        durations: what the devices of each of other runs measured, by which the time inside of
            drivers is divided.
        remote_steps: number of steps whose devices are in other processes.
        copies: the copies to devices and back. Where all kernels together take longer one by one
            than devices do in a run, they are shortened to fit.
    """
    compute, driver, queue = (
        _mean_ms([[getattr(step, name) for step in steps] for steps in durations])
        for name in ("compute_ns", "overhead_ns", "queue_ns")
    )
    measured = sum(part or 0.0 for part in (compute, driver, queue))
    steps = mean(each.steps_ns for each in calls) / 1e6
    inward = mean(each.inward_ns for each in calls) / 1e6
    outward = mean(each.outward_ns for each in calls) / 1e6
    # Of a driver that does not tell when it ran, only the sum of both ways is known.
    is_split = not remote_steps or all(each.drivers for each in calls)
    if is_split and measured:
        scale = max(0.0, steps - inward - outward) / measured
        compute, driver, queue = (None if part is None else part * scale for part in (compute, driver, queue))
    room = max(0.0, steps - inward - outward) if compute is None else compute
    fit = min(1.0, room / copies.total_ms) if copies.total_ms else 1.0
    copied_in, copied_out = copies.inward_ms * fit, copies.outward_ms * fit
    if compute is not None:
        # Copies are part of the time on the device.
        compute -= copied_in + copied_out
    return {
        "compute_ms": compute,
        "driver_ms": driver,
        "queue_ms": queue,
        "transfer_in_ms": inward + copied_in if is_split else None,
        "transfer_out_ms": outward + copied_out if is_split else None,
    }


def run_times(spans: Iterable[Span]) -> list[RunTimes]:
    """Returns the times of the runs of a trace."""
    calls: dict[int, list[Span]] = {}
    for span in spans:
        calls.setdefault(span.call, []).append(span)
    return [_times(each) for each in calls.values() if any(span.category == "call" for span in each)]


def _times(spans: Sequence[Span]) -> RunTimes:
    """Returns the times of one run."""
    steps = [each for each in spans if "operations" in each.details and each.category in ("step", "device")]
    waits = [each for each in spans if each.category == "daemon" and each.name == _WAIT]
    drivers = inward = outward = 0
    for driver in spans:
        if driver.category != "daemon" or driver.name != _DRIVER:
            continue
        around = [each for each in steps if _contains(each, driver)]
        if around:
            step = min(around, key=_length)
            waited = sum(_length(each) for each in waits if _contains(step, each))
            inward += max(0, driver.start_ns - step.start_ns - waited)
            outward += step.end_ns - driver.end_ns
            drivers += 1
    outermost = [
        each for each in steps if not any(other is not each and _contains(other, each) for other in steps)
    ]
    return RunTimes(
        total_ns=max(_length(each) for each in spans if each.category == "call"),
        steps_ns=sum(map(_length, outermost)),
        inward_ns=inward,
        outward_ns=outward,
        drivers=drivers,
    )


def _contains(outer: Span, inner: Span) -> bool:
    return outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns


def _length(span: Span) -> int:
    return span.end_ns - span.start_ns


def _copies(profiles: Sequence[StepProfile]) -> Copies:
    """Returns what a profile says of copies."""
    kernels = [kernel for profile in profiles for kernel in profile.kernels]
    inward, outward = (
        sum(each.duration_ns for each in kernels if each.label == label) for label in (COPY_IN, COPY_OUT)
    )
    total = sum(each.duration_ns for each in kernels)
    return Copies(inward_ms=inward / 1e6, outward_ms=outward / 1e6, total_ms=total / 1e6)


def _mean_ms(runs: Sequence[Sequence[int | None]]) -> float | None:
    known = [sum(value or 0 for value in row) for row in runs if any(value is not None for value in row)]
    return mean(known) / 1e6 if known else None

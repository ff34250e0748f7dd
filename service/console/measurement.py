"""Measures latencies of a model and summarises them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import neurald as nd

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunControl:
    """The conditions on which runs are no longer repeated.

    Attributes:
        runs: minimum number of runs.
        min_s: minimum duration in seconds.
        max_s: maximum duration in seconds, which takes precedence over both minima.
    """

    runs: int
    min_s: float
    max_s: float

    def share_done(self, runs: int, elapsed_s: float) -> float:
        """Returns the completed share of the work; 1 or more means that it is done."""
        wanted = min(runs / max(self.runs, 1), elapsed_s / self.min_s if self.min_s else 1.0)
        if runs >= self.runs and elapsed_s >= self.min_s:
            wanted = 1.0
        return max(wanted, elapsed_s / self.max_s if self.max_s else 1.0)


#: The percentiles of latencies that are always stated.
PERCENTILES = (90.0, 99.0)


def percentile_name(percentile: float) -> str:
    """Returns the name of a percentile, such as `p99`."""
    return f"p{percentile:g}"


def summarise(seconds: Sequence[float], percentiles: Sequence[float] = ()) -> dict[str, float | int]:
    """Returns the number, the rate and the distribution of latencies.

    Times are in ms. Percentiles are interpolated, and std is the standard deviation of the
    population.

    Args:
        seconds: the latencies.
        percentiles: those that are returned besides `PERCENTILES`.
    """
    milliseconds = np.asarray(seconds) * 1e3
    return {
        "runs": len(seconds),
        "min_ms": float(milliseconds.min()),
        "median_ms": float(np.median(milliseconds)),
        "mean_ms": float(milliseconds.mean()),
        **{
            f"{percentile_name(each)}_ms": float(np.percentile(milliseconds, each))
            for each in sorted({*PERCENTILES, *percentiles})
        },
        "max_ms": float(milliseconds.max()),
        "std_ms": float(milliseconds.std()),
        "inferences_per_s": len(seconds) / sum(seconds) if sum(seconds) else 0.0,
    }


class BoundExecution:
    """A reusable execution with bound buffers, for repeated runs on the same data.

    Args:
        compilation: the compilation to run.
        inputs: the inputs in the model's order.
        outputs: the outputs of an earlier run with these inputs; buffers of the same types and
            shapes are bound.
        burst: a burst of the compilation that executes the runs; None for plain executions.
    """

    def __init__(
        self,
        compilation: nd.Compilation,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        burst: nd.Burst | None = None,
    ) -> None:
        self._burst = burst
        self.outputs = [np.empty_like(output, order="C") for output in outputs]
        self._execution = nd.Execution(compilation, reusable=True)
        for position, array in enumerate(inputs):
            self._execution.set_input(position, array)
        for position, array in enumerate(self.outputs):
            self._execution.set_output(position, array)

    def time_once(self) -> float:
        """Runs once and returns the duration in seconds."""
        start = time.perf_counter()
        self._execution.compute(burst=self._burst)
        return time.perf_counter() - start


def repeat(
    time_once: Callable[[], float],
    control: RunControl,
    on_progress: Callable[[float], None] = lambda _: None,
    pause: Callable[[], None] = lambda: None,
) -> list[float]:
    """Runs at least once, until `control` says to stop.

    Args:
        time_once: runs once and returns the duration in seconds.
        control: when to stop.
        on_progress: the function that is called after each run with the completed share, from 0 to
            1.
        pause: the function that is called between runs.

    Returns:
        The duration of each run in seconds.
    """
    seconds: list[float] = []
    start = time.perf_counter()
    share = 0.0
    while not seconds or share < 1:
        seconds.append(time_once())
        share = control.share_done(len(seconds), time.perf_counter() - start)
        on_progress(min(share, 1.0))
        if share < 1:
            pause()
    return seconds

"""Counts the requests and times of a model, in the terms of the V2 protocol."""

import enum
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from neurald.service.inference.models.statistics.latencies import (
    LatencyHistogram,
    LatencyQuantiles,
    MeasuredLatencies,
)

#: How many requests of a version are remembered.
_KEPT: Final = 256


class FailureReason(enum.Enum):
    """The reason why a request has failed, in Triton's words."""

    #: No run was begun before it was late, or before its model was given up.
    REJECTED = "REJECTED"
    #: Its client has left.
    CANCELED = "CANCELED"
    #: Its run has failed, or was too late.
    BACKEND = "BACKEND"
    #: Something else, such as an answer that does not fit the client's memory.
    OTHER = "OTHER"


@dataclass(slots=True)
class Total:
    """A number of events and their time in nanoseconds."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Adds events that took this time each."""
        self.count += count
        self.ns += ns * count


@dataclass(slots=True)
class BatchStatistics:
    """The runs of one batch size."""

    compute_input: Total = field(default_factory=Total)
    compute_infer: Total = field(default_factory=Total)
    compute_output: Total = field(default_factory=Total)


class RequestTimes(Struct, frozen=True, kw_only=True):
    """The end of a request, and the durations of its parts.

    Attributes:
        ended_ms: when it ended, in milliseconds since 1970.
        total_ns: the time from its arrival to its answer.
        queue_ns, input_ns, infer_ns, output_ns: parts of it; 0 if it failed.
        rows: entries of its batch.
        failed: whether it has no answer.
        trace_id: the trace ID of the client's trace; empty if it takes none.
    """

    ended_ms: float
    total_ns: int
    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    rows: int = 1
    failed: bool = False
    trace_id: str = ""


#: The latencies of which quantiles are measured: those of requests, and of their parts.
MEASURED: Final = ("request", "queue", "compute_input", "compute_infer", "compute_output")


class Latencies:
    """The distributions of latencies that an operator wants.

    Args:
        measured: which these are.
        bounds_ms: the bounds of the histogram.

    Attributes:
        histogram: that of requests; None if it is not wanted.
        quantiles: those of `MEASURED`; empty if they are not wanted.
    """

    def __init__(self, measured: MeasuredLatencies, bounds_ms: Sequence[float]) -> None:
        self.measured = measured
        self.histogram = LatencyHistogram(bounds_ms) if measured.histogram else None
        self.quantiles = {name: LatencyQuantiles() for name in MEASURED} if measured.quantiles else {}

    def add(self, latencies: Sequence[int]) -> None:
        """Adds a request that has an answer, with the latencies of `MEASURED` in nanoseconds."""
        if self.histogram is not None:
            self.histogram.add(latencies[0])
        for each, ns in zip(self.quantiles.values(), latencies, strict=False):
            each.add(ns)


@dataclass(slots=True)
class Statistics:
    """Counts what a version of a model has done. Several threads may count.

    Attributes:
        last_ms: when the last request ended, in milliseconds since 1970.
        inferences: entries of batches that were run; a request without batches is one.
        executions: runs of the model.
        success, failure: requests, with their whole time.
        reasons: the reasons of failures, with their number.
        queue, compute_input, compute_infer, compute_output: parts of the time of successful ones.
        batches: the batches that were run, by size.
        refused: requests that were refused because too many waited.
        retries: runs that were made again because a worker died.
        recent: the last requests.
        latencies: distributions of latencies; None if none are wanted.
        lock: the lock that must be held to count.
    """

    last_ms: int = 0
    inferences: int = 0
    executions: int = 0
    success: Total = field(default_factory=Total)
    failure: Total = field(default_factory=Total)
    reasons: Counter[FailureReason] = field(default_factory=Counter)
    queue: Total = field(default_factory=Total)
    compute_input: Total = field(default_factory=Total)
    compute_infer: Total = field(default_factory=Total)
    compute_output: Total = field(default_factory=Total)
    batches: dict[int, BatchStatistics] = field(default_factory=dict)
    refused: int = 0
    retries: int = 0
    recent: deque[RequestTimes] = field(default_factory=lambda: deque(maxlen=_KEPT))
    latencies: Latencies | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def succeeded(self, rows: int, total_ns: int, parts: "Durations", trace_id: str) -> None:
        """Counts a request that has an answer."""
        now_ns = time.time_ns()
        times = RequestTimes(
            ended_ms=now_ns / 1e6,
            total_ns=total_ns,
            queue_ns=parts.queue_ns,
            input_ns=parts.input_ns,
            infer_ns=parts.infer_ns,
            output_ns=parts.output_ns,
            rows=rows,
            trace_id=trace_id,
        )
        with self.lock:
            self.last_ms = now_ns // 1_000_000
            self.recent.append(times)
            self.inferences += rows
            # Without calls: the client waits for its answer meanwhile.
            for total, ns in (
                (self.success, total_ns),
                (self.queue, parts.queue_ns),
                (self.compute_input, parts.input_ns),
                (self.compute_infer, parts.infer_ns),
                (self.compute_output, parts.output_ns),
            ):
                total.count += 1
                total.ns += ns
            if self.latencies is not None:
                self.latencies.add(
                    (total_ns, parts.queue_ns, parts.input_ns, parts.infer_ns, parts.output_ns)
                )

    def failed(self, total_ns: int, reason: FailureReason, trace_id: str) -> None:
        """Counts a request that failed."""
        times = RequestTimes(ended_ms=time.time_ns() / 1e6, total_ns=total_ns, failed=True, trace_id=trace_id)
        with self.lock:
            self.failure.add(total_ns)
            self.reasons[reason] += 1
            self.recent.append(times)

    def note_refused(self) -> None:
        """Counts a request that was refused because too many waited."""
        with self.lock:
            self.refused += 1

    def executed(self, size: int, parts: "Durations") -> None:
        """Counts a run with a batch of this size."""
        with self.lock:
            self.executions += 1
            of_size = self.batches.get(size)
            if of_size is None:
                of_size = self.batches[size] = BatchStatistics()
            for total, ns in (
                (of_size.compute_input, parts.input_ns),
                (of_size.compute_infer, parts.infer_ns),
                (of_size.compute_output, parts.output_ns),
            ):
                total.count += 1
                total.ns += ns


class Durations(Struct, frozen=True, kw_only=True):
    """The durations of the parts of a run in nanoseconds."""

    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0

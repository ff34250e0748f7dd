"""Counts what a model has done, in the terms of the V2 protocol."""

import time
from dataclasses import dataclass, field


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


@dataclass(slots=True)
class Statistics:
    """What a version of a model has done.

    Attributes:
        last_ms: when the last request ended, in milliseconds since 1970.
        inferences: entries of batches that were run; a request without batches is one.
        executions: runs of the model.
        success, failure: requests, with their whole time.
        queue, compute_input, compute_infer, compute_output: parts of the time of successful ones.
        batches: by size.
        refused: requests that were refused because too many waited.
        retries: runs that were made again because a worker died.
    """

    last_ms: int = 0
    inferences: int = 0
    executions: int = 0
    success: Total = field(default_factory=Total)
    failure: Total = field(default_factory=Total)
    queue: Total = field(default_factory=Total)
    compute_input: Total = field(default_factory=Total)
    compute_infer: Total = field(default_factory=Total)
    compute_output: Total = field(default_factory=Total)
    batches: dict[int, BatchStatistics] = field(default_factory=dict)
    refused: int = 0
    retries: int = 0

    def succeeded(self, rows: int, total_ns: int, parts: "Durations") -> None:
        """Counts a request that has an answer."""
        self.last_ms = time.time_ns() // 1_000_000
        self.inferences += rows
        self.success.add(total_ns)
        self.queue.add(parts.queue_ns)
        self.compute_input.add(parts.input_ns)
        self.compute_infer.add(parts.infer_ns)
        self.compute_output.add(parts.output_ns)

    def failed(self, total_ns: int) -> None:
        """Counts a request that failed."""
        self.failure.add(total_ns)

    def executed(self, size: int, parts: "Durations") -> None:
        """Counts a run with a batch of this size."""
        self.executions += 1
        of_size = self.batches.setdefault(size, BatchStatistics())
        of_size.compute_input.add(parts.input_ns)
        of_size.compute_infer.add(parts.infer_ns)
        of_size.compute_output.add(parts.output_ns)


@dataclass(slots=True, kw_only=True)
class Durations:
    """How long the parts of a run took, in nanoseconds."""

    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0

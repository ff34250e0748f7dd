"""The requests of one run: the places of their inputs, and the share of each in the outputs."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from neurald.hal.lanes.packets import RunAnswer, TensorAt, aligned
from neurald.service.inference.models.requests.job import InferenceJob, JobOutput, RunRecord
from neurald.service.inference.models.statistics.statistics import Durations
from neurald.service.inference.protocol.errors import ServiceError, Status


class Batch(Struct, kw_only=True, eq=False):
    """The requests of a run, whose inputs are in the arena of a lane.

    Attributes:
        jobs: the requests.
        inputs, results_at, wanted: see `RunOrder`.
        rows: entries of all requests.
        input_ns: how long writing the inputs took.
        begun_ns: when that had ended.
    """

    jobs: list[InferenceJob]
    inputs: tuple[TensorAt, ...]
    results_at: int
    wanted: tuple[int, ...]
    rows: int
    input_ns: int
    begun_ns: int

    def durations(self, answer: RunAnswer) -> Durations:
        """Returns how long the parts of the run took."""
        receipt = answer.receipt
        return Durations(
            input_ns=self.input_ns + receipt.read_ns,
            infer_ns=receipt.run_ns,
            output_ns=receipt.written_ns,
        )

    def queue_ns(self, job: InferenceJob) -> int:
        """Returns how long one of the requests waited for the run."""
        return self.begun_ns - self.input_ns - job.queued_ns

    def result(self, job: InferenceJob, answer: RunAnswer, memory: memoryview, before: int) -> object:
        """Returns what a request is answered with.

        Args:
            job: the request.
            answer: the answer of the run.
            memory: the memory in which the outputs are.
            before: how many rows those in front of it have.

        Raises:
            ServiceError, BadData: the answer is not as it should be, or cannot be passed on.
        """
        outputs: Sequence[TensorAt] = answer.outputs
        if len(self.wanted) != len(outputs):
            raise ServiceError(Status.INTERNAL, "the worker has returned other outputs than were wanted")
        if job.wanted != self.wanted:
            by_position = dict(zip(self.wanted, outputs, strict=True))
            outputs = [by_position[position] for position in job.wanted]
        rows = job.rows if len(self.jobs) > 1 else None
        return job.finish(
            [
                _part(position, tensor, memory, before, rows, self.rows)
                for position, tensor in zip(job.wanted, outputs, strict=True)
            ],
            RunRecord(
                receipt=answer.receipt,
                queued_ns=job.queued_ns,
                queue_ns=self.queue_ns(job),
                batch_rows=self.rows,
                attempts=job.attempts,
            ),
        )


def written_batch(
    jobs: list[InferenceJob], arena_of: Callable[[int], memoryview], output_bytes: Callable[[int], int]
) -> Batch:
    """Writes the inputs of requests into an arena, one after another.

    Args:
        jobs: requests that fit together.
        arena_of: returns the memory for a run, by its size.
        output_bytes: how much of it outputs probably take, by the number of rows.

    Raises:
        ServiceError, Error: an input cannot be read, or there is no memory.
        OSError: the worker is gone.
    """
    began = time.perf_counter_ns()
    sizes = [sum(job.inputs[n].source.size for job in jobs) for n in range(len(jobs[0].inputs))]
    rows = sum(job.rows for job in jobs)
    offsets: list[int] = []
    at = 0
    for size in sizes:
        offsets.append(at)
        at = aligned(at + size)
    arena = arena_of(arena_bytes(at, output_bytes(rows)))
    inputs: list[TensorAt] = []
    for position, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        first = jobs[0].inputs[position]
        to = offset
        for job in jobs:
            source = job.inputs[position].source
            if source.size:
                source.copy_into(arena[to : to + source.size])
            to += source.size
        shape = first.shape if len(jobs) == 1 else (rows, *first.shape[1:])
        inputs.append(TensorAt(kind=first.kind, shape=shape, offset=offset, size=size))
    wanted = jobs[0].wanted
    if any(job.wanted != wanted for job in jobs):
        wanted = tuple(sorted({each for job in jobs for each in job.wanted}))
    now = time.perf_counter_ns()
    return Batch(
        jobs=jobs,
        inputs=tuple(inputs),
        results_at=at,
        wanted=wanted,
        rows=rows,
        input_ns=now - began,
        begun_ns=now,
    )


def arena_bytes(results_at: int, output_bytes: int) -> int:
    """Returns the size of an arena with inputs and outputs. None is empty."""
    return results_at + output_bytes + 1


def _part(
    position: int,
    tensor: TensorAt,
    memory: memoryview,
    before: int,
    rows: int | None,
    of_rows: int,
) -> JobOutput:
    """Returns the rows of an output that belong to one request; all if it ran alone."""
    data = memory[tensor.offset : tensor.offset + tensor.size]
    shape = tensor.shape
    if rows is not None:
        if not shape or shape[0] != of_rows:
            raise ServiceError(
                Status.INTERNAL, f"an output of a batch of {of_rows} rows has the shape {list(shape)}"
            )
        row = tensor.size // of_rows
        data = data[before * row : (before + rows) * row]
        shape = (rows, *shape[1:])
    return JobOutput(position=position, kind=tensor.kind, shape=shape, data=data)

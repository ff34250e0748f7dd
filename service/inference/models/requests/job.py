"""One request on its way through the queue of a model."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from neurald.hal.lanes.packets import Receipt, RunAnswer
from neurald.service.inference.models.statistics.statistics import FailureReason
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import InputBytes

#: Is told of a run: the size of its arena, its `Batch`, the answer of the worker, and that of the
#: client.
NoteResult = Callable[[int, Any, RunAnswer, object], None]


class JobInput(Struct, frozen=True, kw_only=True):
    """An input of a model with its bytes, which fit its type and shape.

    Attributes:
        kind, shape, source: its type, its shape, and where its bytes are.
        is_given: False for an optional input that the client has left out.
    """

    kind: str
    shape: tuple[int, ...]
    source: InputBytes
    is_given: bool = True


class JobOutput(Struct, frozen=True, kw_only=True):
    """An output of a model, whose bytes are valid only until the callback of the job returns."""

    position: int
    kind: str
    shape: tuple[int, ...]
    data: memoryview


class RunRecord(Struct, frozen=True, kw_only=True):
    """Record of a request that was run.

    Attributes:
        receipt: the receipt of the worker.
        queued_ns: when the request began to wait, on the clock of `time.perf_counter_ns`.
        queue_ns: how long the request waited.
        batch_rows: entries of the batch in which it was run.
        attempts: how many workers it was given to.
    """

    receipt: Receipt
    queued_ns: int
    queue_ns: int
    batch_rows: int
    attempts: int


class JobEnd(Protocol):
    """Receives the end of a request. Futures do, and `DirectRun`."""

    def done(self) -> bool:
        """Returns whether it has ended, or nobody waits for it any more."""
        ...

    def set_result(self, result: object, /) -> None:
        """Ends it with an answer."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Ends it with an error."""
        ...

    def cancel(self) -> object:
        """Says that nobody waits for it any more."""
        ...


class InferenceJob(Struct, kw_only=True, eq=False):
    """One request.

    Attributes:
        inputs: the inputs in the order of the model.
        rows: entries of its batch; 1 for a model without batches.
        wanted: positions of the wanted outputs.
        finish: makes the answer of the outputs.
        end: receives what `finish` returns or raises.
        priority: the priority; a job of priority 1 is run before one of 2.
        is_delayed: whether it is run after others of its priority, since it has waited for too
            long.
        deadline_s: when it must have ended, on the loop's clock; None for no limit.
        begin_by_s: when its run must have begun; None for no limit.
        has_transport_deadline: whether the client has stopped waiting at the deadline.
        queued_ns: when it was queued, on the clock of `time.perf_counter_ns`.
        queued_s: the same on the loop's clock.
        attempts: how many workers it was given to.
        trace_id: the trace ID of the client's trace; empty if it takes none.
        note_result: receives its run if that has succeeded, with no other request in it; None for
            nobody.
        expiry: ends it at the next of its limits.
    """

    inputs: Sequence[JobInput]
    rows: int
    wanted: tuple[int, ...]
    finish: Callable[[Sequence[JobOutput], RunRecord], object]
    end: JobEnd
    priority: int = 0
    is_delayed: bool = False
    deadline_s: float | None = None
    begin_by_s: float | None = None
    has_transport_deadline: bool = False
    queued_s: float = 0.0
    queued_ns: int = field(default_factory=time.perf_counter_ns)
    attempts: int = 0
    trace_id: str = ""
    note_result: NoteResult | None = None
    expiry: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """True if nobody waits for it any more."""
        return self.end.done()

    @property
    def place(self) -> tuple[int, bool]:
        """Its place in a queue: those with a smaller one are run before it."""
        return self.priority, self.is_delayed

    def fits(self, other: "InferenceJob", *, is_batched: bool) -> bool:
        """Returns whether both can be run in one batch."""
        return is_batched and all(
            mine.kind == theirs.kind != "bytes"
            and mine.shape[1:] == theirs.shape[1:]
            and mine.is_given == theirs.is_given
            for mine, theirs in zip(self.inputs, other.inputs, strict=True)
        )

    def fail(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended."""
        if not self.end.done():
            self.end.set_exception(error)


def failure_reason(job: InferenceJob, error: BaseException) -> FailureReason:
    """Returns why a request has failed that has ended with an error."""
    status = error.status if isinstance(error, ServiceError) else None
    if isinstance(error, asyncio.CancelledError) or status is Status.CANCELLED:
        return FailureReason.CANCELED
    if not job.attempts:
        return FailureReason.REJECTED
    return FailureReason.OTHER if status is Status.INVALID else FailureReason.BACKEND


def late_error() -> ServiceError:
    """Returns the error for a client whose request has taken longer than it may."""
    return ServiceError(Status.LATE, "Deadline Exceeded: the request has taken longer than it may")

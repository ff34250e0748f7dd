"""One request on its way through the queue of a model."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from neurald.hal.lanes.packets import Receipt
from neurald.service.inference.protocol.tensors import InputBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """An input of a model with its bytes, which fit its type and shape."""

    kind: str
    shape: tuple[int, ...]
    source: InputBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """An output of a model, whose bytes are valid only until the callback of the job returns."""

    position: int
    kind: str
    shape: tuple[int, ...]
    data: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """How a request was run.

    Attributes:
        receipt: of the worker.
        queue_ns: how long the request waited.
        batch_rows: entries of the batch in which it was run.
        attempts: how many workers it was given to.
    """

    receipt: Receipt
    queue_ns: int
    batch_rows: int
    attempts: int


@dataclass(slots=True, kw_only=True, eq=False)
class InferenceJob:
    """One request.

    Attributes:
        inputs: in the order of the model.
        rows: entries of its batch; 1 for a model without batches.
        wanted: positions of the wanted outputs.
        finish: makes the answer of the outputs.
        future: receives what `finish` returns or raises.
        deadline_s: when it must have ended, on the loop's clock; None for no limit.
        queued_ns: when it was queued, on the clock of `time.perf_counter_ns`.
        queued_s: the same on the loop's clock.
        attempts: how many workers it was given to.
    """

    inputs: Sequence[JobInput]
    rows: int
    wanted: tuple[int, ...]
    finish: Callable[[Sequence[JobOutput], RunRecord], object]
    future: "asyncio.Future[object]"
    deadline_s: float | None = None
    queued_s: float = 0.0
    queued_ns: int = field(default_factory=time.perf_counter_ns)
    attempts: int = 0

    @property
    def is_over(self) -> bool:
        """True if nobody waits for it any more."""
        return self.future.done()

    def fits(self, other: "InferenceJob", *, is_batched: bool) -> bool:
        """Returns whether both can be run in one batch."""
        return (
            is_batched
            and self.wanted == other.wanted
            and all(
                mine.kind == theirs.kind != "bytes" and mine.shape[1:] == theirs.shape[1:]
                for mine, theirs in zip(self.inputs, other.inputs, strict=True)
            )
        )

    def fail(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended."""
        if not self.future.done():
            self.future.set_exception(error)

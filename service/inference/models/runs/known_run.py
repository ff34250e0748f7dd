"""Runs of requests with the same bytes as before, whose tensors are in clients' regions.

Such a request differs from the one before in nothing but what is in the regions. So it is not
checked and encoded again: its inputs go to the same places of a lane's arena, and if its outputs
have the same types, shapes and places as before, its answer has the same bytes. One with large
tensors is run in place, see `lane_windows`. What happens otherwise is left to an `ImmediateRun`,
which goes on with the run.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.errors import Error, ResultCode
from neurald.hal.lanes.packets import Answer, Receipt, RunAnswer, RunFailure, TensorAt
from neurald.service.inference.models.requests.batch import Batch
from neurald.service.inference.models.requests.job import InferenceJob
from neurald.service.inference.models.workers.instance import ModelInstance
from neurald.service.inference.models.workers.lane import Answered, ServedLane
from neurald.service.inference.models.workers.lane_windows import InPlace, PlacedTensor
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.tensors import InferenceRequest, RegionPlace

#: How long the end of a run is awaited. Longer ones do not become shorter by this.
SOON_S: Final = 1e-3


#: Is told how a request was run.
NoteKnown = Callable[["KnownRun"], None]


class BegunRun(Struct, kw_only=True, eq=False):
    """A run that has ended otherwise than the one before, or has not ended soon.

    Attributes:
        known: that has begun it, whose regions are in use.
        instance, lane: the instance and lane that run it.
        queued_ns: when its request came, on the clock of `time.perf_counter_ns`.
        begun_ns: when its inputs were written.
        outcome: the answer; the error of waiting for it, a TimeoutError if it has not ended.
        in_place: how it is run in place; None if it is run in the arena.
        id_field: what belongs behind the answer of `known`, which has no id.
    """

    known: "KnownRun"
    instance: ModelInstance
    lane: ServedLane
    queued_ns: int
    begun_ns: int
    outcome: Answered | OSError
    in_place: InPlace | None = None
    id_field: bytes = b""

    def result(self, answer: Answer, memory: memoryview) -> bytes | None:
        """Returns what the client is answered with if a run in place has ended as before.

        Args:
            answer: the answer of the worker.
            memory: the memory of the lane.
        """
        if self.in_place is None or not self.known.is_written(answer, memory, self.in_place):
            return None
        return self.known.answer + self.id_field

    def is_in_vain(self, answer: Answer, memory: memoryview) -> bool:
        """Returns whether it was run in place and has to be run again with copies; see `result`."""
        return self.in_place is not None and self.known.is_in_vain(answer, memory, self.in_place, self.lane)

    def batch(self, job: InferenceJob) -> Batch:
        """Returns the batch that it is, of its only request."""
        return Batch(
            jobs=[job],
            inputs=self.known.inputs,
            results_at=self.known.results_at,
            wanted=self.known.wanted,
            rows=self.known.rows,
            input_ns=self.begun_ns - self.queued_ns,
            begun_ns=self.begun_ns,
        )


class EndedRun(Struct, kw_only=True, eq=False):
    """A run that has ended as the one before, and is not counted yet: its client waits meanwhile.

    Attributes:
        known: that has run it.
        instance: the instance in which it ran.
        times_ns, receipt, trace_id: see `ModelInstance.note_alone`.
    """

    known: "KnownRun"
    instance: ModelInstance
    times_ns: tuple[int, int, int]
    receipt: Receipt
    trace_id: str

    @property
    def answer(self) -> bytes:
        """The answer to the client, without the id of its request."""
        return self.known.answer

    def count(self) -> None:
        """Counts it, once the client is answered."""
        self.instance.note_alone(self.known.rows, self.times_ns, self.receipt, self.trace_id)


class KnownRun(Struct, kw_only=True, eq=False, weakref=True):
    """Plan by which a request is run again.

    Attributes:
        loaded: stands for the model as it was loaded.
        inputs, results_at, wanted, rows: see `Batch`.
        room: the size of the arena.
        sources: the place of each input in a region, and its range in the arena.
        targets: the place of each output in a region, and its name.
        regions: a place in each region.
        outputs: the outputs that the worker has answered with.
        answer: what the client was answered with, without the id of the request.
    """

    loaded: object
    inputs: tuple[TensorAt, ...]
    results_at: int
    wanted: tuple[int, ...]
    rows: int
    room: int
    sources: Sequence[tuple[RegionPlace, int, int]]
    targets: Sequence[tuple[RegionPlace, str]]
    regions: Sequence[RegionPlace]
    outputs: tuple[TensorAt, ...]
    answer: bytes

    def use(self) -> bool:
        """Uses all regions until `release`; returns False if one is not registered any more."""
        for number, place in enumerate(self.regions):
            if not place.use():
                for used in self.regions[:number]:
                    used.release()
                return False
        return True

    def release(self) -> None:
        """Ends what `use` has begun."""
        for place in self.regions:
            place.release()

    def run(self, instance: ModelInstance, lane: ServedLane, trace_id: str) -> EndedRun | BegunRun | None:
        """Runs it in a lane that was lent, while its regions are in use.

        Args:
            instance, lane: the instance and lane that run it.
            trace_id: the trace ID of the client's trace; empty if it takes none.

        Returns:
            None if it was not begun, because an input cannot be read or the worker is gone, or if
                it was run in place in vain.
        """
        queued_ns = time.perf_counter_ns()
        try:
            in_place = lane.windows.in_place(self)
            if in_place is None:
                arena, inputs = lane.arena(self.room), self.inputs
            else:
                arena, inputs = lane.arena(in_place.room), in_place.inputs
                for place in self.regions:
                    place.region.check()
            for (place, begin, end), tensor in zip(self.sources, inputs, strict=True):
                if not tensor.window:
                    place.copy_into(arena[begin:end])
        except (ServiceError, Error, OSError):
            return None
        begun_ns = time.perf_counter_ns()
        outcome: Answered | OSError
        try:
            outcome = lane.run(inputs, self.results_at, self.wanted, time.monotonic() + SOON_S, in_place)
            answer, memory = outcome
            if isinstance(answer, RunAnswer) and self.is_written(answer, memory, in_place):
                return EndedRun(
                    known=self,
                    instance=instance,
                    times_ns=(queued_ns, begun_ns, time.perf_counter_ns()),
                    receipt=answer.receipt,
                    trace_id=trace_id,
                )
            if in_place is not None and self.is_in_vain(answer, memory, in_place, lane):
                return None
        except OSError as error:
            # Its frames refer to the outcome, and to the memory of the request.
            outcome = error.with_traceback(None)
        return BegunRun(
            known=self,
            instance=instance,
            lane=lane,
            queued_ns=queued_ns,
            begun_ns=begun_ns,
            outcome=outcome,
            in_place=in_place,
        )

    def is_written(self, answer: Answer, memory: memoryview, in_place: InPlace | None) -> bool:
        """Writes the outputs of a run to their regions, if they are not there.

        Returns:
            Whether it has ended as before, and all outputs are there.
        """
        if not isinstance(answer, RunAnswer) or answer.attached_bytes:
            return False
        try:
            if in_place is not None:
                if in_place.is_cut(memory):
                    return False
                for place in self.regions:
                    place.region.check_size()
                if in_place.results and answer.outputs == in_place.results:
                    return True
            if answer.outputs != self.outputs:
                return False
            for (place, name), tensor in zip(self.targets, answer.outputs, strict=True):
                place.write(memory[tensor.offset : tensor.offset + tensor.size], name)
        except ServiceError:
            return False  # which is noticed again
        return True

    def is_in_vain(self, answer: Answer, memory: memoryview, in_place: InPlace, lane: ServedLane) -> bool:
        """Returns whether a run in place, for which `is_written` is False, is repeated with copies.

        It is not run in place again for a while.
        """
        if isinstance(answer, RunFailure):
            if answer.code != ResultCode.BAD_STATE:
                return False
            lane.windows.refuse(self)
            return True
        if in_place.is_cut(memory) or (in_place.results and answer.outputs == in_place.results):
            lane.windows.renew(self)
            return True
        return False

    @property
    def placed_inputs(self) -> Sequence[PlacedTensor]:
        """See `RegionalRequest.placed_inputs`."""
        return [
            PlacedTensor(tensor=tensor, place=place)
            for tensor, (place, _, _) in zip(self.inputs, self.sources, strict=True)
        ]

    @property
    def placed_outputs(self) -> Sequence[PlacedTensor]:
        """See `RegionalRequest.placed_outputs`."""
        return [
            PlacedTensor(tensor=tensor, place=place)
            for tensor, (place, _) in zip(self.outputs, self.targets, strict=True)
        ]


def known_run(
    loaded: object, room: int, request: InferenceRequest, batch: Batch, answer: RunAnswer, result: object
) -> KnownRun | None:
    """Returns how to run a request again; None if that takes more than what `KnownRun` does.

    Args:
        loaded, room: see `KnownRun`.
        request: the request.
        batch: its run, in which no other one was.
        answer: the answer of the worker.
        result: what the client is answered with.
    """
    if not isinstance(result, bytes) or request.parameters or len(request.outputs) != len(answer.outputs):
        return None
    sources: list[tuple[RegionPlace, int, int]] = []
    for each, tensor in zip(batch.jobs[0].inputs, batch.inputs, strict=True):
        place: RegionPlace | None = getattr(each.source, "place", None)
        if place is None:
            return None
        sources.append((place, tensor.offset, tensor.offset + tensor.size))
    targets: list[tuple[RegionPlace, str]] = []
    for output in request.outputs:
        if output.region is None or output.classes:
            return None
        targets.append((output.region.place, output.name))
    regions: list[RegionPlace] = []
    for place in (*(each[0] for each in sources), *(each[0] for each in targets)):
        if not any(place.is_beside(other) for other in regions):
            regions.append(place)
    return KnownRun(
        loaded=loaded,
        inputs=batch.inputs,
        results_at=batch.results_at,
        wanted=batch.wanted,
        rows=batch.rows,
        room=room,
        sources=sources,
        targets=targets,
        regions=regions,
        outputs=answer.outputs,
        answer=result,
    )

"""One worker of a model, which is started again when it dies."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from neurald.hal.errors import BadData, Error, ResultCode, UnavailableDevice
from neurald.hal.lanes.packets import Answer, RunFailure, TensorAt, aligned
from neurald.service.inference.models.job import InferenceJob, JobOutput, RunRecord
from neurald.service.inference.models.lane import ServedLane
from neurald.service.inference.models.model_worker import ModelWorker
from neurald.service.inference.models.statistics import Durations, Statistics
from neurald.service.inference.models.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status, status_of
from neurald.service.inference.worker.orders import LoadOrder, ModelDescription
from neurald.service.manager.restart_policy import RestartPolicy

logger = logging.getLogger(__name__)

#: How many workers a request is given to, each of which dies before it answers.
_MAX_ATTEMPTS: Final = 3
#: How long a request waits after the death of a driver, times the number of its attempts.
_DRIVER_PAUSE_S: Final = 0.3


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The requests of a run that is under way."""

    jobs: list[InferenceJob]
    wanted: tuple[int, ...]
    rows: int
    input_ns: int
    begun_ns: int


class ModelInstance:
    """Runs requests in a worker of its own. Belongs to one event loop.

    Args:
        workers: gives it workers.
        order: how a worker loads the model.
        model: descriptor of the model's file, which stays the caller's.
        lanes: number of runs at once.
        load_s: how long loading may take.
        statistics: counts runs.
        output_bytes: how much room the outputs of a run probably take, by its number of rows.
        changed: is called when it has become ready or unready, and when a run has ended.
        returned: receives the requests of a worker that died.
    """

    def __init__(
        self,
        workers: WorkerPool,
        order: LoadOrder,
        model: int,
        *,
        lanes: int,
        load_s: float,
        statistics: Statistics,
        output_bytes: Callable[[int], int],
        changed: Callable[[], None],
        returned: Callable[[Sequence[InferenceJob]], None],
        ran: Callable[[float, int], None],
    ) -> None:
        self._workers = workers
        self._order = order
        self._model = model
        self._lane_count = lanes
        self._load_s = load_s
        self._statistics = statistics
        self._output_bytes = output_bytes
        self._changed = changed
        self._returned = returned
        self._ran = ran
        self._loop = asyncio.get_running_loop()
        self._policy = RestartPolicy()
        self._worker: ModelWorker | None = None
        self._idle: list[ServedLane] = []
        self._busy: dict[ServedLane, _Batch] = {}
        self._restarting: asyncio.Task[None] | None = None
        self._is_closed = False
        self._ready_s = 0.0
        self.reason = "it is loading"
        #: True if the model has killed its worker too often to be tried again.
        self.has_given_up = False

    @property
    def is_ready(self) -> bool:
        """True if a run can begin now, or when another one has ended."""
        return self._worker is not None and self._worker.is_ready

    @property
    def has_idle_lane(self) -> bool:
        """True if a run can begin now."""
        return bool(self._idle) and self.is_ready

    @property
    def running(self) -> int:
        """The number of runs under way."""
        return len(self._busy)

    @property
    def awaited(self) -> int:
        """The number of runs for which anybody waits; others are about to end."""
        return sum(any(not job.is_over for job in batch.jobs) for batch in self._busy.values())

    @property
    def pid(self) -> int | None:
        """The id of its worker; None while it has none."""
        return None if self._worker is None or self._worker.has_ended else self._worker.pid

    async def explain(self, title: str) -> bytes:
        """Returns what explains its model; see `ModelWorker.explain`.

        Raises:
            Error: the worker cannot tell.
        """
        if self._worker is None or self._worker.has_ended:
            raise UnavailableDevice(f"the model is not ready: {self.reason}")
        return await self._worker.explain(title)

    async def start(self) -> ModelDescription:
        """Starts a worker and has it load the model.

        Raises:
            Error: the model cannot be loaded.
        """
        worker = self._workers.take()
        worker.on_end = lambda: self._ended(worker)
        try:
            loaded = await worker.load(self._order, self._model, self._load_s)
        except BaseException:
            worker.on_end = lambda: None
            worker.kill()
            raise
        if self._is_closed:
            worker.on_end = lambda: None
            worker.kill()
            return loaded
        self._worker = worker
        self._ready_s = self._loop.time()
        worker.on_health = self._health_changed
        self._health_changed()
        try:
            for _ in range(self._lane_count):
                end, number = worker.open_lane(is_trusted=True)
                self._idle.append(ServedLane(end, number, self._lane_closed))
        except OSError:
            worker.kill()  # and be told of its end
        self._changed()
        return loaded

    def open_lane(self) -> socket.socket:
        """Opens a lane for a client on this host; returns the client's end of its socket.

        Raises:
            OSError: the worker is gone.
        """
        if self._worker is None:
            raise ConnectionError("there is no worker")
        return self._worker.open_lane(is_trusted=False)[0]

    def run(self, jobs: list[InferenceJob]) -> None:
        """Begins a run of requests that fit together. There must be an idle lane."""
        lane = self._idle.pop()
        began = time.perf_counter_ns()
        for job in jobs:
            job.attempts += 1
        try:
            inputs, results_at, rows = self._written(lane, jobs)
            now = time.perf_counter_ns()
            wanted = jobs[0].wanted
            if any(job.wanted != wanted for job in jobs):
                wanted = tuple(sorted({each for job in jobs for each in job.wanted}))
            self._busy[lane] = _Batch(jobs=jobs, wanted=wanted, rows=rows, input_ns=now - began, begun_ns=now)
            lane.begin(
                inputs,
                results_at,
                wanted,
                lambda answer, memory: self._answered(lane, answer, memory),
            )
        except (ServiceError, Error) as error:
            self._busy.pop(lane, None)
            self._idle.append(lane)
            self._refuse(jobs, error)
        except OSError:
            self._lane_closed(lane)

    def cancel(self, job: InferenceJob) -> None:
        """Ends the run of a request, if nobody waits for any other of the same run."""
        for lane, batch in self._busy.items():
            if job in batch.jobs and all(each.is_over for each in batch.jobs) and self._worker is not None:
                lane.cancel()
                self._worker.cancel(lane.number, lane.run_number)

    async def close(self) -> None:
        """Ends its worker."""
        self._is_closed = True
        if self._restarting is not None:
            self._restarting.cancel()
        for lane in (*self._idle, *self._busy):
            lane.close()
        self._idle.clear()
        self._busy.clear()
        if self._worker is not None and not self._worker.has_ended:
            ended = self._loop.create_future()
            self._worker.on_end = partial(ended.set_result, None)
            self._worker.kill()
            await ended

    def _refuse(self, jobs: list[InferenceJob], error: Exception) -> None:
        """Ends requests of which one could not be read; each of several is tried alone."""
        if isinstance(error, Error):
            error = ServiceError(status_of(error.code), str(error))
        if len(jobs) == 1:
            jobs[0].fail(error)
        else:
            for job in jobs:
                if self._idle and not job.is_over:
                    job.attempts -= 1
                    self.run([job])
                else:
                    self._returned([job])
        self._loop.call_soon(self._changed)

    def _written(self, lane: ServedLane, jobs: list[InferenceJob]) -> tuple[tuple[TensorAt, ...], int, int]:
        """Writes the inputs of requests into the arena of a lane, one after another.

        Returns:
            The inputs, the place behind them, and how many entries they have.
        """
        sizes = [sum(job.inputs[n].source.size for job in jobs) for n in range(len(jobs[0].inputs))]
        rows = sum(job.rows for job in jobs)
        offsets: list[int] = []
        at = 0
        for size in sizes:
            offsets.append(at)
            at = aligned(at + size)
        arena = lane.arena(at + self._output_bytes(rows) + 1)
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
        return tuple(inputs), at, rows

    def _answered(self, lane: ServedLane, answer: Answer, memory: memoryview) -> None:
        batch = self._busy.pop(lane)
        if isinstance(answer, RunFailure):
            self._failed(batch, answer)
        else:
            now = time.perf_counter_ns()
            receipt = answer.receipt
            parts = Durations(
                input_ns=batch.input_ns + receipt.read_ns,
                infer_ns=receipt.run_ns,
                output_ns=receipt.written_ns,
            )
            self._statistics.executed(batch.rows, parts)
            self._ran((now - batch.begun_ns) / 1e9, len(batch.jobs))
            before = 0
            for job in batch.jobs:
                self._finish(job, batch, answer.outputs, memory, before, receipt_parts=(answer, parts))
                before += job.rows
        self._idle.append(lane)
        self._changed()

    def _failed(self, batch: _Batch, answer: RunFailure) -> None:
        """Ends the requests of a run that failed; those that a driver's death has failed run again."""
        again: list[InferenceJob] = []
        if answer.code == ResultCode.DEAD_OBJECT:
            again = [job for job in batch.jobs if not job.is_over and job.attempts < _MAX_ATTEMPTS]
        error = ServiceError(
            Status.CANCELLED if answer.is_cancelled else status_of(answer.code), answer.message
        )
        for job in batch.jobs:
            if job not in again:
                job.fail(error)
        if again:
            self._statistics.retries += len(again)
            # The driver is started again meanwhile.
            self._loop.call_later(_DRIVER_PAUSE_S * again[0].attempts, self._returned, again)

    def _finish(
        self,
        job: InferenceJob,
        batch: _Batch,
        outputs: Sequence[TensorAt],
        memory: memoryview,
        before: int,
        *,
        receipt_parts: "tuple[Answer, Durations]",
    ) -> None:
        """Gives a request its part of the outputs, behind the rows of those before it."""
        if job.is_over:
            return
        answer, parts = receipt_parts
        assert not isinstance(answer, RunFailure)  # noqa: S101 - the caller has checked it
        queue_ns = batch.begun_ns - batch.input_ns - job.queued_ns
        try:
            if len(batch.wanted) != len(outputs):
                raise ServiceError(Status.INTERNAL, "the worker has returned other outputs than were wanted")
            if job.wanted != batch.wanted:
                by_position = dict(zip(batch.wanted, outputs, strict=True))
                outputs = [by_position[position] for position in job.wanted]
            result = job.finish(
                [
                    _part(
                        position,
                        tensor,
                        memory,
                        before,
                        job.rows if len(batch.jobs) > 1 else None,
                        batch.rows,
                    )
                    for position, tensor in zip(job.wanted, outputs, strict=True)
                ],
                RunRecord(
                    receipt=answer.receipt, queue_ns=queue_ns, batch_rows=batch.rows, attempts=job.attempts
                ),
            )
        except (ServiceError, BadData) as error:
            job.fail(error if isinstance(error, ServiceError) else ServiceError(Status.INTERNAL, str(error)))
            return
        except Exception as error:
            logger.exception("an answer cannot be encoded")
            job.fail(ServiceError(Status.INTERNAL, f"unexpected {type(error).__name__}"))
            return
        now = time.perf_counter_ns()
        job.end.set_result(result)
        self._statistics.succeeded(
            job.rows,
            now - job.queued_ns,
            Durations(
                queue_ns=max(0, queue_ns),
                input_ns=parts.input_ns,
                infer_ns=parts.infer_ns,
                output_ns=parts.output_ns,
            ),
        )

    def _health_changed(self) -> None:
        if self._worker is not None:
            self.reason = self._worker.reason
            self._changed()

    def _lane_closed(self, lane: ServedLane) -> None:
        """Ends a worker of which a lane broke: it dies, or does not obey the rules."""
        if self._worker is not None:
            self._worker.kill()

    def _ended(self, worker: ModelWorker) -> None:
        """Puts the requests of a worker that died back, and starts another one."""
        if self._worker is not worker or self._is_closed:
            return
        self._worker = None
        batches = list(self._busy.values())
        for lane in (*self._idle, *self._busy):
            lane.close()
        self._idle.clear()
        self._busy.clear()
        self.reason = f"its worker ended ({worker.exit_text}) and is started again"
        for batch in batches:
            again = [job for job in batch.jobs if not job.is_over and job.attempts < _MAX_ATTEMPTS]
            for job in batch.jobs:
                if job not in again:
                    job.fail(
                        ServiceError(
                            Status.UNAVAILABLE, f"{job.attempts} workers died while they ran this request"
                        )
                    )
            self._statistics.retries += len(again)
            self._returned(again)
        now_s = self._loop.time()
        pause_s = self._policy.died(now_s, now_s - self._ready_s)
        logger.warning("the worker of %s ended: %s", self._order.name, worker.exit_text)
        if pause_s is None:
            self._give_up(self._policy.describe_quarantine())
        else:
            self._restarting = self._loop.create_task(self._restart(pause_s))
        self._changed()

    async def _restart(self, pause_s: float) -> None:
        while not self._is_closed:
            await asyncio.sleep(pause_s)
            try:
                await self.start()
                return
            except (Error, OSError) as error:
                self.reason = f"its worker could not be started again: {error}"
                again_s = self._policy.died(self._loop.time(), 0.0)
                if again_s is None:
                    self._give_up(self.reason)
                    return
                pause_s = max(0.1, again_s)

    def _give_up(self, reason: str) -> None:
        self.has_given_up = True
        self.reason = reason
        logger.error("the model %s is not served any more: %s", self._order.name, reason)
        self._changed()


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
            raise ServiceError(Status.INTERNAL, "an output does not have as many rows as the batch")
        row = tensor.size // of_rows
        data = data[before * row : (before + rows) * row]
        shape = (rows, *shape[1:])
    return JobOutput(position=position, kind=tensor.kind, shape=shape, data=data)

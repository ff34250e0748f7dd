"""One worker of a model, which is started again when it dies."""

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.errors import BadData, Error, ResultCode, UnavailableDevice
from neurald.hal.lanes.packets import Answer, Receipt, RunAnswer, RunFailure
from neurald.service.inference.models.requests.batch import Batch, arena_bytes, written_batch
from neurald.service.inference.models.requests.job import InferenceJob
from neurald.service.inference.models.statistics.statistics import Durations, Statistics
from neurald.service.inference.models.workers.lane import ServedLane
from neurald.service.inference.models.workers.model_worker import ModelWorker
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status, status_of
from neurald.service.inference.worker.orders import LoadOrder, ModelDescription
from neurald.service.manager.supervision.restart_policy import RestartPolicy

logger = logging.getLogger(__name__)

#: How many workers a request is given to, each of which dies before it answers.
_MAX_ATTEMPTS: Final = 3
#: The most bytes of an arena that outputs of a model are given beyond the estimate.
_MAX_OUTGROWN_BYTES: Final = 16 << 20
#: How long a request waits after the death of a driver, times the number of its attempts.
_DRIVER_PAUSE_S: Final = 0.3
#: What the machine may lack for a while, and the pause before it is asked again for a worker.
_SHORTAGES: Final = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_SHORTAGE_PAUSE_S: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceEvents:
    """The functions that an instance calls when something happens to it.

    Attributes:
        changed: the function that is called when it has become ready or unready, and when a run has
            ended.
        returned: receives the requests of a worker that died or was ended.
        ran: the function that is called with the seconds and the number of requests of each run.
    """

    changed: Callable[[], None]
    returned: Callable[[Sequence[InferenceJob]], None]
    ran: Callable[[float, int], None]


class ModelInstance:
    """Runs requests in a worker of its own. Belongs to one event loop.

    Its lanes may also be taken by other threads, which run requests themselves.

    Args:
        workers: gives it workers.
        order: how a worker loads the model.
        model: descriptor of the model's file, which stays the caller's.
        lanes: number of runs at once.
        load_s: how long loading may take.
        statistics: counts runs.
        output_bytes: how much room the outputs of a run probably take, by its number of rows.
        events: what is called when something happens to it.
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
        events: InstanceEvents,
    ) -> None:
        self._workers = workers
        self._order = order
        self._model = model
        self._lane_count = lanes
        self._load_s = load_s
        self._statistics = statistics
        self._estimate = output_bytes
        #: The outputs that had no room in an arena, by the number of rows: how large they were.
        self._outgrown: dict[int, int] = {}
        self._changed = events.changed
        self._returned = events.returned
        self._ran = events.ran
        self._loop = asyncio.get_running_loop()
        self._policy = RestartPolicy()
        self._worker: ModelWorker | None = None
        #: Protects which lanes are idle, and which other threads have taken.
        self._lanes = threading.Lock()
        self._idle: list[ServedLane] = []
        self._lent: set[ServedLane] = set()
        #: The requests of each run of the event loop.
        self._busy: dict[ServedLane, list[InferenceJob]] = {}
        self._restarting: asyncio.Task[None] | None = None
        self._is_closed = False
        self._ready_s = 0.0
        self.reason = "it is loading"
        #: True if the model has killed its worker too often to be tried again, unless it is
        #: revived.
        self.has_given_up = False

    @property
    def is_ready(self) -> bool:
        """True if a run can begin now, or when another one has ended."""
        return self._worker is not None and self._worker.is_ready

    @property
    def running(self) -> int:
        """The number of runs under way."""
        return len(self._busy) + len(self._lent)

    @property
    def awaited(self) -> int:
        """The number of runs for which anybody waits; others are about to end."""
        awaited = sum(any(not job.is_over for job in jobs) for jobs in self._busy.values())
        return awaited + len(self._lent)

    @property
    def pid(self) -> int | None:
        """The id of its worker; None while it has none."""
        return None if self._worker is None or self._worker.has_ended else self._worker.pid

    def is_outdated(self, state: tuple[object, ...]) -> bool:
        """Returns True if files have changed that its worker reads.

        Args:
            state: what `read_state` returns now.
        """
        return self._worker is not None and self._worker.read_state != state

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
            OSError: no worker can be started.
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
                cut_window = partial(worker.cut_window, number)
                self.put_back(ServedLane(end, number, self._lane_failed, cut_window))
        except OSError as error:
            if _is_shortage(error):
                worker.on_end = lambda: None
                self._worker = None
                self._close_lanes()
                worker.kill()
                self._changed()
                raise
            worker.kill()  # and be told of its end
        self._changed()
        return loaded

    async def revive(self) -> None:
        """Starts a worker once more if the model has killed its workers too often.

        Raises:
            Error: the model cannot be loaded; it stays given up.
        """
        if self.has_given_up:
            self._policy.forget()
            await self.start()
            self.has_given_up = False

    def open_lane(self) -> socket.socket:
        """Opens a lane for a client on this host; returns the client's end of its socket.

        Raises:
            OSError: the worker is gone.
        """
        if self._worker is None:
            raise ConnectionError("there is no worker")
        return self._worker.open_lane(is_trusted=False)[0]

    def take_lane(self) -> ServedLane | None:
        """Takes an idle lane for `run`, or to be put back; returns None if no run can begin now."""
        with self._lanes:
            return self._idle.pop() if self._idle and self.is_ready else None

    def put_back(self, lane: ServedLane) -> None:
        """Puts an idle lane back."""
        with self._lanes:
            self._idle.append(lane)

    def run(self, lane: ServedLane, jobs: list[InferenceJob]) -> None:
        """Begins a run of requests that fit together, in a lane that was taken."""
        for job in jobs:
            job.attempts += 1
        self._busy[lane] = jobs
        try:
            batch = written_batch(jobs, lane.arena, self._output_bytes)
            lane.begin(
                batch.inputs,
                batch.results_at,
                batch.wanted,
                lambda answer, memory: self._answered(lane, batch, answer, memory),
            )
        except (ServiceError, Error) as error:
            del self._busy[lane]
            self.put_back(lane)
            self._refuse(jobs, error)
        except OSError:
            self._lane_failed(lane)

    # In other threads.

    def lend_lane(self) -> ServedLane | None:
        """Takes an idle lane for another thread; returns None if there is none.

        Any thread may call it.
        """
        with self._lanes:
            if not self._idle or not self.is_ready:
                return None
            lane = self._idle.pop()
            self._lent.add(lane)
            return lane

    def take_back(self, lane: ServedLane) -> None:
        """Takes a lane back that was lent. Any thread may call it."""
        with self._lanes:
            if lane in self._lent:
                self._lent.discard(lane)
                self._idle.append(lane)
                return
        lane.close()  # its worker has ended meanwhile

    def room(self, batch: Batch) -> int:
        """Returns how large an arena is in which a batch is run."""
        return arena_bytes(batch.results_at, self._output_bytes(batch.rows))

    def write(self, lane: ServedLane, job: InferenceJob) -> Batch:
        """Writes the inputs of a request into the arena of a lent lane; see `written_batch`."""
        return written_batch([job], lane.arena, self._output_bytes)

    def _output_bytes(self, rows: int) -> int:
        """Returns how much room of an arena outputs are given."""
        return max(self._estimate(rows), self._outgrown.get(rows, 0))

    def note_run(self, batch: Batch, answer: RunAnswer) -> None:
        """Counts a run that has succeeded, and gives outputs that had no room more the next time.

        Outputs whose lengths follow from inputs are as large in most requests as in those before. A
        memory of their own takes several times as long as their run.
        """
        if answer.attached_bytes > self._outgrown.get(batch.rows, 0):
            self._outgrown[batch.rows] = min(answer.attached_bytes, _MAX_OUTGROWN_BYTES)
        self._statistics.executed(batch.rows, batch.durations(answer))
        self._ran((time.perf_counter_ns() - batch.begun_ns) / 1e9, len(batch.jobs))

    def note_success(self, batch: Batch, job: InferenceJob, answer: RunAnswer) -> None:
        """Counts a request that has its answer."""
        parts = batch.durations(answer)
        self._statistics.succeeded(
            job.rows,
            time.perf_counter_ns() - job.queued_ns,
            Durations(
                queue_ns=max(0, batch.queue_ns(job)),
                input_ns=parts.input_ns,
                infer_ns=parts.infer_ns,
                output_ns=parts.output_ns,
            ),
            job.trace_id,
        )

    def note_alone(self, rows: int, times_ns: tuple[int, int, int], receipt: Receipt, trace_id: str) -> None:
        """Counts a run of one request that has its answer.

        Args:
            rows: entries of its batch.
            times_ns: when it came, when its inputs were written, and when its outputs were, on the
                clock of `time.perf_counter_ns`.
            receipt: the receipt of the run.
            trace_id: the trace ID of the client's trace; empty if it takes none.
        """
        queued_ns, begun_ns, ended_ns = times_ns
        parts = Durations(
            input_ns=begun_ns - queued_ns + receipt.read_ns,
            infer_ns=receipt.run_ns,
            output_ns=receipt.written_ns,
        )
        self._statistics.executed(rows, parts)
        self._statistics.succeeded(rows, ended_ns - queued_ns, parts, trace_id)
        self._ran((ended_ns - begun_ns) / 1e9, 1)

    def cancel_lent(self, lane: ServedLane) -> None:
        """Ends the run of a lane that was lent, for which nobody waits any more."""
        worker = self._worker
        if worker is not None and lane in self._lent:
            lane.cancel()
            worker.cancel(lane.number, lane.run_number)

    # In the event loop.

    def cancel(self, job: InferenceJob) -> None:
        """Ends the run of a request, if nobody waits for any other of the same run."""
        for lane, jobs in self._busy.items():
            if job in jobs and all(each.is_over for each in jobs) and self._worker is not None:
                lane.cancel()
                self._worker.cancel(lane.number, lane.run_number)

    async def close(self) -> None:
        """Ends its worker, and returns the requests that it still runs."""
        self._is_closed = True
        if self._restarting is not None:
            self._restarting.cancel()
        interrupted = list(self._busy.values())
        self._close_lanes()
        for jobs in interrupted:
            self._returned(jobs)
        if self._worker is not None and not self._worker.has_ended:
            ended = self._loop.create_future()
            self._worker.on_end = partial(ended.set_result, None)
            self._worker.kill()
            await ended

    def _refuse(self, jobs: list[InferenceJob], error: Exception) -> None:
        """Ends requests of which one could not be read; each of several is tried alone."""
        if len(jobs) == 1:
            jobs[0].fail(input_error(error))
        else:
            for job in jobs:
                lane = None if job.is_over else self.take_lane()
                if lane is not None:
                    job.attempts -= 1
                    self.run(lane, [job])
                else:
                    self._returned([job])
        self._loop.call_soon(self._changed)

    def _answered(self, lane: ServedLane, batch: Batch, answer: Answer, memory: memoryview) -> None:
        del self._busy[lane]
        if isinstance(answer, RunFailure):
            self.failed(batch.jobs, answer)
        else:
            self.note_run(batch, answer)
            before = 0
            for job in batch.jobs:
                self._finish(job, batch, answer, memory, before)
                before += job.rows
        self.put_back(lane)
        self._changed()

    def failed(self, jobs: Sequence[InferenceJob], answer: RunFailure) -> None:
        """Ends the requests of a failed run; those that failed by a driver's death are repeated."""
        again: list[InferenceJob] = []
        if answer.code == ResultCode.DEAD_OBJECT:
            again = [job for job in jobs if not job.is_over and job.attempts < _MAX_ATTEMPTS]
        for job in jobs:
            if job not in again:
                job.fail(run_error(answer))
        if again:
            self._statistics.retries += len(again)
            # The driver is started again meanwhile.
            self._loop.call_later(_DRIVER_PAUSE_S * again[0].attempts, self._returned, again)

    def _finish(
        self, job: InferenceJob, batch: Batch, answer: RunAnswer, memory: memoryview, before: int
    ) -> None:
        """Gives a request its part of the outputs, behind the rows of those before it."""
        if job.is_over:
            return
        try:
            result = batch.result(job, answer, memory, before)
        except Exception as error:
            job.fail(answer_error(error))
            return
        if job.note_result is not None and len(batch.jobs) == 1:
            job.note_result(self.room(batch), batch, answer, result)
        job.end.set_result(result)
        self.note_success(batch, job, answer)

    def _health_changed(self) -> None:
        if self._worker is not None:
            self.reason = self._worker.reason
            self._changed()

    def _lane_failed(self, lane: ServedLane) -> None:
        """Ends a worker of which a lane broke: it dies, or does not obey the rules."""
        if self._worker is not None and lane in self._busy:
            self._worker.kill()

    def lent_lane_failed(self, lane: ServedLane, job: InferenceJob) -> None:
        """Repeats a request whose lane, which was lent, broke."""
        with self._lanes:
            is_present = lane in self._lent
            self._lent.discard(lane)
        if is_present and self._worker is not None:
            self._busy[lane] = [job]
            self._worker.kill()
        else:  # its worker has ended
            lane.close()
            self._lost([job])

    def _lost(self, jobs: Sequence[InferenceJob]) -> None:
        """Makes requests run again whose worker died; ends those of which several have died."""
        again = [job for job in jobs if not job.is_over and job.attempts < _MAX_ATTEMPTS]
        for job in jobs:
            if job not in again:
                job.fail(
                    ServiceError(
                        Status.UNAVAILABLE, f"{job.attempts} workers died while they ran this request"
                    )
                )
        self._statistics.retries += len(again)
        self._returned(again)

    def _close_lanes(self) -> None:
        """Forgets all lanes, and closes those that no other thread uses."""
        with self._lanes:
            closed = (*self._idle, *self._busy)
            self._idle.clear()
            self._busy.clear()
            self._lent.clear()
        for lane in closed:
            lane.close()

    def _ended(self, worker: ModelWorker) -> None:
        """Puts the requests of a worker that died back, and starts another one."""
        if self._worker is not worker or self._is_closed:
            return
        self._worker = None
        interrupted = list(self._busy.values())
        self._close_lanes()
        self.reason = f"its worker ended ({worker.exit_text}) and is started again"
        for jobs in interrupted:
            self._lost(jobs)
        now_s = self._loop.time()
        pause_s = self._policy.died(now_s, now_s - self._ready_s)
        name, text = self._order.name, "the worker of %s ended: %s"
        note_event(CountedEvent.WORKER_DEATH, name, logger.warning, text, name, worker.exit_text)
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
                if _is_shortage(error):  # which is no fault of the model
                    pause_s = _SHORTAGE_PAUSE_S
                    continue
                again_s = self._policy.died(self._loop.time(), 0.0)
                if again_s is None:
                    self._give_up(self.reason)
                    return
                pause_s = max(0.1, again_s)

    def _give_up(self, reason: str) -> None:
        self.has_given_up = True
        self.reason = reason
        name, text = self._order.name, "the model %s is not served any more: %s"
        note_event(CountedEvent.MODEL_GIVEN_UP, name, logger.error, text, name, reason)
        self._changed()


def _is_shortage(error: Error | OSError) -> bool:
    """Returns whether a worker could not start because the machine lacks something for a while."""
    if isinstance(error, Error):
        return error.code == ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    return error.errno in _SHORTAGES


def input_error(error: Exception) -> Exception:
    """Returns the error for a client whose inputs cannot be read."""
    return ServiceError(status_of(error.code), str(error)) if isinstance(error, Error) else error


def run_error(answer: RunFailure) -> ServiceError:
    """Returns the error that a run has ended with."""
    return ServiceError(Status.CANCELLED if answer.is_cancelled else status_of(answer.code), answer.message)


def answer_error(error: Exception) -> ServiceError:
    """Returns the error for a client whose answer cannot be passed on."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, BadData):
        return ServiceError(Status.INTERNAL, str(error))
    logger.error("an answer cannot be encoded", exc_info=error)
    return ServiceError(Status.INTERNAL, f"unexpected {type(error).__name__}")

"""One version of a model that is served: its workers, its queue, and its description."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.lanes.packets import RunAnswer
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.models.arrivals import Arrivals
from neurald.service.inference.models.batch import Batch
from neurald.service.inference.models.immediate_run import ImmediateRun
from neurald.service.inference.models.instance import ModelInstance
from neurald.service.inference.models.job import InferenceJob, JobEnd, failure_reason, late_error
from neurald.service.inference.models.job_queue import JobQueue
from neurald.service.inference.models.known_run import (
    SOON_S,
    BegunRun,
    EndedRun,
    KnownRun,
    NoteKnown,
    known_run,
)
from neurald.service.inference.models.lane import ServedLane
from neurald.service.inference.models.latencies import NOTHING_MEASURED, MeasuredLatencies
from neurald.service.inference.models.model_interface import Encode, ModelInterface, NoteRun
from neurald.service.inference.models.request_limits import (
    earlier,
    priority_of,
    set_limits,
    times_of,
)
from neurald.service.inference.models.statistics import FailureReason, Latencies, Statistics
from neurald.service.inference.models.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.repository.model_config import ModelSettings, completed
from neurald.service.inference.worker.orders import ModelDescription
from neurald.service.manager.state import ModelStatus

_DRAIN_S: Final = 30.0
#: How long requests wait for a model that is not ready.
_PATIENCE_S: Final = 15.0
#: Models whose runs usually take longer are not run in threads of transports.
_SHORT_RUN_S: Final = 0.02


class ServedVersion:
    """Serves one version of a model. Belongs to one event loop.

    Args:
        name: the name of the model.
        version: the version of the model.
        config: the model's configuration, a message ModelConfig.
        settings: what follows from it.
        labels: the names of the classes of outputs, by output.
        model: descriptor of its file, which this object closes.
        workers: gives it workers.
        queue_size: how many requests may wait, unless the configuration says.
        load_s: how long loading may take.
        measured: which distributions of latencies are measured.

    Attributes:
        config: complete once it is loaded.
        origin: what it was loaded from, for comparisons of its registry.
        statistics: what it has done.
        arrivals: requests that transports still receive.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: Any,
        settings: ModelSettings,
        labels: Mapping[str, Sequence[str]],
        model: int,
        workers: WorkerPool,
        *,
        queue_size: int,
        load_s: float,
        measured: MeasuredLatencies,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self.origin: object = None
        self.settings = settings
        is_measured = measured != NOTHING_MEASURED
        self.statistics = Statistics(
            latencies=Latencies(measured, settings.histogram_ms) if is_measured else None
        )
        self.arrivals = Arrivals()
        self._labels = labels
        self._model = model
        self._loop = asyncio.get_running_loop()
        #: Clients can cause these as often as they like.
        self._refusals = RateLimitedLogger(logging.getLogger(__name__))
        self._late = RateLimitedLogger(logging.getLogger(__name__))
        self._queue = JobQueue(
            batch_rows=settings.max_batch_size if settings.batches else 1,
            preferred=settings.preferred_sizes,
            delay_s=settings.delay_s,
            size=queue_size,
            priorities=settings.priorities,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        #: None until it is loaded.
        self._interface: ModelInterface | None = None
        self._is_closing = False
        #: Whether requests that come back are not run again.
        self._is_unloaded = False
        self._drained: asyncio.Future[None] | None = None
        self._instances = [
            ModelInstance(
                workers,
                settings.order,
                model,
                lanes=settings.lanes,
                load_s=load_s,
                statistics=self.statistics,
                output_bytes=lambda rows: self._known_interface().output_bytes(rows),
                changed=self._dispatch,
                returned=self._returned,
                ran=self._queue.ran,
            )
            for _ in range(settings.instances)
        ]

    # State.

    @property
    def is_ready(self) -> bool:
        """True if requests are run now."""
        return not self._is_closing and any(each.is_ready for each in self._instances)

    @property
    def reason(self) -> str:
        """The reason why it is not ready."""
        if self._is_closing:
            return "it is being unloaded"
        return "" if self.is_ready else self._instances[0].reason

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of its workers."""
        return tuple(each.pid for each in self._instances if each.pid is not None)

    def is_outdated(self, state: tuple[object, ...]) -> bool:
        """Returns True if files have changed that its workers read; see `ModelInstance`."""
        return any(each.is_outdated(state) for each in self._instances)

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """The number of runs under way."""
        return sum(each.running for each in self._instances)

    @property
    def _all_lanes(self) -> int:
        """The number of runs that may be under way at once."""
        return self.settings.lanes * self.settings.instances

    @property
    def loaded(self) -> ModelDescription:
        """Describes the model for clients.

        Raises:
            ServiceError: it is not loaded.
        """
        return self._known_interface().described

    @property
    def loaded_by_worker(self) -> ModelDescription:
        """Describes the model for those who talk to its workers; see `loaded`."""
        return self._known_interface().loaded

    def _known_interface(self) -> ModelInterface:
        if self._interface is None:
            raise ServiceError(Status.UNAVAILABLE, f"the model {self.name} is not loaded yet")
        return self._interface

    def status(self) -> ModelStatus:
        """Describes it for operators."""
        return ModelStatus(
            name=self.name,
            version=str(self.version),
            is_ready=self.is_ready,
            reason=self.reason,
            processes=self.processes,
            devices=() if self._interface is None else self._interface.loaded.devices,
        )

    # Life.

    async def start(self) -> None:
        """Loads the model in all workers, and warms it up.

        Raises:
            Error, ServiceError: it cannot be loaded.
        """
        first, *others = self._instances
        loaded = await first.start()
        self.config = completed(self.config, self.name, loaded)
        self._interface = ModelInterface(
            self.name, self.version, self.config, self.settings.max_batch_size, self._labels, loaded
        )
        await asyncio.gather(*(each.start() for each in others))

    async def revive(self) -> None:
        """Starts workers once more that the model has killed too often.

        Raises:
            Error: it cannot be loaded.
        """
        await asyncio.gather(*(each.revive() for each in self._instances))

    async def close(self, drain_s: float = _DRAIN_S) -> None:
        """Answers the requests that are there, and ends the workers."""
        self._is_closing = True
        # Before it is examined what is under way, since other threads end their runs meanwhile.
        self._drained = self._loop.create_future()
        self._dispatch()
        await asyncio.wait((self._drained,), timeout=drain_s)
        for timer in (self._timer, self._patience):
            if timer is not None:
                timer.cancel()
        self._is_unloaded = True
        for job in self._queue.take_all():
            job.fail(self._unloaded())
        await asyncio.gather(*(each.close() for each in self._instances))
        if self._model >= 0:
            os.close(self._model)
            self._model = -1

    def _unloaded(self) -> ServiceError:
        return ServiceError(Status.UNAVAILABLE, f"the model {self.name} was unloaded")

    async def explain(self) -> bytes:
        """Returns what explains the placement; see `ModelWorker.explain`.

        Raises:
            Error: no worker can tell.
        """
        ready = next((each for each in self._instances if each.is_ready), self._instances[0])
        return await ready.explain(f"{self.name}, version {self.version}")

    def open_lane(self) -> socket.socket:
        """Opens a lane for a client on this host.

        Raises:
            ServiceError: the model is not ready.
        """
        for each in self._instances:
            if each.is_ready:
                try:
                    return each.open_lane()
                except OSError:
                    continue
        raise ServiceError(Status.UNAVAILABLE, f"the model {self.name} is not ready: {self.reason}")

    # Requests.

    async def infer(
        self,
        request: InferenceRequest,
        encode: Encode,
        timeout_s: float | None,
        note_run: NoteRun | None = None,
        note_known: NoteKnown | None = None,
    ) -> object:
        """Runs the model.

        Args:
            request: the inputs, which are not trusted.
            encode: makes the transport's answer; its argument is valid only during the call.
            timeout_s: how long the transport lets it take; None for no limit.
            note_run: receives how it was run.
            note_known: receives how it can be run again by `run_known`, if it can.

        Returns:
            What `encode` returned.

        Raises:
            ServiceError: the request is not valid, or cannot be run.
        """
        future: asyncio.Future[object] = self._loop.create_future()
        job = self.begin(request, encode, timeout_s, future, note_run, note_known)
        failure: FailureReason | None = None
        try:
            return await future
        except BaseException as error:
            failure = failure_reason(job, error)
            if isinstance(error, asyncio.CancelledError):
                self.abandon(job)
            raise
        finally:
            self.note_end(job, failure)

    def begin(
        self,
        request: InferenceRequest,
        encode: Encode,
        timeout_s: float | None,
        end: JobEnd,
        note_run: NoteRun | None = None,
        note_known: NoteKnown | None = None,
    ) -> InferenceJob:
        """Begins to run the model; see `infer`. Returns the request, for `note_end` or `abandon`.

        Args:
            request, encode, timeout_s, note_run, note_known: see `infer`.
            end: receives the answer or the error, possibly before this returns.

        Raises:
            ServiceError: the request is not valid, or refused.
        """
        if self._is_closing or all(each.has_given_up for each in self._instances):
            raise ServiceError(Status.UNAVAILABLE, f"the model {self.name} is not ready: {self.reason}")
        job = self._job(request, encode, timeout_s, end, note_run, note_known)
        now_s = self._loop.time()
        try:
            self._queue.put(
                job, now_s, lanes=self._all_lanes, running=sum(each.awaited for each in self._instances)
            )
        except ServiceError as error:
            self._note_refused(error)
            raise
        self._watch_limits(job)
        self._dispatch()
        return job

    def refusal(
        self, timeout_s: float | None, request: InferenceRequest | None = None
    ) -> ServiceError | None:
        """Returns why a request is refused before it is queued, and counts it as refused.

        The less is done for requests that are refused, the more of the others are answered. Any
        thread may call it.

        Args:
            timeout_s: see `infer`.
            request: None if nothing of it was received yet.

        Returns:
            None for a request that `begin` may take.

        Raises:
            ServiceError: the request is not valid.
        """
        priorities = self.settings.priorities
        priority, limit_s, begin_limit_s = priorities.default, timeout_s, None
        if request is None and timeout_s is None:
            return None
        if request is not None:
            priority = priority_of(request, priorities)
            policy = priorities.policy_of(priority)
            limit_s, begin_limit_s = times_of(request, timeout_s, policy)
            if policy.delays:
                begin_limit_s = None
        elif priorities.levels:
            return None  # it may have any priority
        if not self._queue.would_be_late(
            limit_s,
            begin_limit_s,
            priority=priority,
            lanes=self._all_lanes,
            running=self.running,
            # They come before one of which nothing was received.
            arriving=0 if request is not None else len(self.arrivals),
        ):
            return None
        refusal = self._queue.late_refusal()
        self._note_refused(refusal)
        return refusal

    def _note_refused(self, error: ServiceError) -> None:
        """Counts and logs a request that was refused because too many waited."""
        self.statistics.note_refused()
        text, kind = "the model %s has refused a request: %s", error.status.name
        note_event(CountedEvent.REFUSAL, kind, self._refusals.info, text, self.name, error)

    def run_known(self, known: KnownRun, trace_id: str) -> EndedRun | BegunRun | None:
        """Runs a request again in an idle lane. Any thread may call it.

        Args:
            known: how it was run.
            trace_id: the trace ID of the client's trace; empty if it takes none.

        Returns:
            The run, which the caller counts; what `begin_at_once` goes on with if it has not ended
                at once; None if nothing was done.
        """
        if known.loaded is not self._interface or self._queue.run_s >= SOON_S or not known.use():
            return None
        lent = self._lend_lane()
        if lent is None:
            known.release()
            return None
        instance, lane = lent
        found = known.run(instance, lane, trace_id)
        if not isinstance(found, BegunRun):
            known.release()
            instance.take_back(lane)
            self._dispatch_soon()
        return found

    def _lend_lane(self) -> tuple[ModelInstance, ServedLane] | None:
        """Takes an idle lane for a short request that need not wait; returns None for others."""
        if self._is_closing or not self._queue.may_run_alone or not 0 < self._queue.run_s < _SHORT_RUN_S:
            return None
        for instance in self._instances:
            lane = instance.lend_lane()
            if lane is not None:
                return instance, lane
        return None

    def begin_at_once(
        self,
        request: InferenceRequest,
        encode: Encode,
        timeout_s: float | None,
        end: JobEnd,
        begun: BegunRun | None = None,
        note_known: NoteKnown | None = None,
    ) -> ImmediateRun | None:
        """Takes an idle lane for a request that another thread than the loop's runs.

        Args:
            request, encode, timeout_s, end, note_known: see `begin`.
            begun: its run, if it was begun already.

        Returns:
            What runs it; None if it has to wait, or takes so long that the thread should not.

        Raises:
            ServiceError: the request is not valid.
        """
        lent = (begun.instance, begun.lane) if begun is not None else self._lend_lane()
        if lent is None:
            return None
        instance, lane = lent
        try:
            job = self._job(request, encode, timeout_s, end, None, note_known)
        except BaseException:
            if begun is None:  # else its run may go on
                instance.take_back(lane)
                self._dispatch_soon()
            raise
        if begun is not None:
            job.queued_ns = begun.queued_ns
        return ImmediateRun(instance, lane, job, self._dispatch_soon, self._queue.run_s, begun)

    def _note_known(
        self,
        note_known: NoteKnown,
        request: InferenceRequest,
        room: int,
        batch: Batch,
        answer: RunAnswer,
        result: object,
    ) -> None:
        """Tells how a request was run, if it can be run so again."""
        known = known_run(self._interface, room, request, batch, answer, result)
        if known is not None:
            note_known(known)

    def run_again(self, job: InferenceJob, again: Callable[[], None]) -> None:
        """Repeats a request whose worker or driver died.

        Args:
            job: the request.
            again: what `ImmediateRun.run` has returned.
        """
        self._watch_limits(job)
        again()
        self._dispatch()

    def note_end(self, job: InferenceJob, failure: FailureReason | None) -> None:
        """Notes that a request has ended; `failure` is why it has no answer."""
        if failure is not None:
            self.statistics.failed(time.perf_counter_ns() - job.queued_ns, failure, job.trace_id)
        if job.expiry is not None:
            job.expiry.cancel()

    def _job(
        self,
        request: InferenceRequest,
        encode: Encode,
        timeout_s: float | None,
        end: JobEnd,
        note_run: NoteRun | None,
        note_known: NoteKnown | None,
    ) -> InferenceJob:
        """Returns the job of a request with its deadline; see `begin`."""
        job = self._known_interface().job(request, encode, end, note_run)
        if note_known is not None:
            job.note_result = partial(self._note_known, note_known, request)
        job.trace_id = request.trace_id
        set_limits(job, request, timeout_s, self.settings.priorities, self._loop.time())
        return job

    def raw_request(self, content: memoryview) -> InferenceRequest:
        """See `ModelInterface.raw_request`."""
        return self._known_interface().raw_request(content)

    # The queue.

    def _dispatch(self) -> None:
        """Begins runs as long as there are requests and idle lanes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while len(self._queue) and (found := self._idle_lane()):
            instance, lane = found
            jobs, due_s = self._queue.take(self._loop.time())
            if jobs:
                instance.run(lane, jobs)
                continue
            instance.put_back(lane)
            if due_s is not None:
                self._timer = self._loop.call_at(due_s, self._dispatch)
                return
        if all(each.has_given_up for each in self._instances):
            self._refuse_waiting()
        self._limit_patience()
        is_busy = len(self._queue) or any(each.running for each in self._instances)
        if self._drained is not None and not self._drained.done() and not is_busy:
            self._drained.set_result(None)

    def _limit_patience(self) -> None:
        """Lets requests wait for a model that is not ready, but not for ever."""
        if self.is_ready or not len(self._queue):
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
        elif self._patience is None:
            self._patience = self._loop.call_later(_PATIENCE_S, self._refuse_waiting)

    def _refuse_waiting(self) -> None:
        self._patience = None
        for job in self._queue.take_all():
            job.fail(ServiceError(Status.UNAVAILABLE, f"the model {self.name} is not ready: {self.reason}"))

    def _idle_lane(self) -> tuple[ModelInstance, ServedLane] | None:
        """Takes an idle lane; returns it with its instance."""
        for each in self._instances:
            lane = each.take_lane()
            if lane is not None:
                return each, lane
        return None

    def _dispatch_soon(self) -> None:
        """Makes the loop begin the runs that wait for a lane that was lent."""
        if len(self._queue) or self._drained is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._dispatch)

    def _returned(self, jobs: Sequence[InferenceJob]) -> None:
        if self._is_unloaded:
            for job in jobs:
                job.fail(self._unloaded())
            return
        self._queue.put_back(jobs)
        self._loop.call_soon(self._dispatch)

    def _watch_limits(self, job: InferenceJob) -> None:
        """Makes a request that has not ended meanwhile expire at the next of its limits."""
        end_s = job.deadline_s if job.attempts else earlier(job.begin_by_s, job.deadline_s)
        if end_s is not None and not job.is_over:
            job.expiry = self._loop.call_at(end_s, self._expire, job, end_s)

    def _expire(self, job: InferenceJob, end_s: float) -> None:
        if job.is_over:
            return
        is_deadline = end_s == job.deadline_s
        if not is_deadline:  # but that of waiting
            job.begin_by_s = None
            if not job.attempts and self.settings.priorities.policy_of(job.priority).delays:
                self._queue.delay(job)
                self._dispatch()
            if job.attempts or job.is_delayed:
                self._watch_limits(job)
                return
        text = "a request to the model %s has not ended in time"
        note_event(CountedEvent.DEADLINE, Status.LATE.name, self._late.info, text, self.name)
        if job.attempts or (is_deadline and job.has_transport_deadline):
            job.fail(late_error())
        else:
            # As Triton says of requests that wait for longer than their time-out.
            job.fail(ServiceError(Status.UNAVAILABLE, "Request timeout expired"))
        self.abandon(job)

    def abandon(self, job: InferenceJob) -> None:
        """Stops the run of a request for which nobody waits any more."""
        for each in self._instances:
            each.cancel(job)
        self._queue.drop_ended()
        # The others may be a batch without it.
        self._dispatch_soon()

"""One version of a model that is served: its workers, its requests, and its description."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.lanes.packets import RunAnswer
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.models.model_interface import Encode, ModelInterface, NoteRun
from neurald.service.inference.models.requests.arrivals import Arrivals
from neurald.service.inference.models.requests.batch import Batch
from neurald.service.inference.models.requests.job import InferenceJob, JobEnd, failure_reason
from neurald.service.inference.models.requests.job_queue import JobQueue
from neurald.service.inference.models.requests.request_limits import priority_of, set_limits, times_of
from neurald.service.inference.models.runs.dispatcher import Dispatcher
from neurald.service.inference.models.runs.immediate_run import ImmediateRun
from neurald.service.inference.models.runs.known_run import (
    SOON_S,
    BegunRun,
    EndedRun,
    KnownRun,
    NoteKnown,
    known_run,
)
from neurald.service.inference.models.statistics.latencies import NOTHING_MEASURED, MeasuredLatencies
from neurald.service.inference.models.statistics.statistics import FailureReason, Latencies, Statistics
from neurald.service.inference.models.workers.instance import ModelInstance
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.repository.model_config import ModelSettings, completed
from neurald.service.inference.worker.orders import ModelDescription
from neurald.service.manager.state import ModelStatus

_DRAIN_S: Final = 30.0


class VersionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a service for the versions of all models.

    Attributes:
        queue_size: how many requests of a version may wait, unless its configuration says.
        load_s: how long loading one may take.
        measured: which distributions of latencies are measured.
    """

    queue_size: int
    load_s: float
    measured: MeasuredLatencies = NOTHING_MEASURED


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
        options: what holds for all models.

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
        options: VersionOptions,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self.origin: object = None
        self.settings = settings
        is_measured = options.measured != NOTHING_MEASURED
        self.statistics = Statistics(
            latencies=Latencies(options.measured, settings.histogram_ms) if is_measured else None
        )
        self.arrivals = Arrivals()
        self._labels = labels
        self._model = model
        self._loop = asyncio.get_running_loop()
        #: Clients can cause them as often as they like.
        self._refusals = RateLimitedLogger(logging.getLogger(__name__))
        #: How many runs may be under way at once.
        self._lanes = settings.lanes * settings.instances
        self._queue = JobQueue(
            batch_rows=settings.max_batch_size if settings.batches else 1,
            preferred=settings.preferred_sizes,
            delay_s=settings.delay_s,
            size=options.queue_size,
            priorities=settings.priorities,
        )
        #: None until it is loaded.
        self._interface: ModelInterface | None = None
        self._dispatcher = Dispatcher(name, self._queue, settings.priorities, lanes=self._lanes)
        self._instances = [
            ModelInstance(
                workers,
                settings.order,
                model,
                lanes=settings.lanes,
                load_s=options.load_s,
                statistics=self.statistics,
                output_bytes=lambda rows: self._known_interface().output_bytes(rows),
                events=self._dispatcher.events,
            )
            for _ in range(settings.instances)
        ]
        for each in self._instances:
            self._dispatcher.add(each)

    # State.

    @property
    def is_ready(self) -> bool:
        """True if requests are run now."""
        return self._dispatcher.is_ready

    @property
    def reason(self) -> str:
        """The reason why it is not ready."""
        return self._dispatcher.reason

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
        return self._dispatcher.running

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
        await self._dispatcher.drain(drain_s)
        await asyncio.gather(*(each.close() for each in self._instances))
        if self._model >= 0:
            os.close(self._model)
            self._model = -1

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
        raise self._dispatcher.not_ready()

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
        if self._dispatcher.is_refusing:
            raise self._dispatcher.not_ready()
        job = self._job(request, encode, timeout_s, end, note_run, note_known)
        try:
            self._dispatcher.begin(job)
        except ServiceError as error:
            self._note_refused(error)
            raise
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
            lanes=self._lanes,
            running=self._dispatcher.running,
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
        lent = self._dispatcher.lend_lane()
        if lent is None:
            known.release()
            return None
        instance, lane = lent
        found = known.run(instance, lane, trace_id)
        if not isinstance(found, BegunRun):
            known.release()
            instance.take_back(lane)
            self._dispatcher.dispatch_soon()
        return found

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
        lent = (begun.instance, begun.lane) if begun is not None else self._dispatcher.lend_lane()
        if lent is None:
            return None
        instance, lane = lent
        try:
            job = self._job(request, encode, timeout_s, end, None, note_known)
        except BaseException:
            if begun is None:  # else its run may go on
                instance.take_back(lane)
                self._dispatcher.dispatch_soon()
            raise
        if begun is not None:
            job.queued_ns = begun.queued_ns
        return ImmediateRun(instance, lane, job, self._dispatcher.dispatch_soon, self._queue.run_s, begun)

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
        """See `Dispatcher.run_again`."""
        self._dispatcher.run_again(job, again)

    def abandon(self, job: InferenceJob) -> None:
        """See `Dispatcher.abandon`."""
        self._dispatcher.abandon(job)

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

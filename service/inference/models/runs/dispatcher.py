"""Begins the runs of the requests that wait for a model, and refuses those that wait too long."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.models.requests.job import InferenceJob, late_error
from neurald.service.inference.models.requests.job_queue import JobQueue
from neurald.service.inference.models.requests.request_limits import earlier
from neurald.service.inference.models.workers.instance import InstanceEvents, ModelInstance
from neurald.service.inference.models.workers.lane import ServedLane
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.queue_policy import Priorities

#: How long requests wait for a model that is not ready.
_PATIENCE_S: Final = 15.0
#: Models whose runs usually take longer are not run in threads of transports.
_SHORT_RUN_S: Final = 0.02


class Dispatcher:
    """Gives the requests of a queue to idle lanes. Belongs to one event loop.

    Args:
        name: the name of the model.
        queue: the queue.
        priorities: the priorities of its requests.
        lanes: how many runs may be under way at once.
    """

    def __init__(self, name: str, queue: JobQueue, priorities: Priorities, *, lanes: int) -> None:
        self._name = name
        self._queue = queue
        self._priorities = priorities
        self._lanes = lanes
        self._loop = asyncio.get_running_loop()
        self._instances: list[ModelInstance] = []
        #: Clients can cause them as often as they like.
        self._late = RateLimitedLogger(logging.getLogger(__name__))
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._is_closing = False
        #: Whether requests that come back are not run again.
        self._is_unloaded = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def events(self) -> InstanceEvents:
        """The functions that instances call whose lanes it uses."""
        return InstanceEvents(changed=self._dispatch, returned=self._returned, ran=self._queue.ran)

    def add(self, instance: ModelInstance) -> None:
        """Adds an instance, which was created with `events`."""
        self._instances.append(instance)

    # State.

    @property
    def is_ready(self) -> bool:
        """True if requests are run now."""
        return not self._is_closing and any(each.is_ready for each in self._instances)

    @property
    def is_refusing(self) -> bool:
        """True if requests that come now can never be run."""
        return self._is_closing or all(each.has_given_up for each in self._instances)

    @property
    def reason(self) -> str:
        """The reason why it is not ready."""
        if self._is_closing:
            return "it is being unloaded"
        return "" if self.is_ready else self._instances[0].reason

    @property
    def running(self) -> int:
        """The number of runs under way."""
        return sum(each.running for each in self._instances)

    def not_ready(self) -> ServiceError:
        """Returns the error for the client of a request that cannot be run now."""
        return ServiceError(Status.UNAVAILABLE, f"the model {self._name} is not ready: {self.reason}")

    async def drain(self, drain_s: float) -> None:
        """Answers the requests that are there, and refuses those that are left after some time."""
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

    def _unloaded(self) -> ServiceError:
        return ServiceError(Status.UNAVAILABLE, f"the model {self._name} was unloaded")

    # Requests.

    def begin(self, job: InferenceJob) -> None:
        """Puts a request in the queue, and begins it if a lane is idle.

        Raises:
            ServiceError: see `JobQueue.put`.
        """
        running = sum(each.awaited for each in self._instances)
        self._queue.put(job, self._loop.time(), lanes=self._lanes, running=running)
        self._watch_limits(job)
        self._dispatch()

    def run_again(self, job: InferenceJob, again: Callable[[], None]) -> None:
        """Repeats a request whose worker or driver died.

        Args:
            job: the request.
            again: what `ImmediateRun.run` has returned.
        """
        self._watch_limits(job)
        again()
        self._dispatch()

    def abandon(self, job: InferenceJob) -> None:
        """Stops the run of a request for which nobody waits any more."""
        for each in self._instances:
            each.cancel(job)
        self._queue.drop_ended()
        # The others may be a batch without it.
        self.dispatch_soon()

    def lend_lane(self) -> tuple[ModelInstance, ServedLane] | None:
        """Takes an idle lane for a short request that need not wait; returns None for others.

        Any thread may call it.
        """
        if self._is_closing or not self._queue.may_run_alone or not 0 < self._queue.run_s < _SHORT_RUN_S:
            return None
        for instance in self._instances:
            lane = instance.lend_lane()
            if lane is not None:
                return instance, lane
        return None

    def dispatch_soon(self) -> None:
        """Makes the loop begin the runs that wait for a lane that was lent.

        Any thread may call it.
        """
        if len(self._queue) or self._drained is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._dispatch)

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
        if self._drained is not None and not self._drained.done() and not self._is_busy():
            self._drained.set_result(None)

    def _is_busy(self) -> bool:
        """Returns True if requests wait or are run."""
        return len(self._queue) > 0 or any(each.running for each in self._instances)

    def _idle_lane(self) -> tuple[ModelInstance, ServedLane] | None:
        """Takes an idle lane; returns it with its instance."""
        for each in self._instances:
            lane = each.take_lane()
            if lane is not None:
                return each, lane
        return None

    def _returned(self, jobs: Sequence[InferenceJob]) -> None:
        if self._is_unloaded:
            for job in jobs:
                job.fail(self._unloaded())
            return
        self._queue.put_back(jobs)
        self._loop.call_soon(self._dispatch)

    # Limits.

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
            job.fail(self.not_ready())

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
            if not job.attempts and self._priorities.policy_of(job.priority).delays:
                self._queue.delay(job)
                self._dispatch()
            if job.attempts or job.is_delayed:
                self._watch_limits(job)
                return
        text = "a request to the model %s has not ended in time"
        note_event(CountedEvent.DEADLINE, Status.LATE.name, self._late.info, text, self._name)
        if job.attempts or (is_deadline and job.has_transport_deadline):
            job.fail(late_error())
        else:
            # As Triton says of requests that wait for longer than their time-out.
            job.fail(ServiceError(Status.UNAVAILABLE, "Request timeout expired"))
        self.abandon(job)

"""Requests that wait for instances of a model: which begin, and which are refused, and when."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import cast

import pytest

from neurald.service.inference.models.requests.job import InferenceJob
from neurald.service.inference.models.requests.job_queue import JobQueue
from neurald.service.inference.models.runs import dispatcher
from neurald.service.inference.models.runs.dispatcher import Dispatcher
from neurald.service.inference.models.workers.instance import ModelInstance
from neurald.service.inference.models.workers.lane import ServedLane
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy


class FakeInstance:
    """An instance with one lane, whose runs end when a test says so."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.events = dispatcher.events
        self.is_ready = True
        self.has_given_up = False
        self.reason = "it is loading"
        self.jobs: list[InferenceJob] = []
        self.is_lent = False
        self.runs: list[list[InferenceJob]] = []
        dispatcher.add(cast(ModelInstance, self))

    @property
    def running(self) -> int:
        return bool(self.jobs) + self.is_lent

    awaited = running

    def take_lane(self) -> ServedLane | None:
        return cast(ServedLane, "lane") if self.is_ready and not self.running else None

    def lend_lane(self) -> ServedLane | None:
        self.is_lent = self.is_ready and not self.running
        return cast(ServedLane, "lane") if self.is_lent else None

    def put_back(self, lane: ServedLane) -> None:
        pass

    def run(self, lane: ServedLane, jobs: Sequence[InferenceJob]) -> None:
        self.jobs = list(jobs)
        self.runs.append(self.jobs)
        for job in jobs:
            job.attempts += 1

    def cancel(self, job: InferenceJob) -> None:
        if job in self.jobs:
            self.end()

    def end(self) -> None:
        self.jobs = []
        self.events.changed()


#: Begins a request with limits.
Begin = Callable[..., InferenceJob]


def dispatching(
    check: Callable[[Dispatcher, FakeInstance, Begin], Coroutine[object, object, None]],
    priorities: Priorities = Priorities(),  # noqa: B008 - immutable
) -> None:
    """Runs a check with a dispatcher, its only instance, and a function that begins requests.

    Limits are given to the function as the number of seconds from now on.
    """

    async def run() -> None:
        loop = asyncio.get_running_loop()
        queue = JobQueue(batch_rows=1, priorities=priorities)
        tested = Dispatcher("m", queue, priorities, lanes=1)
        instance = FakeInstance(tested)

        def begun(deadline_s: float | None = None, begin_by_s: float | None = None) -> InferenceJob:
            now_s = loop.time()
            job = InferenceJob(
                inputs=(),
                rows=1,
                wanted=(0,),
                finish=lambda outputs, record: None,
                end=loop.create_future(),
                deadline_s=None if deadline_s is None else now_s + deadline_s,
                begin_by_s=None if begin_by_s is None else now_s + begin_by_s,
            )
            tested.begin(job)
            return job

        async with asyncio.timeout(30):
            await check(tested, instance, begun)

    asyncio.run(run())


async def error_of(job: InferenceJob) -> ServiceError:
    """Returns the error with which a request ends."""
    with pytest.raises(ServiceError) as raised:
        await cast("asyncio.Future[object]", job.end)
    return raised.value


def test_requests_begin_when_a_lane_is_idle() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        jobs = [begun() for _ in range(3)]
        assert (tested.running, instance.runs) == (1, [jobs[:1]])
        instance.end()
        assert instance.runs == [jobs[:1], jobs[1:2]]
        tested.abandon(jobs[1])
        await asyncio.sleep(0)
        assert instance.runs[2:] == [jobs[2:]]

    dispatching(check)


def test_requests_wait_for_a_model_that_is_not_ready_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "_PATIENCE_S", 0.01)

    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        instance.is_ready = False
        assert (tested.is_ready, tested.reason, tested.is_refusing) == (False, "it is loading", False)
        error = await error_of(begun())
        assert (error.status, str(error)) == (
            Status.UNAVAILABLE,
            "the model m is not ready: it is loading",
        )
        waiting = begun()
        instance.is_ready = True
        instance.events.changed()
        assert instance.runs == [[waiting]]
        await asyncio.sleep(0.05)
        assert not waiting.is_over

    dispatching(check)


def test_requests_of_a_model_that_is_never_ready_again_are_refused_at_once() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        instance.is_ready = False
        job = begun()
        instance.has_given_up = True
        assert tested.is_refusing
        instance.events.changed()
        assert (await error_of(job)).status is Status.UNAVAILABLE

    dispatching(check)


def test_requests_end_at_their_limits() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        running = begun(begin_by_s=0.01)
        waiting = begun(begin_by_s=0.01)
        error = await error_of(waiting)
        assert (error.status, str(error)) == (Status.UNAVAILABLE, "Request timeout expired")
        assert not running.is_over, "it has begun in time"
        instance.end()
        assert (await error_of(begun(deadline_s=0.01))).status is Status.LATE
        assert not tested.running, "nobody waits for it"

    dispatching(check)


def test_requests_that_may_be_delayed_stay_behind_others() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        first = begun()
        delayed = begun(begin_by_s=0.001)
        while not delayed.is_delayed:
            await asyncio.sleep(0.001)
        later = begun()
        instance.end()
        instance.end()
        assert instance.runs == [[first], [later], [delayed]]

    dispatching(check, Priorities(policy=QueuePolicy(delays=True)))


def test_lanes_are_lent_for_short_runs_only() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        assert tested.lend_lane() is None, "nobody knows how long a run takes"
        instance.events.ran(1e-4, 1)
        assert tested.lend_lane() is not None
        assert instance.is_lent
        assert tested.lend_lane() is None, "the only lane is lent"
        waiting = begun()
        instance.is_lent = False
        assert tested.lend_lane() is None, "another one waits for it"
        tested.dispatch_soon()
        await asyncio.sleep(0)
        assert instance.runs == [[waiting]]
        instance.end()
        instance.events.ran(math.inf, 1)
        assert tested.lend_lane() is None, "runs are long"

    dispatching(check)


def test_requests_are_answered_before_a_model_is_unloaded() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        begun()
        draining = asyncio.create_task(tested.drain(30))
        await asyncio.sleep(0)
        assert (tested.is_refusing, tested.reason) == (True, "it is being unloaded")
        assert not draining.done()
        instance.end()
        await draining

    dispatching(check)


def test_requests_that_are_left_after_the_time_to_unload_are_refused() -> None:
    async def check(tested: Dispatcher, instance: FakeInstance, begun: Begin) -> None:
        running, waiting = begun(), begun()
        await tested.drain(0.001)
        assert str(await error_of(waiting)) == "the model m was unloaded"
        instance.events.returned([running])
        assert str(await error_of(running)) == "the model m was unloaded"

    dispatching(check)

"""Requests are run together where they fit, and refused where too many wait."""

import asyncio
from collections.abc import Iterator

import pytest

from neurald.service.inference.models.requests.job import InferenceJob, JobInput
from neurald.service.inference.models.requests.job_queue import JobQueue
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import Bytes
from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def job(
    loop: asyncio.AbstractEventLoop,
    rows: int = 1,
    width: int = 2,
    deadline_s: float | None = None,
    *,
    begin_by_s: float | None = None,
    priority: int = 0,
    is_given: bool = True,
) -> InferenceJob:
    source = Bytes(memoryview(bytes(rows * width)))
    return InferenceJob(
        inputs=[JobInput(kind="int8", shape=(rows, width), source=source, is_given=is_given)],
        rows=rows,
        wanted=(0,),
        finish=lambda outputs, record: None,
        end=loop.create_future(),
        deadline_s=deadline_s,
        begin_by_s=begin_by_s,
        priority=priority,
    )


def test_a_model_without_batches_runs_one_request_at_a_time(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    jobs = [job(loop) for _ in range(3)]
    for each in jobs:
        queue.put(each, 0, lanes=1)
    assert [queue.take(0)[0] for _ in range(4)] == [[jobs[0]], [jobs[1]], [jobs[2]], []]


@pytest.mark.parametrize("batch_rows", [1, 4])
def test_requests_that_are_over_when_their_turn_comes_are_skipped(
    loop: asyncio.AbstractEventLoop, batch_rows: int
) -> None:
    queue = JobQueue(batch_rows=batch_rows)
    jobs = [job(loop) for _ in range(3)]
    for each in jobs:
        queue.put(each, 0, lanes=1)
    jobs[0].end.cancel()
    jobs[1].end.cancel()
    assert queue.take(0) == ([jobs[2]], None)
    queue.put(cancelled := job(loop), 0, lanes=1)
    cancelled.end.cancel()
    assert queue.take(0) == ([], None)


def test_requests_wait_for_others_no_longer_than_they_may(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=4, delay_s=0.5)
    first, second = job(loop), job(loop, 2)
    queue.put(first, 10.0, lanes=1)
    assert queue.take(10.1) == ([], 10.5)
    queue.put(second, 10.2, lanes=1)
    assert queue.take(10.3) == ([], 10.5)
    assert queue.take(10.5) == ([first, second], None)


def test_full_batches_do_not_wait(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=4, delay_s=0.5)
    jobs = [job(loop, rows) for rows in (1, 2, 1, 3, 2)]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(0.0) == (jobs[:3], None)
    # The next one does not fit any more.
    assert queue.take(0.0) == ([jobs[3]], None)
    assert queue.take(0.0) == ([], 0.5)


def test_preferred_sizes_do_not_wait(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8, preferred=(2,), delay_s=0.5)
    jobs = [job(loop) for _ in range(3)]
    queue.put(jobs[0], 0.0, lanes=1)
    assert queue.take(0.0) == ([], 0.5)
    for each in jobs[1:]:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(0.0) == (jobs[:2], None)


def test_requests_that_do_not_fit_together_run_apart(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8)
    jobs = [job(loop, width=width) for width in (2, 3, 3)]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(0.0)[0] == jobs[:1]
    assert queue.take(0.0)[0] == jobs[1:]


def test_requests_with_other_optional_inputs_run_apart(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8, delay_s=9.0)
    jobs = [job(loop, is_given=is_given) for is_given in (True, True, False)]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(0.0) == (jobs[:2], None)
    assert queue.take(0.0) == ([], 9.0)


def test_requests_that_have_ended_are_not_run(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8, size=3)
    jobs = [job(loop) for _ in range(3)]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    jobs[0].end.cancel()
    jobs[1].end.cancel()
    late = job(loop)
    queue.put(late, 0.0, lanes=1)
    assert queue.take(0.0)[0] == [jobs[2], late]


def test_a_full_queue_refuses_at_once(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1, size=2)
    for _ in range(2):
        queue.put(job(loop), 0.0, lanes=1)
    with pytest.raises(ServiceError, match="2 requests wait") as caught:
        queue.put(job(loop), 0.0, lanes=1)
    assert caught.value.status is Status.EXHAUSTED


def test_requests_that_would_be_late_are_refused_at_once(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    queue.ran(0.1, 1)
    for _ in range(10):
        queue.put(job(loop), 0.0, lanes=1)
    queue.put(job(loop, deadline_s=2.0), 0.0, lanes=1)
    with pytest.raises(ServiceError, match="would be late"):
        queue.put(job(loop, deadline_s=0.5), 0.0, lanes=1)
    queue.put(job(loop, deadline_s=0.6), 0.0, lanes=4)


def test_runs_under_way_count(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    queue.ran(0.1, 1)
    # Alone, a request is tried whatever the estimate says.
    queue.put(job(loop, deadline_s=0.05), 0.0, lanes=1)
    assert queue.take(0.0)[0]
    with pytest.raises(ServiceError):
        queue.put(job(loop, deadline_s=0.25), 0.0, lanes=1, running=1)
    queue.put(job(loop, deadline_s=0.25), 0.0, lanes=2, running=1)


def test_requests_that_wait_for_others_take_one_run(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8, delay_s=10.0)
    queue.ran(0.1, 1)
    for _ in range(6):
        queue.put(job(loop), 0.0, lanes=1)
    # They are run with it, although runs so far had one request each.
    queue.put(job(loop, deadline_s=0.4), 0.0, lanes=1)
    assert len(queue) == 7
    with pytest.raises(ServiceError, match="would be late"):
        queue.put(job(loop, deadline_s=0.2), 0.0, lanes=1)
    # Beside a run that is under way they may have waited for it.
    with pytest.raises(ServiceError, match="would be late"):
        queue.put(job(loop, deadline_s=0.4), 0.0, lanes=1, running=1)


def test_requests_that_have_no_time_left_are_not_begun(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    queue.ran(0.1, 1)
    late, other = job(loop, deadline_s=1.0), job(loop)
    queue.put(late, 0.0, lanes=1)
    queue.put(other, 0.0, lanes=1)
    assert queue.take(0.95) == ([], None)
    assert isinstance(late.end, asyncio.Future)
    assert isinstance(late.end.exception(), ServiceError)
    assert queue.take(0.95)[0] == [other]


def test_requests_of_a_dead_worker_come_first(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    jobs = [job(loop) for _ in range(3)]
    queue.put(jobs[2], 0.0, lanes=1)
    queue.put_back(jobs[:2])
    assert queue.take_all() == jobs


def test_preferred_sizes_limit_batches(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8, preferred=(2, 6), delay_s=10.0)
    jobs = [job(loop, rows=rows) for rows in (3, 4)]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(1.0) == ([jobs[0]], None), "both are more than 6"
    assert queue.take(1.0) == ([], 10.0)
    assert queue.take(10.0) == ([jobs[1]], None)
    large = job(loop, rows=7)
    queue.put(large, 20.0, lanes=1)
    assert queue.take(20.0) == ([large], None)
    singles = [job(loop) for _ in range(5)]
    for each in singles:
        queue.put(each, 30.0, lanes=1)
    assert queue.take(30.0) == (singles[:2], None)
    assert queue.take(41.0) == (singles[2:4], None)
    assert queue.take(41.0) == ([singles[4]], None)


def test_requests_for_different_outputs_are_a_batch(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=4)
    jobs = [job(loop) for _ in range(2)]
    jobs[1].wanted = (1,)
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(0.0) == (jobs, None)


def test_a_limit_of_waiting_does_not_count_the_run(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    queue.ran(1.0, 1)
    waiting, other = job(loop, begin_by_s=2.0), job(loop)
    queue.put(waiting, 0.0, lanes=1, running=1)
    queue.put(other, 0.0, lanes=1, running=1)
    # What is longer than the run that is under way is no reason to refuse it, nor is its own run.
    assert queue.take(1.9)[0] == [waiting]
    queue.put(job(loop, begin_by_s=1.0), 0.0, lanes=4)
    with pytest.raises(ServiceError, match="would be late"):
        queue.put(job(loop, begin_by_s=2.0), 0.0, lanes=1, running=1)
    assert not other.is_over


def test_requests_of_a_higher_priority_are_run_first(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    jobs = [job(loop, priority=priority) for priority in (2, 1, 3, 1, 2)]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    order = [queue.take(0.0)[0][0] for _ in jobs]
    assert [jobs.index(each) for each in order] == [1, 3, 0, 4, 2]


def test_batches_have_requests_of_several_priorities(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=8, preferred=(4,), delay_s=10.0)
    jobs = [job(loop, rows=rows, priority=priority) for rows, priority in ((2, 2), (1, 2), (2, 1))]
    for each in jobs:
        queue.put(each, 0.0, lanes=1)
    assert queue.take(0.0) == ([jobs[2], jobs[0]], None)
    assert queue.take(0.0) == ([], 10.0)


def test_only_requests_that_are_run_before_it_make_one_late(loop: asyncio.AbstractEventLoop) -> None:
    queue = JobQueue(batch_rows=1)
    queue.ran(0.1, 1)
    for _ in range(10):
        queue.put(job(loop, priority=2), 0.0, lanes=1)
    queue.put(job(loop, deadline_s=0.5, priority=1), 0.0, lanes=1)
    with pytest.raises(ServiceError, match="would be late"):
        queue.put(job(loop, deadline_s=0.5, priority=2), 0.0, lanes=1)


def test_each_priority_has_a_limit_of_its_own(loop: asyncio.AbstractEventLoop) -> None:
    policies = {2: QueuePolicy(size=1)}
    queue = JobQueue(batch_rows=1, size=2, priorities=Priorities(levels=2, default=2, policies=policies))
    for priority, most in ((1, 2), (2, 1)):
        for _ in range(most):
            queue.put(job(loop, priority=priority), 0.0, lanes=1)
        with pytest.raises(ServiceError, match=f"Exceeds maximum queue size: {most} request"):
            queue.put(job(loop, priority=priority), 0.0, lanes=1)


def test_delayed_requests_are_run_after_others_of_their_priority(loop: asyncio.AbstractEventLoop) -> None:
    late = QueuePolicy(timeout_s=1.0, delays=True)
    queue = JobQueue(batch_rows=1, priorities=Priorities(levels=2, default=1, policy=late))
    queue.ran(1.0, 1)
    jobs = [job(loop, priority=priority, begin_by_s=1.0) for priority in (1, 2, 1)]
    for each in jobs[:2]:
        queue.put(each, 0.0, lanes=1, running=10)
    queue.delay(jobs[0])
    queue.put(jobs[2], 0.0, lanes=1, running=10)
    order = [queue.take(0.0)[0][0] for _ in jobs]
    assert [jobs.index(each) for each in order] == [2, 0, 1]

"""The requests that wait for a model, and the batches that are made of them.

Requests are run in order, those of a higher priority before others. A model without batches runs
one at a time. With batches, those at the head of the queue that fit together are run at once: as
soon as there are as many as a batch may have, or as many as the configuration prefers, or the first
of them has waited for as long as it may. A request alone in a queue is thus delayed by at most that
time, and not at all by default.
Sizes that are preferred are taken as Triton takes them: a batch gets no larger than the largest of
them, unless by its first request, and of those at the head the largest preferred number is run.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from neurald.service.inference.models.requests.job import InferenceJob
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.queue_policy import Priorities

#: How many of the last runs the estimated time of a run is made of.
_SMOOTHING: Final = 0.1
#: A request is refused if the time that it probably takes is more than this share of what it may.
#: Without a margin, many would begin and be stopped just before their end.
_SHARE: Final = 0.7
_EQUAL: Final = Priorities()


class JobQueue:
    """The queue of one version of a model.

    Args:
        batch_rows: the most entries of a batch; 1 for runs of single requests.
        preferred: sizes of batches that are run at once.
        delay_s: how long a request waits for others.
        size: how many requests may wait, of each priority without a limit of its own.
        priorities: the priorities of requests.
    """

    def __init__(
        self,
        *,
        batch_rows: int,
        preferred: Sequence[int] = (),
        delay_s: float = 0.0,
        size: int = 1024,
        priorities: Priorities = _EQUAL,
    ) -> None:
        self._batch_rows = max(1, batch_rows)
        self._preferred = frozenset(preferred)
        #: How many entries a batch gets.
        self._most_rows = min((max(preferred, default=self._batch_rows)), self._batch_rows)
        self._delay_s = delay_s
        self._size = size
        self._priorities = priorities
        self._jobs: deque[InferenceJob] = deque()
        #: Estimated seconds of a run, and entries that a run has.
        self._run_s = 0.0
        self._run_rows = 1.0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def may_run_alone(self) -> bool:
        """True if a request that comes now would run at once and alone if a lane is idle."""
        return not self._jobs and not self._delay_s and not self._preferred

    @property
    def run_s(self) -> float:
        """Estimated seconds of a run; 0 before the first one."""
        return self._run_s

    def put(self, job: InferenceJob, now_s: float, *, lanes: int, running: int = 0) -> None:
        """Puts a request behind those of its priority.

        Args:
            job: the request.
            now_s: the time on the loop's clock.
            lanes: how many runs may be under way at once.
            running: how many are.

        Raises:
            ServiceError: too many wait, or so many that this one would be late. To say so at once
                lets the client ask elsewhere, and leaves the time to requests that are in time.
        """
        policy = self._priorities.policy_of(job.priority)
        size = policy.size or self._size
        if len(self._jobs) >= size:
            self.drop_ended()
            waiting = sum(each.priority == job.priority for each in self._jobs)
            if waiting >= size:
                raise ServiceError(
                    Status.EXHAUSTED,
                    f"Exceeds maximum queue size: {waiting} requests wait for the model already; try again later",
                )
        if self.would_be_late(
            None if job.deadline_s is None else job.deadline_s - now_s,
            None if job.begin_by_s is None or policy.delays else job.begin_by_s - now_s,
            priority=job.priority,
            lanes=lanes,
            running=running,
        ):
            raise self.late_refusal()
        job.queued_s = now_s
        self._insert(job)

    def _insert(self, job: InferenceJob) -> None:
        at = len(self._jobs)
        while at and self._jobs[at - 1].place > job.place:
            at -= 1
        self._jobs.insert(at, job)

    def delay(self, job: InferenceJob) -> None:
        """Puts a request that has waited for too long behind others of its priority."""
        self._jobs.remove(job)
        job.is_delayed = True
        self._insert(job)

    def would_be_late(
        self,
        limit_s: float | None,
        begin_limit_s: float | None,
        *,
        priority: int,
        lanes: int,
        running: int = 0,
        arriving: int = 0,
    ) -> bool:
        """Returns whether a request that comes now would take longer than it may.

        Any thread may call it.

        Args:
            limit_s: how long it may take; None for no limit.
            begin_limit_s: how long it may wait for its run; None for no limit.
            priority: the priority of the request.
            lanes, running: see `put`.
            arriving: how many requests come before it that do not wait yet.
        """
        if limit_s is None and begin_limit_s is None:
            return False
        jobs = tuple(self._jobs) if priority else ()  # in one step, for other threads
        waiting = len(self._jobs) - sum(each.priority > priority for each in jobs) + arriving
        if waiting <= 0 and not running:
            return False
        runs = waiting / self._run_rows
        if running < lanes and (self._delay_s or self._preferred):
            # What waits beside an idle lane waits for others, and will be run with them.
            runs = min(runs, max(1.0, waiting / self._most_rows))
        before_s = (runs + running) / max(1, lanes) * self._run_s
        return (limit_s is not None and before_s + self._run_s > _SHARE * limit_s) or (
            begin_limit_s is not None and before_s > _SHARE * begin_limit_s
        )

    def late_refusal(self) -> ServiceError:
        """Returns the error for the client of a request that would be late."""
        return ServiceError(
            Status.EXHAUSTED,
            "the requests before this one probably take so long that it would be late; try again later",
        )

    def put_back(self, jobs: Sequence[InferenceJob]) -> None:
        """Puts requests back at the head, whose worker died."""
        self._jobs.extendleft(reversed(jobs))

    def ran(self, seconds: float, jobs: int) -> None:
        """Tells how long a run of this many requests took."""
        if not self._run_s:
            self._run_s = seconds
        self._run_s += _SMOOTHING * (seconds - self._run_s)
        self._run_rows += _SMOOTHING * (jobs - self._run_rows)

    def drop_ended(self) -> None:
        """Removes requests for which nobody waits."""
        self._jobs = deque(job for job in self._jobs if not job.is_over)

    def take_all(self) -> list[InferenceJob]:
        """Removes and returns all requests."""
        jobs, self._jobs = list(self._jobs), deque()
        return jobs

    def take(self, now_s: float) -> tuple[list[InferenceJob], float | None]:
        """Removes the requests of the next run.

        Returns:
            The requests. If there are none, and requests wait for others: the time on the loop's
                clock when they have waited long enough.
        """
        while self._jobs and self._jobs[0].is_over:
            self._jobs.popleft()
        if not self._jobs:
            return [], None
        first = self._jobs[0]
        if self._batch_rows == 1:
            return self._in_time([self._jobs.popleft()], now_s), None
        count, rows = 0, 0
        preferred = 0
        for job in self._jobs:
            if count and not first.fits(job, is_batched=True):
                break
            if count and rows + job.rows > self._most_rows:
                break
            count, rows = count + 1, rows + job.rows
            if rows in self._preferred:
                preferred = count
        is_full = rows >= self._most_rows or count < len(self._jobs)
        due_s = first.queued_s + self._delay_s
        if not is_full and not preferred and now_s < due_s:
            return [], due_s
        count = preferred or count
        taken = [self._jobs.popleft() for _ in range(count)]
        return self._in_time(taken, now_s), None

    def _in_time(self, jobs: Sequence[InferenceJob], now_s: float) -> list[InferenceJob]:
        """Returns the requests that a run now probably answers in time; refuses the others."""
        for job in jobs:
            if job.deadline_s is not None and now_s + self._run_s > job.deadline_s and len(self._jobs):
                job.fail(
                    ServiceError(
                        Status.LATE,
                        "Deadline Exceeded: the request has waited for longer than leaves time to run it",
                    )
                )
        return [job for job in jobs if not job.is_over]

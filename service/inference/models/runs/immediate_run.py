"""A run in the thread of a transport, of a request for which a lane is idle.

A thread that waits for the end of a run itself learns of it sooner than through the event loop,
whose thread would have to be woken first, and then the transport's again.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from neurald.hal.errors import Error, ResultCode
from neurald.hal.lanes.packets import RunFailure
from neurald.service.inference.models.requests.batch import Batch
from neurald.service.inference.models.requests.job import InferenceJob, late_error
from neurald.service.inference.models.runs.known_run import SOON_S, BegunRun
from neurald.service.inference.models.workers.instance import (
    ModelInstance,
    answer_error,
    input_error,
    run_error,
)
from neurald.service.inference.models.workers.lane import Answered, ServedLane
from neurald.service.inference.protocol.errors import ServiceError


class ImmediateRun:
    """Runs a request in a lane that an instance has lent.

    Only `cancel` may be called by other threads.

    Args:
        instance: the instance of the model.
        lane: the lane of the instance, which is given back.
        job: the request.
        lane_is_back: the function that is called when it was given back.
        run_s: how long it probably takes.
        begun: the run, if it was begun already.
    """

    def __init__(
        self,
        instance: ModelInstance,
        lane: ServedLane,
        job: InferenceJob,
        lane_is_back: Callable[[], None],
        run_s: float,
        begun: BegunRun | None = None,
    ) -> None:
        self.job = job
        #: How long the end of the run is awaited before others are told.
        self._soon_s = SOON_S if run_s < SOON_S else 0.0
        self._begun = begun
        self._instance = instance
        self._lane = lane
        self._lane_is_back = lane_is_back
        #: Ensures that the lane is not another run's when it is told to end.
        self._lock = threading.Lock()
        self._has_lane = True

    def cancel(self) -> None:
        """Ends the run, since nobody waits for its answer any more."""
        with self._lock:
            if self._has_lane:
                self._instance.cancel_lent(self._lane)

    def run(self, will_wait: Callable[[], None]) -> Callable[[], None] | None:
        """Runs it; returns None if the request has ended.

        Args:
            will_wait: the function that is called if the run takes longer than a millisecond; at
                its beginning if it probably does, since nothing is received until then.

        Returns:
            What has the request run again by the event loop, which calls it; see
                `ServedVersion.run_again`.
        """
        job, instance, begun = self.job, self._instance, self._begun
        job.attempts += 1
        result: object = None
        try:
            if begun is not None:
                batch = begun.batch(job)
                answer, memory = self._answered_again(begun.outcome, will_wait)
                result = begun.result(answer, memory)
                if result is None and begun.is_in_vain(answer, memory):
                    batch = instance.write(self._lane, job)
                    answer, memory = self._answered(batch, will_wait)
            else:
                batch = instance.write(self._lane, job)
                answer, memory = self._answered(batch, will_wait)
        except (ServiceError, Error) as error:
            self._give_back()
            job.fail(input_error(error))
            return None
        except OSError:
            return self._run_again
        if isinstance(answer, RunFailure):
            self._give_back()
            if answer.code == ResultCode.DEAD_OBJECT:
                return partial(instance.failed, [job], answer)
            job.fail(run_error(answer))
            return None
        instance.note_run(batch, answer)
        is_as_before, failure = result is not None, None
        try:
            if not job.is_over and not is_as_before:
                result = batch.result(job, answer, memory, 0)
        except Exception as error:
            failure = answer_error(error)
        # The client may send its next request as soon as it has the answer.
        self._give_back()
        if failure is not None:
            job.fail(failure)
        elif not job.is_over:
            instance.note_success(batch, job, answer)
            if job.note_result is not None and not is_as_before:
                job.note_result(instance.room(batch), batch, answer, result)
            job.end.set_result(result)
        return None

    def _answered_again(self, outcome: Answered | OSError, will_wait: Callable[[], None]) -> Answered:
        """Returns the answer of a run that was begun before; waits for it if it has not ended."""
        if isinstance(outcome, TimeoutError):
            return self._answered_late(will_wait)
        if isinstance(outcome, OSError):
            try:
                raise outcome
            finally:
                # The error refers to this frame, so the frame must not refer to it.
                del outcome
        return outcome

    def _answered(self, batch: Batch, will_wait: Callable[[], None]) -> Answered:
        """Returns the answer of the run; tells the client first if it takes longer than it may."""
        job, lane = self.job, self._lane
        end_s = math.inf if job.deadline_s is None else job.deadline_s
        soon_s = time.monotonic() + self._soon_s
        with contextlib.suppress(TimeoutError):
            return lane.run(batch.inputs, batch.results_at, batch.wanted, min(soon_s, end_s))
        return self._answered_late(will_wait)

    def _answered_late(self, will_wait: Callable[[], None]) -> Answered:
        """Returns the answer of a run that takes longer."""
        job, lane = self.job, self._lane
        end_s = math.inf if job.deadline_s is None else job.deadline_s
        will_wait()
        if job.is_over:
            # Nobody has waited for it since before it began, when it could not be cancelled.
            self.cancel()
        with contextlib.suppress(TimeoutError):
            return lane.awaited(end_s)
        job.fail(late_error())
        self.cancel()
        return lane.awaited(math.inf)

    def _give_back(self) -> None:
        with self._lock:
            self._has_lane = False
        self._instance.take_back(self._lane)
        self._lane_is_back()

    def _run_again(self) -> None:
        self._instance.lent_lane_failed(self._lane, self.job)

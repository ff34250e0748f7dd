"""Fenced executions: they wait for fences, run, and signal a fence of their own."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field

from neurald.hal.device import ExecuteOptions, ExecutionResult, Timing
from neurald.hal.errors import (
    THREAD_FAULTS,
    Cancelled,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedTransient,
    copied,
    without_frames,
)
from neurald.hal.process.threads.reused_threads import REUSED_THREADS
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence, wait_any
from neurald.hal.wording import described

logger = logging.getLogger(__name__)


class FencedOutcome(Struct, frozen=True, kw_only=True):
    """The result or the error of a fenced execution.

    Attributes:
        result: its timing counts from the launch; None if the execution failed.
        error: why the execution failed.
        after_fences: the timing from when the last fence had signalled.
    """

    result: ExecutionResult | None = None
    error: Error | None = None
    after_fences: Timing = field(default_factory=Timing)


class FencedRun:
    """Implements `neurald.hal.device.FencedExecution` with a thread that waits and then runs.

    Args:
        run: executes the request; is given the options with the deadline that holds after the
            fences.
        wait_for: the fences that must signal first.
        fence: the fence that is signalled when the execution is over, also if it failed.
        options: as for `PreparedModel.execute`.
        after_fences_s: how long it may take once all fences have signalled; None for no limit.
    """

    def __init__(
        self,
        run: Callable[[ExecuteOptions], ExecutionResult],
        wait_for: Sequence[Fence],
        fence: Fence,
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> None:
        self._run = run
        self._wait_for = tuple(wait_for)
        self._fence = fence
        self._after_fences_s = after_fences_s
        self._cancellation = options.cancellation or Cancellation()
        self._options = replace(options, cancellation=self._cancellation)
        self._stop = Fence()
        self._lost: Error | None = None
        self._is_over = threading.Event()
        self._outcome = FencedOutcome(error=OpFailed("the execution is under way"))

    def start(self) -> None:
        """Starts the thread.

        Raises:
            ResourceExhaustedTransient: the process has too many threads.
        """
        launched_ns = time.monotonic_ns()
        try:
            REUSED_THREADS.start(partial(self._work, launched_ns), "neurald fenced execution")
        except RuntimeError as error:
            raise ResourceExhaustedTransient(
                f"no thread can be started for a fenced execution: {error}"
            ) from None

    def cancel(self) -> None:
        """Cancels the execution: it stops waiting, or stops at the next operation."""
        self._cancellation.cancel()

    def lose(self, error: Error) -> None:
        """Ends the wait for fences with an error, because the device is gone."""
        self._lost = error
        self._stop.signal()

    def _work(self, launched_ns: int) -> None:
        try:
            self._wait()
            self._outcome = self._execute(launched_ns)
        except Error as error:
            self._outcome = FencedOutcome(error=without_frames(error))
        except MemoryError as error:
            self._outcome = FencedOutcome(error=OutOfMemory(str(error)))
        except THREAD_FAULTS as error:
            logger.exception("a fenced execution failed")
            self._outcome = FencedOutcome(error=OpFailed(described(error)))
        finally:
            self._is_over.set()
            self._fence.signal()

    def _wait(self) -> None:
        stop = self._stop
        self._cancellation.call_on_cancel(stop.signal)
        deadline_s = self._options.deadline_s
        for fence in self._wait_for:
            left = None if deadline_s is None else deadline_s - time.monotonic()
            if not wait_any((fence.fd, stop.fd), left):
                raise MissedDeadlineTransient("the deadline passed before all fences had signalled")
            if self._cancellation.is_cancelled:
                raise Cancelled("the execution was cancelled before all fences had signalled")
            if self._lost is not None:
                raise copied(self._lost)

    def _execute(self, launched_ns: int) -> FencedOutcome:
        started_ns = time.monotonic_ns()
        options = self._options.limited_to(self._after_fences_s)
        result = self._run(options)
        if not options.measure:
            return FencedOutcome(result=result)
        after = result.timing
        launched = after.after_waiting(started_ns - launched_ns)
        return FencedOutcome(result=replace(result, timing=launched), after_fences=after)

    @property
    def is_over(self) -> bool:
        """True if `outcome` is available without waiting."""
        return self._is_over.is_set()

    def wait(self, timeout_s: float | None) -> bool:
        """See `neurald.hal.execution.pending.PendingExecution.wait`."""
        return self._is_over.wait(timeout_s)

    @property
    def outcome(self) -> FencedOutcome:
        """Waits until the execution is over, and returns its result or error."""
        self._is_over.wait()
        self._fence.signal()  # the thread may not have done so yet
        return self._outcome

    @property
    def fence(self) -> Fence:
        """See `FencedExecution.fence`."""
        return self._fence

    def result(self) -> ExecutionResult:
        """See `FencedExecution.result`."""
        return result_of(self.outcome)

    @property
    def timing_after_fences(self) -> Timing:
        """See `FencedExecution.timing_after_fences`."""
        return self.outcome.after_fences


def result_of(outcome: FencedOutcome) -> ExecutionResult:
    """Returns the result of an outcome, or raises its error."""
    if outcome.result is None:
        raise copied(outcome.error or OpFailed("the execution returned neither a result nor an error"))
    return outcome.result

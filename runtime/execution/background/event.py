"""Event: reports the end of an execution that runs in the background."""

import os
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from neurald.hal.api_arguments import integer, waiting_time
from neurald.hal.errors import (
    BadData,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
    ResultCode,
    copied,
    without_frames,
)
from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.threads.reused_threads import REUSED_THREADS
from neurald.hal.sync.deadline import NEVER_S
from neurald.hal.sync.fence import Fence
from neurald.hal.unpicklable import Unpicklable
from neurald.hal.wording import described, three_digits

#: Is held while an event creates its fence.
_creating_fence = forkable_lock()


def event_of(work: Callable[[], object], name: str) -> "Event":
    """Runs `work` in a new thread.

    Returns:
        An event without a fence, which signals when `work` returns or raises.

    Raises:
        ResourceExhaustedTransient: no thread can be started.
    """
    event = Event()

    def run() -> None:
        try:
            work()
        except Error as error:
            event.signal(error)
        except BaseException as error:
            event.signal(OpFailed(described(error)))
            raise
        else:
            event.signal(None)

    start_thread(run, name)
    return event


def start_thread(work: Callable[[], object], name: str) -> None:
    """Runs `work` in a daemon thread, which does not delay the end of the process.

    Raises:
        ResourceExhaustedTransient: no thread can be started.
    """
    try:
        REUSED_THREADS.start(work, name)
    except RuntimeError as error:
        raise ResourceExhaustedTransient(f"no thread can be started: {error}") from None


class Event(Unpicklable):
    """The completion event of an execution.

    `Execution.start_compute` and `start_compute_with_dependencies` return it.

    Args:
        fence: signals once the outputs are written; devices can wait for it.
        has_fence: create that fence when it is asked for.

    Attributes:
        began_in: the trace and the call in it that began the execution, until that has ended; see
            `neurald.hal.execution.recorded_calls.PartOf`. None without a trace.
    """

    instead_of_pickling = "Wait for it, and pickle the outputs"

    def __init__(self, fence: Fence | None = None, *, has_fence: bool = False) -> None:
        self.began_in: int | None = None
        self._done = threading.Event()
        self._error: Error | None = None
        self._fence = fence
        self._has_fence = has_fence or fence is not None
        self._finish: Callable[[float | None], bool] | None = None
        self._is_imported = False
        self._was_redone = False

    def __repr__(self) -> str:
        state = "ended" if self._done.is_set() else "under way"
        return f"<Event, {state if self._error is None else f'failed: {self._error}'}>"

    @classmethod
    def ended(cls, *, has_fence: bool = False) -> "Event":
        """Creates the event of an execution that has ended without an error.

        Only neurald itself calls this.

        Args:
            has_fence: whether the event has a fence, which has signalled.
        """
        event = cls(has_fence=has_fence)
        event.signal(None)
        return event

    def finish_by(self, finish: Callable[[float | None], bool]) -> None:
        """Makes threads that wait for the event finish the execution.

        Only neurald itself calls this.

        Args:
            finish: waits for the end of the execution, at most this many seconds; None: without a
                limit. Once it is over, it calls `signal`, and returns True.
        """
        self._finish = finish

    @classmethod
    def from_fence_fd(cls, fd: int) -> "Event":
        """Wraps the fence of a file descriptor, for example from another process.

        The descriptor is duplicated.

        Args:
            fd: the descriptor of a fence; it is duplicated.

        Raises:
            BadData: the descriptor is not that of a fence.
        """
        if integer(fd, "the fence's descriptor") <= 0:
            raise BadData(f"fence descriptor {fd}; a positive descriptor is expected")
        try:
            fence = Fence.received(os.dup(fd))
        except (OSError, OverflowError) as error:
            raise BadData(f"fence descriptor {fd}: {getattr(error, 'strerror', error)}") from None
        event = cls(fence)
        event._is_imported = True
        return event

    def fence_fd(self) -> int:
        """Returns a new descriptor of its fence, which the caller must close.

        Raises:
            BadData: the event has no fence, because it comes from `start_compute`.
        """
        fence = self.fence
        if fence is None:
            raise BadData("the event has no fence; only start_compute_with_dependencies creates one")
        return os.dup(fence.fd)

    @property
    def fence(self) -> Fence | None:
        """The fence that devices can wait for; None for an event of `start_compute`.

        Raises:
            OutOfMemory: no fence can be created.
            ResourceExhaustedTransient: no thread can be started that signals it.
        """
        if self._fence is None and self._has_fence:
            with _creating_fence:
                if self._fence is None:
                    self._create_fence()
        return self._fence

    def _create_fence(self) -> None:
        fence = Fence()
        if not self._done.is_set() and self._finish is not None:
            start_thread(partial(self._await, None), "neurald fence")
        self._fence = fence
        if self._done.is_set():
            fence.signal()

    @property
    def was_redone(self) -> bool:
        """True if the outputs were written again after the fence had signalled.

        This happens when a device fails late and another one takes over.
        """
        return self._was_redone

    def signal(self, error: Error | None, *, was_redone: bool = False) -> None:
        """Signals the event with the outcome. The execution calls it once.

        Only neurald itself calls this.

        Args:
            error: the error of the execution; None if it succeeded.
            was_redone: whether outputs were written again after the fence had signalled.
        """
        self._error = None if error is None else without_frames(error)
        self._was_redone = was_redone
        self._done.set()
        self._finish = self.began_in = None
        if self._fence is not None:
            self._fence.signal()

    @property
    def is_done(self) -> bool:
        """True if `wait` would return immediately."""
        if self._is_imported and self._fence is not None:
            return self._fence.is_signalled
        return self._done.is_set() or (self._finish is not None and self._await(0.0))

    @property
    def is_imported(self) -> bool:
        """True if it wraps a fence that another process may signal."""
        return self._is_imported

    @property
    def is_signalled(self) -> bool:
        """True if `signal` was called."""
        return self._done.is_set()

    @property
    def has_written(self) -> bool:
        """True if its fence has signalled, or the execution has ended."""
        fence = self._fence
        return self.is_done or (fence is not None and fence.is_signalled)

    def ends_within(self, timeout_s: float | None) -> bool:
        """Waits for the end of the execution, at most `timeout_s` seconds; None: without a limit.

        Only neurald itself calls this.

        Returns:
            Whether it has ended.
        """
        return self._await(timeout_s)

    @property
    def code(self) -> ResultCode:
        """The result code of the execution; waits for its end."""
        self._await(None)
        return ResultCode.NO_ERROR if self._error is None else self._error.code

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the end of the execution. May be called any number of times.

        Args:
            timeout: how long to wait, in seconds; None for no limit.

        Raises:
            BadData: the timeout is negative.
            MissedDeadlineTransient: the time is over; the execution continues.
            Error: the execution failed.
        """
        started = time.monotonic()
        if not self._await(waiting_time(timeout)):
            raise MissedDeadlineTransient(
                f"the execution is still running after {three_digits(time.monotonic() - started)} s"
            )
        if self._error is not None:
            # A copy, since an error that is kept would keep the frames that it passes.
            raise copied(self._error)

    def __await__(self) -> Generator[Any, None, None]:
        """Waits as `wait` does, in a thread of asyncio, while other coroutines run.

        The execution goes on if the coroutine is cancelled.
        """
        import asyncio  # slow to import, and whoever awaits has imported it

        return asyncio.to_thread(self.wait).__await__()

    def _await(self, timeout_s: float | None) -> bool:
        if timeout_s is not None and timeout_s >= NEVER_S:
            timeout_s = None
        if self._is_imported and self._fence is not None:
            return self._fence.wait(timeout_s)
        finish = self._finish
        if finish is not None and not self._done.is_set():
            return finish(timeout_s)
        return self._done.wait(timeout_s)

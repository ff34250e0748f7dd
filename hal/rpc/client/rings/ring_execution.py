"""An execution that a ring runs while its caller continues."""

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import DeadObject, Error, OpFailed, copied, without_frames
from neurald.hal.process.threads.turn import Turn
from neurald.hal.rpc.client.rings.ring import Ring, RingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedRun:
    """The execution that a ring runs, and its successor.

    Attributes:
        ring: the ring that runs it, and that nothing else uses meanwhile.
        bound: the request.
        options: the options of the execution.
        give_back: takes the ring back at the end.
        run_again: runs the request in another way if the ring breaks while the daemon lives; None
            if the daemon does not live.
        start_soon: has another thread start work, see `Connection.start_soon`.
    """

    ring: Ring
    bound: RingRequest
    options: ExecuteOptions
    give_back: Callable[[Ring], None]
    run_again: Callable[[], ExecutionResult | None]
    start_soon: Callable[[Callable[[], object]], None]

    def finish(self, timeout_s: float | None) -> ExecutionResult | None:
        """Waits for the end; returns None if the execution is still under way.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        try:
            result = self.ring.finish(self.bound, self.options, timeout_s)
            if result is None:
                return None
        except DeadObject:
            is_usable = self.ring.is_usable
            self.give_back(self.ring)
            result = None if is_usable else self.run_again()
            if result is None:
                raise
            return result
        except BaseException:
            self.give_back(self.ring)
            raise
        self.give_back(self.ring)
        return result

    def finish_unobserved(self) -> None:
        """Waits for the end, and ignores errors."""
        with contextlib.suppress(Error):
            self.finish(None)


class RingExecution:
    """Implements `neurald.hal.execution.pending.PendingExecution`.

    The execution ends properly even if nothing refers to this object any more, unless its
    connection ends before.

    Args:
        run: the execution, which has been submitted.
    """

    def __init__(self, run: SubmittedRun) -> None:
        self._run: SubmittedRun | None = run
        # Not __del__: where the garbage collector finds the execution in a cycle, it would also
        # finalize the ring, whose socket and descriptors closed before the run could end.
        self._abandon = weakref.finalize(self, run.start_soon, run.finish_unobserved)
        self._abandon.atexit = False
        self._result: ExecutionResult | None = None
        self._error: Error | None = None
        self._turn = Turn()
        self._cancel = run.ring.canceller()
        if run.options.cancellation is not None:
            run.options.cancellation.call_on_cancel(self._cancel)

    def wait(self, timeout_s: float | None) -> bool:
        """See `PendingExecution.wait`.

        Raises:
            BadState: see `Turn.take`.
        """
        if self._run is None:
            return True
        if not self._turn.take(timeout_s):
            return self._run is None
        try:
            return self._settled(timeout_s)
        finally:
            self._turn.give_back()

    def _settled(self, timeout_s: float | None) -> bool:
        if self._run is None:
            return True
        try:
            self._result = self._run.finish(timeout_s)
            if self._result is None:
                return False
        except Error as error:
            # Without its traceback, whose frames keep the memory of the call.
            self._error = without_frames(error)
        self._abandon.detach()
        cancellation, self._run = self._run.options.cancellation, None
        if cancellation is not None:
            cancellation.forget(self._cancel)
        return True

    def result(self) -> ExecutionResult:
        """See `PendingExecution.result`."""
        self.wait(None)
        if self._result is None:
            error = self._error or OpFailed("the execution has ended without a result")
            # A copy, since an error that is kept would keep the frames that it passes.
            raise copied(error)
        return self._result

"""The future of a call in another thread, which can also be stopped while it runs."""

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Slow to import, and every call has imported it before it begins.
    from neurald.runtime.execution.execution import Execution


class StoppableCall(Future[Any]):
    """The future of a call. `cancel` stops the call also if it runs, which futures cannot.

    A call that has begun then ends with `neurald.Cancelled`, unless it ends by itself before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._execution: Execution | None = None
        self._is_to_stop = False

    def begin(self, execution: "Execution") -> None:
        """Names the execution that is about to compute; the thread of the call calls this."""
        execution.expect()
        self._execution = execution
        if self._is_to_stop:
            execution.cancel()

    def end(self) -> None:
        """Releases the execution, with its arrays."""
        self._execution = None

    def cancel(self) -> bool:
        """Cancels a call that has not begun, and asks one that runs to stop.

        Returns:
            True if the call never begins; False if it has begun, so that `result` says how it ends.
        """
        if super().cancel():
            return True
        # After this, `begin` stops the call; what has begun before is known here.
        self._is_to_stop = True
        execution = self._execution
        if execution is not None:
            execution.cancel()
        return False

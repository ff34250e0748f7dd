"""A variant that one execution prepares, while others wait for it."""

import threading
import time

from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import MissedDeadlineTransient

#: Interval at which an execution that waits for another one checks cancellation and deadline.
_POLL_S = 0.02


class PendingVariant:
    """A variant that an execution prepares, for which others with the same shapes wait."""

    def __init__(self) -> None:
        self._done = threading.Event()

    def finish(self) -> None:
        """Lets the others continue."""
        self._done.set()

    def wait(self, options: ExecuteOptions) -> None:
        """Waits for the execution.

        Raises:
            Cancelled: the waiting execution was cancelled.
            MissedDeadlineTransient: its deadline passed.
        """
        while not self._done.wait(_POLL_S):
            if options.cancellation is not None:
                options.cancellation.require_not_cancelled("while another one compiled")
            if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
                raise MissedDeadlineTransient("the deadline passed while another execution compiled")

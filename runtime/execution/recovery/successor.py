"""Waits for the successor of a driver that was stopped before it began a call."""

import time
from typing import Final

from neurald.hal.errors import Error, Unreachable, Withdrawn

#: How long a call waits for the successor of a driver that was stopped, and how many drivers it is
#: given to, each of which is stopped before it begins the call.
_SUCCESSOR_S: Final = 0.5
_SUCCESSOR_POLL_S: Final = 0.05
_MAX_SUCCESSORS: Final = 8


class Successor:
    """The successor of a step's driver, if that was stopped. Thread-safe."""

    def __init__(self) -> None:
        #: Why the driver was stopped last, and until when its successor is waited for.
        self._withdrawal = ("", 0.0)

    def expect(self, error: Withdrawn) -> None:
        """Notes that the driver was stopped, so that the next calls wait for its successor."""
        self._withdrawal = (str(error), time.monotonic() + _SUCCESSOR_S)

    def wait_after(self, error: Error, withdrawals: int) -> int:
        """Waits after a failed call, if it may succeed on a successor.

        Args:
            error: the error of the call.
            withdrawals: how many drivers did not begin the execution before.

        Returns:
            How many have not begun it by now.

        Raises:
            Withdrawn: the driver was stopped, and has no successor.
            Error: the error, if no successor can be expected.
        """
        if isinstance(error, Withdrawn) and withdrawals < _MAX_SUCCESSORS:
            self.expect(error)
            return withdrawals + 1
        cause, end_s = self._withdrawal
        now_s = time.monotonic()
        # Another way to execute the step may have found the driver stopped.
        if not isinstance(error, Unreachable) or not (withdrawals or now_s < end_s):
            try:
                raise error
            finally:
                # An error to which its frames refer keeps them, and the memory of the call.
                del error
        if now_s >= end_s:
            raise Withdrawn(cause) from None
        time.sleep(_SUCCESSOR_POLL_S)
        return withdrawals

"""The pauses before what has failed is tried again: devices, and preparations in the background.

All of it is imported before anything fails: without descriptors or memory no module can be.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct

from neurald.hal.errors import (
    DeadObject,
    Error,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedTransient,
    Unreachable,
)
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns

_T = TypeVar("_T")

#: Number of times that a preparation is tried again after the process that did it has ended.
_RETRIES: Final = 1
#: How long to wait, in seconds, before each further try of a preparation that lacked memory,
#: threads or descriptors, which others may soon give back.
_PAUSES_S: Final = (0.2, 1.0, 5.0)


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The pause before a failed device is retried, which doubles with each consecutive failure.

    Attributes:
        first_pause_s: the pause after the first failure, in seconds.
        max_pause_s: the longest pause, in seconds.
    """

    first_pause_s: float
    max_pause_s: float

    def pause_s(self, failures: int) -> float:
        """Returns the pause in seconds after that many consecutive failures (at least 1)."""
        return float(min(self.max_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 30)))


#: The policy for a daemon that cannot be reached. A restarted one is back within a second, or two
#: if it was stopped. A retry costs only a connection, and the last pause delays the use of the
#: device.
UNREACHABLE_RETRY = RetryPolicy(first_pause_s=0.05, max_pause_s=0.4)
#: The policy for a driver that died. This model may be the cause, and each death destroys the work
#: of other clients.
DEAD_RETRY = RetryPolicy(first_pause_s=0.05, max_pause_s=30.0)
#: The policy for a device that lacks memory or has too much to do, which may change at any time.
BUSY_RETRY = RetryPolicy(first_pause_s=0.1, max_pause_s=10.0)
#: The policy for a device that has become slow.
SLOW_RETRY = RetryPolicy(first_pause_s=1.0, max_pause_s=60.0)
#: The policy for all other failures, which are likely to happen again.
FAILING_RETRY = RetryPolicy(first_pause_s=1.0, max_pause_s=60.0)


def retry_policy(error: Error | None) -> RetryPolicy:
    """Returns the policy for a failure; None stands for a device that has become slow."""
    if error is None:
        return SLOW_RETRY
    if isinstance(error, Unreachable):
        return UNREACHABLE_RETRY
    if isinstance(error, OutOfMemory | ResourceExhaustedTransient):
        return BUSY_RETRY
    return DEAD_RETRY if isinstance(error, DeadObject) else FAILING_RETRY


def tried_again(prepare: Callable[[], _T], cancellation: Cancellation) -> _T:
    """Returns what a preparation returns, which is tried again while that may help.

    Args:
        prepare: prepares; may be called several times.
        cancellation: ends the pauses between the tries.

    Raises:
        Error: the last error.
    """
    ended, lacking = iter((0.0,) * _RETRIES), iter(_PAUSES_S)
    while True:
        try:
            return prepare()
        except Error as error:
            pause_s: float | None = None  # until the next try, if there is one
            if isinstance(error, OutOfMemory | ResourceExhaustedTransient):
                pause_s = next(lacking, None)
            elif isinstance(error, DeadObject | OpFailed):
                pause_s = next(ended, None)
            if pause_s is None or _is_cancelled_within(cancellation, pause_s):
                raise


def _is_cancelled_within(cancellation: Cancellation, pause_s: float) -> bool:
    """Waits for a time; returns early, and True, if the work is cancelled."""
    with turns.waiting():
        return cancellation.wait(pause_s)

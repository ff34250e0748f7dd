"""The pauses before failed devices are retried."""

from msgspec import Struct

from neurald.hal.errors import DeadObject, Error, OutOfMemory, ResourceExhaustedTransient, Unreachable


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


#: For a daemon that cannot be reached. A restarted one is back within a second, or two if it was
#: stopped. A retry costs only a connection, and the last pause delays the use of the device.
UNREACHABLE_RETRY = RetryPolicy(first_pause_s=0.05, max_pause_s=0.4)
#: For a driver that died. This model may be the cause, and each death destroys the work of other
#: clients.
DEAD_RETRY = RetryPolicy(first_pause_s=0.05, max_pause_s=30.0)
#: For a device that lacks memory or has too much to do, which others may give back at any time.
BUSY_RETRY = RetryPolicy(first_pause_s=0.1, max_pause_s=10.0)
#: For a device that has become slow.
SLOW_RETRY = RetryPolicy(first_pause_s=1.0, max_pause_s=60.0)
#: For all other failures, which are likely to happen again.
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

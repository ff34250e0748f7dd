"""Converts time limits of applications and clients to deadlines."""

import math
import time

from neurald.hal.errors import BadData

#: A limit of this many seconds (31 years) or more means no limit, because waits, sockets and gRPC
#: count in integers of limited size.
NEVER_S = 1e9
_NS_PER_S = 1e9


def deadline_in(seconds: float | None, what: str = "a time limit") -> float | None:
    """Returns the deadline in this many seconds, on the clock of `time.monotonic()`.

    Args:
        seconds: at least 0; None, infinity and values of at least `NEVER_S` mean no limit.
        what: names the number in messages.

    Returns:
        None if there is no limit.

    Raises:
        BadData: the number is negative or NaN.
    """
    if seconds is None:
        return None
    if math.isnan(seconds) or seconds < 0:
        raise BadData(f"{what} of {seconds} s; a time of at least 0 s is expected")
    return None if seconds >= NEVER_S else time.monotonic() + seconds


def remaining_s(deadline_s: float | None) -> float | None:
    """Returns the seconds until a deadline, at least 0; None without a deadline.

    A deadline that is `NEVER_S` away or more counts as none.
    """
    if deadline_s is None:
        return None
    left = deadline_s - time.monotonic()
    return max(0.0, left) if left < NEVER_S else None


def nanoseconds(deadline_s: float | None) -> int:
    """Converts a deadline to an integer for native code, which reads the same clock; 0 for none."""
    if deadline_s is None or not deadline_s < 2 * NEVER_S:
        return 0
    return max(1, int(deadline_s * _NS_PER_S))

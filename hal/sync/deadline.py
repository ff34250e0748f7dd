"""Time limits as numbers: the one place where what an application or a client says becomes a deadline."""

import math
import time

from neurald.hal.errors import BadData

#: A limit of so many seconds (31 years) or more is none. Waits, sockets and gRPC count in integers that end somewhere.
NEVER_S = 1e9
_NS_PER_S = 1e9


def deadline_in(seconds: float | None, what: str = "a time limit") -> float | None:
    """The deadline on the clock of `time.monotonic()` that is so many seconds away; None where there is no limit.

    Args:
        seconds: of at least 0; None, infinity and what is not shorter than `NEVER_S` are no limit.
        what: names the number in messages.

    Raises:
        BadData: the number is negative or not a number.
    """
    if seconds is None:
        return None
    if math.isnan(seconds) or seconds < 0:
        raise BadData(f"{what} of {seconds} s; a time of at least 0 is expected")
    return None if seconds >= NEVER_S else time.monotonic() + seconds


def remaining_s(deadline_s: float | None) -> float | None:
    """Seconds until a deadline, at least 0; None without one, or without one near enough to count."""
    if deadline_s is None:
        return None
    left = deadline_s - time.monotonic()
    return max(0.0, left) if left < NEVER_S else None


def nanoseconds(deadline_s: float | None) -> int:
    """A deadline as an integer that native code compares with the same clock; 0 for none."""
    if deadline_s is None or not deadline_s < 2 * NEVER_S:
        return 0
    return max(1, int(deadline_s * _NS_PER_S))

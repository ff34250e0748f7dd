"""Ends what never ends: a benchmark that waits for another process for ever says for what."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def time_limit(within_s: float, what: str) -> Iterator[None]:
    """Lets a block of the main thread take this long. The process must use no other alarms.

    Args:
        within_s: how long.
        what: is done by the block, for the error.

    Raises:
        TimeoutError: it takes longer. System calls of the main thread are interrupted.
    """

    def expire(*_: Any) -> None:
        raise TimeoutError(
            f"{what} has not ended within {within_s:g} s: a process that it needs hangs, or waits for an event "
            "that never comes"
        )

    handler = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)

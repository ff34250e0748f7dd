"""A time limit for blocks that wait for other processes, whose error says what they waited for."""

import contextlib
import signal
from collections.abc import Iterator

from neurald.hal.process.signal_handlers import signals_handled


@contextlib.contextmanager
def time_limit(within_s: float, what: str) -> Iterator[None]:
    """Lets a block of the main thread take this long. The process must use no other alarms.

    Args:
        within_s: how long.
        what: is done by the block, for the error.

    Raises:
        TimeoutError: it takes longer. System calls of the main thread are interrupted.
    """

    def expire() -> None:
        raise TimeoutError(
            f"{what} has not ended within {within_s:g} s: a process that it needs hangs, or waits for an event "
            "that never comes"
        )

    with signals_handled((signal.SIGALRM,), expire):
        signal.setitimer(signal.ITIMER_REAL, within_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

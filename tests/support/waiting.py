"""Waits for other threads or processes.

Timeouts are long, for slow machines: only a failing test waits for the whole time.
"""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Waits until a condition holds.

    Raises:
        AssertionError: it does not hold within `timeout_s` seconds.
    """
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.002)

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
    start = time.monotonic()
    while not condition():
        waited = time.monotonic() - start
        assert waited < timeout_s, "nothing happened"
        # Asking takes processor time from who is waited for, and from other tests.
        time.sleep(min(max(0.002, waited / 20), 0.05))

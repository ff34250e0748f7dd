"""Waits for what another thread or process does. Only a test that fails waits to the end, so that a slow machine has time."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Returns when the condition holds.

    Raises:
        AssertionError: it still does not after so many seconds.
    """
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.002)

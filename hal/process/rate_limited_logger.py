"""Limits how often a warning is logged that strangers can cause as often as they like."""

import logging
import time

_PAUSE_S = 10.0


class RateLimitedLogger:
    """Logs a warning at most once per interval, with the number of those left out. Not thread-safe.

    Args:
        logger: receives the warnings.
        pause_s: the interval in which further warnings are left out.
    """

    def __init__(self, logger: logging.Logger, pause_s: float = _PAUSE_S) -> None:
        self._logger = logger
        self._pause_s = pause_s
        self._next_s = -float("inf")
        self._left_out = 0

    def warning(self, text: str, *arguments: object) -> None:
        """Logs a warning, or counts it if it comes too early."""
        now = time.monotonic()
        if now < self._next_s:
            self._left_out += 1
            return
        self._next_s = now + self._pause_s
        more = f" ({self._left_out} warnings like this were left out before)" if self._left_out else ""
        self._left_out = 0
        self._logger.warning(text + "%s", *arguments, more)

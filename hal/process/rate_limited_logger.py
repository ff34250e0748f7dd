"""Warnings that strangers can cause as often as they like, and that are logged only now and then."""

import logging
import time

_PAUSE_S = 10.0


class RateLimitedLogger:
    """Logs a warning at most once in a while, with the number of those that were left out. Used by one thread.

    Args:
        logger: where to.
        pause_s: how long none is logged after one was.
    """

    def __init__(self, logger: logging.Logger, pause_s: float = _PAUSE_S) -> None:
        self._logger = logger
        self._pause_s = pause_s
        self._next_s = -float("inf")
        self._left_out = 0

    def warning(self, text: str, *arguments: object) -> None:
        """Logs a warning, or counts it."""
        now = time.monotonic()
        if now < self._next_s:
            self._left_out += 1
            return
        self._next_s = now + self._pause_s
        more = f" ({self._left_out} warnings like this were left out before)" if self._left_out else ""
        self._left_out = 0
        self._logger.warning(text + "%s", *arguments, more)

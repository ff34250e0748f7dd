"""Limits how often something is logged that strangers can cause as often as they like."""

import logging
import time
from typing import Final

from neurald.hal.process.fork import forkable_lock

_PAUSE_S: Final = 10.0


class RateLimitedLogger:
    """Logs at most one line per interval, with the number of those left out. Thread-safe.

    Args:
        logger: receives the lines.
        pause_s: the interval in which further lines are left out.
    """

    def __init__(self, logger: logging.Logger, pause_s: float = _PAUSE_S) -> None:
        self._logger = logger
        self._pause_s = pause_s
        self._lock = forkable_lock()
        self._next_s = -float("inf")
        self._left_out = 0

    def warning(self, text: str, *arguments: object) -> None:
        """Logs a warning, or counts it if it comes too early."""
        self._log(logging.WARNING, text, arguments)

    def info(self, text: str, *arguments: object) -> None:
        """Logs a line of information, or counts it if it comes too early."""
        self._log(logging.INFO, text, arguments)

    def _log(self, level: int, text: str, arguments: tuple[object, ...]) -> None:
        now = time.monotonic()
        with self._lock:
            if now < self._next_s:
                self._left_out += 1
                return
            self._next_s = now + self._pause_s
            left_out, self._left_out = self._left_out, 0
        more = f" ({left_out} lines like this were left out before)" if left_out else ""
        self._logger.log(level, text + "%s", *arguments, more)

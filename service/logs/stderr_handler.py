"""Writes log lines to stderr, and waits for nobody who has stopped reading them."""

import contextlib
import logging
import os
import select
import stat
from typing import Final, TextIO

from neurald.hal.wording import counted
from neurald.service.logs.bounded_log import BoundedLog

#: How long a line waits for a reader, and only if none was left out before.
_PATIENCE_MS: Final = 200


class StderrHandler(logging.StreamHandler[TextIO | BoundedLog]):
    """A log that does not hold up its process.

    A pipe whose reader has stopped takes no more lines. Writing one would make a thread wait, and
    with it those that wait for the handler. Such lines are left out, and once there is a reader
    again, a line says how many.
    """

    def __init__(self, stream: TextIO | BoundedLog) -> None:
        super().__init__(stream)
        self._left_out = 0
        self._begin = b""
        self._descriptor, self._encoding = -1, "utf-8"
        if not isinstance(stream, BoundedLog):
            self._encoding = stream.encoding or self._encoding
            with contextlib.suppress(OSError):  # a stream in memory
                self._descriptor = stream.fileno()
        kind = 0 if self._descriptor < 0 else os.fstat(self._descriptor).st_mode
        self._may_fill = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record, or leaves it out."""
        if self._descriptor < 0:
            super().emit(record)
            return
        try:
            if self._left_out and self._is_written(self._note()):
                self._left_out = 0
            if self._left_out or not self._is_written(record):
                self._left_out += 1
        except Exception:  # as in all handlers
            self.handleError(record)

    def _note(self) -> logging.LogRecord:
        text = f"{counted(self._left_out, 'line')} of the log left out, which nothing was reading"
        return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)

    def _is_written(self, record: logging.LogRecord) -> bool:
        """Writes a record, unless nobody reads it."""
        content = self._begin + (self.format(record) + self.terminator).encode(
            self._encoding, "backslashreplace"
        )
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        patience_ms = 0 if self._left_out else _PATIENCE_MS
        while content:
            if self._may_fill and not poll.poll(patience_ms):
                return False
            # A pipe that is ready takes so many bytes without a pause.
            count = os.write(self._descriptor, content[: select.PIPE_BUF])
            content = content[count:]
            # Should the rest be left out, the next line is to be one of its own.
            self._begin = b"\n" if content else b""
        return True

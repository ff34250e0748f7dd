"""Starts the log of a process, which goes to stderr."""

import logging
import os
import sys
from pathlib import Path
from typing import Final

from neurald.service.logs.bounded_log import BoundedLog
from neurald.service.logs.choices import NOTICE, LogFormat, LogLevel
from neurald.service.logs.formatters import JournalFormatter, JsonFormatter, TextFormatter

#: systemd names in this variable what the process's stderr was when it was started.
_JOURNAL_VARIABLE: Final = "JOURNAL_STREAM"
_FORMATTERS: Final = {
    LogFormat.TEXT: TextFormatter,
    LogFormat.JSON: JsonFormatter,
    LogFormat.JOURNAL: JournalFormatter,
}


def start_log(kind: LogFormat, level: LogLevel, file: Path | None = None) -> None:
    """Writes the messages of all loggers to stderr from now on.

    Args:
        kind: the format.
        level: the least level.
        file: takes the place of stderr, see `BoundedLog`; None leaves it where it goes.

    Raises:
        BadState: the file cannot be opened.
    """
    stream = sys.stderr if file is None else BoundedLog(file)
    if kind is LogFormat.AUTO:
        kind = LogFormat.JOURNAL if _goes_to_journal() else LogFormat.TEXT
    # A log that cannot be written must not disturb the work.
    logging.raiseExceptions = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_FORMATTERS[kind]())
    root = logging.getLogger()
    for before in tuple(root.handlers):
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(level.number)


def notice(text: str) -> None:
    """Logs what the operator who started the command should know."""
    logging.getLogger("neurald").log(NOTICE, "%s", text)


def _goes_to_journal() -> bool:
    """Returns True if stderr is what systemd connected to its journal, and not redirected since."""
    device, _, number = os.environ.get(_JOURNAL_VARIABLE, "").partition(":")
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return (device, number) == (str(status.st_dev), str(status.st_ino))

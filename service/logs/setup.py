"""Starts the log of a process, which goes to stderr."""

import logging
import sys
from pathlib import Path
from typing import Final

from neurald.service.console.journal import goes_to_journal
from neurald.service.logs.bounded_log import BoundedLog
from neurald.service.logs.choices import NOTICE, LogFormat, LogLevel
from neurald.service.logs.formatters import JournalFormatter, JsonFormatter, TextFormatter
from neurald.service.logs.stderr_handler import StderrHandler

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
        kind = LogFormat.JOURNAL if goes_to_journal() else LogFormat.TEXT
    # A log that cannot be written must not disturb the work.
    logging.raiseExceptions = False
    handler = StderrHandler(stream)
    handler.setFormatter(_FORMATTERS[kind]())
    root = logging.getLogger()
    for before in tuple(root.handlers):
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(level.number)


def notice(text: str) -> None:
    """Logs what the operator who started the command should know."""
    logging.getLogger("neurald").log(NOTICE, "%s", text)

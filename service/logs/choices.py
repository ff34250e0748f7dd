"""Defines the choices of operators for a log: its format and its level."""

import logging
from enum import StrEnum
from typing import Final

#: The level of lines that an operator gets unless the log is quieter than usual, such as that a
#: daemon serves. It is syslog's "notice".
NOTICE: Final = 25


class LogFormat(StrEnum):
    """The format of a log.

    TEXT is for humans. JSON is one object a line. JOURNAL is TEXT with the level in front of each
    line, as systemd's journal expects it. AUTO is JOURNAL if stderr goes to the journal, else TEXT.
    """

    TEXT = "text"
    JSON = "json"
    JOURNAL = "journal"
    AUTO = "auto"


class LogLevel(StrEnum):
    """The least level of lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level as `logging` counts."""
        return NOTICE if self is LogLevel.NOTICE else logging.getLevelNamesMapping()[self.name]

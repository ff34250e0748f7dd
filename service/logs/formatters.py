"""Formats of log lines.

Messages have parts that come from clients, models and drivers. Here, and only here, they become
text without control characters, line breaks, invisible characters and characters that change the
direction of writing. Thus nobody but this process can begin a line of its log, and showing a log
does not steer a terminal. Lines that belong to a message, such as those of a traceback, begin with
spaces.
"""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final

from neurald.service.console.output import printable
from neurald.service.logs.choices import NOTICE

_INDENT: Final = "    "
#: The level of a message in the journal, from the most urgent one.
_PRIORITIES: Final = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (NOTICE, 5),
    (logging.INFO, 6),
)
_DEBUG_PRIORITY: Final = 7
_PREFIX: Final = re.compile(r"<([0-7])>")
#: The attribute of a record with the driver whose process it is about.
DRIVER: Final = "driver"


class TextFormatter(logging.Formatter):
    """Writes the time, the level, the logger and the message.

    Notices are for the person at the terminal, and have the message only.

    Attributes:
        is_utc: whether times are in UTC, in the form of ISO 8601 that has no space.
    """

    is_utc = False

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        lines = _lines(self, record)
        if record.levelno != NOTICE:
            time = datetime.fromtimestamp(record.created, UTC)
            text = (time if self.is_utc else time.astimezone()).isoformat(
                "T" if self.is_utc else " ", "milliseconds"
            )
            lines[0] = f"{text} {_level(record)} {record.name}: {lines[0]}"
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """Writes one JSON object in ASCII characters.

    Its keys are `time`, `level`, `logger`, `process`, `message`, and, where there is one, `driver`
    and `traceback`, a list of lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        message, *traceback = _lines(self, record, names_driver=False)
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _level(record).lower(),
            "logger": record.name,
            "process": record.process,
            "message": message,
        }
        if (driver := getattr(record, DRIVER, "")) != "":
            document["driver"] = printable(str(driver))
        if traceback:
            document["traceback"] = [line.removeprefix(_INDENT) for line in traceback]
        return json.dumps(document)


class JournalFormatter(logging.Formatter):
    """Writes the level in front of each line, as `sd-daemon` defines it.

    The journal adds the time.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        lines = _lines(self, record)
        if record.levelno != NOTICE:
            lines[0] = f"{record.name}: {lines[0]}"
        prefix = f"<{priority(record.levelno)}>"
        return "\n".join(prefix + line for line in lines)


def priority(level: int) -> int:
    """Returns a level as syslog counts."""
    return next((number for least, number in _PRIORITIES if level >= least), _DEBUG_PRIORITY)


def split_priority(line: str, otherwise: int) -> tuple[int, str]:
    """Splits a line of the journal's format into its level and its text.

    Args:
        line: the line of a process, which may also write lines without a level.
        otherwise: the level of such a line.
    """
    found = _PREFIX.match(line)
    if found is None:
        return otherwise, line
    wanted = int(found[1])
    level = next((level for level, number in _PRIORITIES if wanted <= number), logging.DEBUG)
    return level, line[found.end() :]


def _level(record: logging.LogRecord) -> str:
    return "NOTICE" if record.levelno == NOTICE else printable(record.levelname)


def _lines(
    formatter: logging.Formatter, record: logging.LogRecord, *, names_driver: bool = True
) -> list[str]:
    """Returns the message of a record as one line, and the lines of its traceback."""
    text = record.getMessage()
    driver = getattr(record, DRIVER, "") if names_driver else ""
    lines = [printable(f"{driver}: {text}" if driver else text)]
    details = [record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")]
    details.append(formatter.formatStack(record.stack_info) if record.stack_info else "")
    for each in details:
        # Of all characters that may end a line, only this one is Python's own.
        lines += [_INDENT + printable(line) for line in each.split("\n") if line]
    return lines

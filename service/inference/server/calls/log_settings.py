"""The settings of the front end's log, which clients may change.

They reduce what the operator has chosen, or add lines for debugging; where the log goes stays the
operator's choice. Each change is itself a line of the log.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.server.client_choices import LogValue
from neurald.service.logs.choices import NOTICE
from neurald.service.logs.formatters import TextFormatter

logger = logging.getLogger(__name__)

_FLAGS: Final = ("log_info", "log_warning", "log_error")
_VERBOSE: Final = "log_verbose_level"
_FORMAT: Final = "log_format"
_FILE: Final = "log_file"
_FORMATS: Final = ("default", "ISO8601")
_MAX_VERBOSE: Final = 2**31 - 1


class LogSettings(logging.Filter):
    """Changes what the handlers of the root logger write. Belongs to one event loop.

    Args:
        before: what clients of the front end before have changed.

    Attributes:
        report: the function that is called when a client has changed something.
    """

    def __init__(self, before: Mapping[str, LogValue]) -> None:
        super().__init__()
        self._start: dict[str, LogValue] = {
            _FILE: "",
            **dict.fromkeys(_FLAGS, True),
            _VERBOSE: 0,
            _FORMAT: _FORMATS[0],
        }
        self._values = dict(self._start)
        self.report: Callable[[], None] = lambda: None
        self._root = logging.getLogger()
        self._level = self._root.level
        for handler in self._root.handlers:
            handler.addFilter(self)
        self._take(before, "settings of the log are those that a client has chosen before: %s")

    def close(self) -> None:
        """Lets the log be as the operator has chosen it."""
        self._root.setLevel(self._level)
        for handler in self._root.handlers:
            handler.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is written."""
        if record.name == __name__:
            return True
        if record.levelno >= logging.ERROR:
            return bool(self._values["log_error"])
        if record.levelno >= logging.WARNING:
            return bool(self._values["log_warning"])
        return record.levelno < logging.INFO or bool(self._values["log_info"])

    def current(self) -> dict[str, LogValue]:
        """Returns all settings."""
        return dict(self._values)

    def changed(self) -> dict[str, LogValue]:
        """Returns the settings that differ from those at the start."""
        return {name: value for name, value in self._values.items() if value != self._start[name]}

    def change(self, changes: Mapping[str, LogValue]) -> None:
        """Changes settings.

        Raises:
            ServiceError: a value is not valid; nothing is changed.
        """
        for name, value in changes.items():
            _check(name, value)
        known = {name: value for name, value in changes.items() if name in self._values}
        self._take(known, "a client has changed settings of the log: %s")
        self.report()

    def _take(self, changes: Mapping[str, LogValue], text: str) -> None:
        """Obeys changes, which are valid, and logs them."""
        if not changes:
            return
        self._values |= changes
        verbose = self._values[_VERBOSE]
        self._root.setLevel(min(self._level, logging.DEBUG) if verbose else self._level)
        for handler in self._root.handlers:
            if isinstance(handler.formatter, TextFormatter):
                handler.formatter.is_utc = self._values[_FORMAT] == "ISO8601"
        logger.log(NOTICE, text, ", ".join(f"{name}={value}" for name, value in changes.items()))


def _check(name: str, value: LogValue) -> None:
    if name == _FILE:
        raise ServiceError(
            Status.UNIMPLEMENTED, "log file location can not be updated through network protocol"
        )
    if name in _FLAGS and not isinstance(value, bool):
        raise ServiceError(Status.INVALID, f"expect boolean for '{name}'")
    if name == _VERBOSE and (
        isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_VERBOSE
    ):
        raise ServiceError(Status.INVALID, f"expect int32 for '{name}'")
    if name == _FORMAT:
        if not isinstance(value, str):
            raise ServiceError(Status.INVALID, f"expect string for '{name}'")
        if value not in _FORMATS:
            raise ServiceError(
                Status.INVALID,
                f"invalid argument for {name}, got: {quoted(value)}; {' or '.join(_FORMATS)} is expected",
            )

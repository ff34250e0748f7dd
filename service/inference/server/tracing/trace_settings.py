"""The settings of traces, of the whole service and of single models, which clients may change.

A setting of a model takes the place of the service's, and that of the operator's; clients clear
settings to return to these.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.manager.settings.service_configuration import TraceConfiguration

OFF: Final = "OFF"
TIMESTAMPS: Final = "TIMESTAMPS"
TENSORS: Final = "TENSORS"
LEVELS: Final = (OFF, TIMESTAMPS, TENSORS)
_LEVEL: Final = "trace_level"
_COUNT: Final = "trace_count"
_FILE: Final = "trace_file"
#: The numbers among the settings, and the least value of each.
_NUMBERS: Final = {"trace_rate": 0, _COUNT: -1, "log_frequency": 0}
_MAX_NUMBER: Final = 2**31 - 1

#: The values of settings by name; none clears a setting.
Changes = Mapping[str, Sequence[str]]


class TraceSettings:
    """Belongs to one event loop.

    Args:
        start: what the operator has chosen.
        before: what clients of the front end before have changed, as `changed` returns it.

    Attributes:
        report: the function that is called when a client has changed something.
    """

    def __init__(self, start: TraceConfiguration, before: Mapping[str, Changes]) -> None:
        #: The file's name without the folder: where files are is no concern of clients.
        self._file = Path(start.file).name
        self._start: dict[str, tuple[str, ...]] = {
            _LEVEL: (start.level,),
            "trace_rate": (str(start.rate),),
            _COUNT: (str(start.count),),
            "log_frequency": (str(start.log_frequency),),
        }
        self.report: Callable[[], None] = lambda: None
        #: Changed settings by model; those of the service have the name "".
        self._changed: dict[str, dict[str, tuple[str, ...]]] = {}
        #: How many requests there were, by the scope of the settings that they obey.
        self._seen: dict[str, int] = {}
        #: Whether counts have changed since the last report.
        self._counts = False
        #: Whether any request may be traced.
        self.is_on = start.level != OFF
        for model, changes in before.items():
            self.change(model, changes)

    def of(self, model: str) -> dict[str, tuple[str, ...]]:
        """Returns all settings of a model, or of the service if the name is empty."""
        return {
            _FILE: (self._file,),
            **self._start,
            **self._changed.get("", {}),
            **self._changed.get(model, {}),
            "trace_mode": ("triton",),
        }

    def change(self, model: str, changes: Changes) -> None:
        """Changes settings of a model, or of the service if the name is empty.

        Raises:
            ServiceError: a value is not valid; nothing is changed.
        """
        if _FILE in changes:
            raise ServiceError(
                Status.UNIMPLEMENTED, "trace file location can not be updated through network protocol"
            )
        for name, values in changes.items():
            if name == _LEVEL:
                _check_level(values)
            elif name in _NUMBERS:
                _check_number(name, values)
        scope = self._changed.setdefault(model, {})
        for name, values in changes.items():
            if name == _LEVEL or name in _NUMBERS:
                if values:
                    scope[name] = tuple(dict.fromkeys(values))
                else:
                    scope.pop(name, None)
        if not scope:
            del self._changed[model]
        self._seen.clear()
        self.is_on = any(self.of(each)[_LEVEL] != (OFF,) for each in ("", *self._changed))
        self.report()

    def changed(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Returns the changed settings by model; those of the service have the name ""."""
        return {model: dict(settings) for model, settings in self._changed.items()}

    def report_counts(self) -> None:
        """Reports what is left of the counts of traces, if they have changed.

        Requests change them, which would be delayed.
        """
        if self._counts:
            self._counts = False
            self.report()

    def forget(self, model: str) -> None:
        """Forgets the settings of a model that is not there any more."""
        if self._changed.pop(model, None) is not None:
            self.report()

    def log_frequency(self, model: str) -> int:
        """Returns how many traces are written to one file; 0 for all to the same."""
        return int(self.of(model)["log_frequency"][0])

    def sample(self, model: str) -> tuple[str, ...]:
        """Decides whether the next request of a model is traced; returns the levels, if so."""
        found = self.of(model)
        levels, rate, left = found[_LEVEL], int(found["trace_rate"][0]), int(found[_COUNT][0])
        if levels == (OFF,) or not rate or not left:
            return ()
        scope = model if model in self._changed else ""
        self._seen[scope] = self._seen.get(scope, 0) + 1
        if self._seen[scope] % rate:
            return ()
        if left > 0:
            self._changed.setdefault(scope, {})[_COUNT] = (str(left - 1),)
            self._counts = True
        return levels


def _check_level(values: Sequence[str]) -> None:
    for each in values:
        if each not in LEVELS:
            raise ServiceError(
                Status.INVALID, f"the trace level {quoted(each)} is not one of {', '.join(LEVELS)}"
            )
    if OFF in values and len(values) > 1:
        raise ServiceError(Status.INVALID, "Expect only one trace level 'OFF' is specified")


def _check_number(name: str, values: Sequence[str]) -> None:
    if len(values) > 1:
        raise ServiceError(Status.INVALID, f"expect only 1 value for '{name}'")
    for text in values:
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdecimal():
            raise ServiceError(Status.INVALID, f"Unable to parse '{name}', got: {quoted(text)}")
        least = _NUMBERS[name]
        if len(digits) > 10 or int(text) > _MAX_NUMBER:
            raise ServiceError(
                Status.INVALID,
                f"Unable to parse '{name}', value is out of range [ {least}, {_MAX_NUMBER} ], got: {quoted(text)}",
            )
        if int(text) < least:
            raise ServiceError(
                Status.INVALID, f"Unable to parse '{name}'. Expecting value >= {least}, got: {text}"
            )

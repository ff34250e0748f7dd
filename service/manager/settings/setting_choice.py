"""Chooses between the values that flags, the environment and a file give to a setting."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from neurald.hal.errors import BadData
from neurald.hal.process.environment import environment_variable

#: Where the value of a setting comes from if nobody sets it.
DEFAULT: Final = "default"

_T = TypeVar("_T")
_Member = TypeVar("_Member", bound=StrEnum)


class SettingChoice:
    """Chooses values, flags before environment before file, and notes where each comes from.

    Args:
        path: the path of the file.

    Attributes:
        path: the path of the file.
        sources: the sources for the name of each setting, where its value comes from.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sources: dict[str, str] = {}

    def of(
        self,
        name: str,
        flag: tuple[str, _T | None],
        variable: str,
        parse: Callable[[str, str], _T],
        from_file: _T | None,
        default: _T,
    ) -> _T:
        """Returns the value of a setting.

        Args:
            name: the name of the setting.
            flag: the name and value of the option of the command line.
            variable: the variable of the environment.
            parse: converts the variable, whose name and value it gets.
            from_file: the value in the file.
            default: the value if there is no other.

        Raises:
            BadData: the variable is not valid.
        """
        text = environment_variable(variable)
        if flag[1] is None and text:
            self.sources[name] = variable
            return parse(variable, text)
        return self.of_flag_or_file(name, flag, from_file, default)

    def of_flag_or_file(
        self, name: str, flag: tuple[str, _T | None], from_file: _T | None, default: _T
    ) -> _T:
        """Returns the value of a setting without a variable; see `of`."""
        if flag[1] is not None:
            self.sources[name] = flag[0]
            return flag[1]
        return self.of_file(name, from_file, default)

    def of_file(self, name: str, from_file: _T | None, default: _T) -> _T:
        """Returns the value of a setting that only the file may have; see `of`."""
        self.sources[name] = DEFAULT if from_file is None else str(self.path)
        return default if from_file is None else from_file


def number_of_seconds(variable: str, text: str) -> float:
    """Parses a number; see `SettingChoice.of`."""
    try:
        return float(text)
    except ValueError:
        raise BadData(f"{variable} is {text!r}; a number of seconds is expected") from None


def member_of(kind: type[_Member]) -> Callable[[str, str], _Member]:
    """Returns a function that parses a member of an enumeration; see `SettingChoice.of`."""

    def parse(variable: str, text: str) -> _Member:
        try:
            return kind(text)
        except ValueError:
            names = ", ".join(kind)
            raise BadData(f"{variable} is {text!r}; expected is one of {names}") from None

    return parse

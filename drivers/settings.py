"""Variables of the environment that decide what a driver does.

A driver reads all of them through one `Settings`, which copies them when its device is made. `Settings.description` is a part of
the device's version, and thus of the key of everything that is cached for the device and of the seals of its artifacts. A
variable that is read here cannot be left out of these.
"""

import os
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TypeVar

from neurald.hal.errors import BadData, Error

_Choice = TypeVar("_Choice", bound=Enum)


class Settings:
    """The variables of one driver, as they were when this was made.

    Args:
        prefixes: what the names of its variables begin with.
        environment: where they are read; None for that of this process.
    """

    def __init__(self, *prefixes: str, environment: Mapping[str, str] | None = None) -> None:
        self._prefixes = prefixes
        self._texts = {
            name: text
            for name, text in (os.environ if environment is None else environment).items()
            if text and name.startswith(prefixes)
        }

    def text(self, variable: str) -> str:
        """The value of a variable; "" where it is not set.

        Raises:
            ValueError: it is none of this driver's variables.
        """
        if not variable.startswith(self._prefixes):
            raise ValueError(
                f"{variable} is no setting of this driver; its names begin with {', '.join(self._prefixes)}"
            )
        return self._texts.get(variable, "")

    def choice(self, variable: str, kind: type[_Choice], error: type[Error] = BadData) -> _Choice | None:
        """The member of `kind` whose value is that of a variable; None where the variable is not set.

        Args:
            variable: its name.
            kind: what it may say.
            error: the type of what is raised.

        Raises:
            Error: of that type: the variable says something else.
        """
        wanted = self.text(variable)
        if not wanted:
            return None
        try:
            return kind(wanted)
        except ValueError:
            values = [str(each.value) for each in kind]
            names = " or ".join(values) if len(values) == 2 else f"one of {', '.join(values)}"
            raise error(f"{variable} is {wanted!r}; {names} is expected") from None

    def description(self, without: Collection[str] = ()) -> str:
        """The variables that are set, such as "NEURALD_OPENCL_PRECISION=f16"; "" where none is.

        Args:
            without: variables that decide nothing of what is compiled, or whose effect the device's version tells anyway.
        """
        return ", ".join(
            f"{name}={text}" for name, text in sorted(self._texts.items()) if name not in without
        )

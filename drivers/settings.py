"""Environment variables that affect a driver.

A driver reads them through a `Settings`, which copies them when its device is created.
`Settings.description` is part of the device's version, and thus of the cache keys and artifact
seals of the device. A variable that is read here can therefore not be omitted from these.
"""

import os
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TypeVar

from neurald.hal.errors import BadData, Error

_Choice = TypeVar("_Choice", bound=Enum)


class Settings:
    """Variables of one driver, as they were when this object was created.

    Args:
        prefixes: the prefixes of its variables' names.
        environment: the variables; None for those of this process.
    """

    def __init__(self, *prefixes: str, environment: Mapping[str, str] | None = None) -> None:
        self._prefixes = prefixes
        self._texts = {
            name: text
            for name, text in (os.environ if environment is None else environment).items()
            if text and name.startswith(prefixes)
        }

    def text(self, variable: str) -> str:
        """Returns the value of a variable; "" if it is not set.

        Raises:
            ValueError: it is not a variable of this driver.
        """
        if not variable.startswith(self._prefixes):
            raise ValueError(
                f"{variable} is not a setting of this driver; its names begin with {', '.join(self._prefixes)}"
            )
        return self._texts.get(variable, "")

    def choice(self, variable: str, kind: type[_Choice], error: type[Error] = BadData) -> _Choice | None:
        """Returns the member of `kind` with the value of a variable.

        None if the variable is not set.

        Args:
            variable: its name.
            kind: the permitted values.
            error: the type of error to raise.

        Raises:
            Error: of that type: the value of the variable is invalid.
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
        """Lists the set variables, such as "NEURALD_OPENCL_PRECISION=f16"; "" if there are none.

        Args:
            without: variables that do not affect compilation, or whose effect is part of the
                device's version anyway.
        """
        return ", ".join(
            f"{name}={text}" for name, text in sorted(self._texts.items()) if name not in without
        )

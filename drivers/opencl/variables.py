"""Variables of the environment that choose one of a few ways."""

import os
from enum import Enum
from typing import TypeVar

from neurald.hal.errors import BadData, Error

_Way = TypeVar("_Way", bound=Enum)


def choice(variable: str, kind: type[_Way], error: type[Error] = BadData) -> _Way | None:
    """The way that a variable names by its value; None where it is not set or empty.

    Args:
        variable: its name.
        kind: the ways that there are.
        error: what is raised.

    Raises:
        Error: of that type: the variable names no way.
    """
    wanted = os.environ.get(variable)
    if not wanted:
        return None
    try:
        return kind(wanted)
    except ValueError:
        ways = [str(each.value) for each in kind]
        names = " or ".join(ways) if len(ways) == 2 else f"one of {', '.join(ways)}"
        raise error(f"{variable} is {wanted!r}; {names} is expected") from None

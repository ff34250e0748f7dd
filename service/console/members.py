"""Members of enumerations by the names that options take."""

from enum import Enum
from typing import TypeVar

import typer

from neurald.hal.wording import listed

_Enum = TypeVar("_Enum", bound=Enum)


def member_of(kind: type[_Enum], name: str, option: str) -> _Enum:
    """Returns the member with a name in lower or upper case.

    Args:
        kind: the enumeration.
        name: the value of the option.
        option: the option, for the error.

    Raises:
        BadParameter: there is no such member.
    """
    try:
        return kind[name.upper()]
    except KeyError:
        names = listed([each.name.lower() for each in kind], "or")
        raise typer.BadParameter(f"{option} is {name!r}; {names} is expected") from None

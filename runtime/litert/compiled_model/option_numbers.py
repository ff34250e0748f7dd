"""Options as the numbers of LiteRT's native call, by functions of LiteRT's package."""

from typing import Any, Final

#: Stands for an option without a value.
UNSET: Final = -1


def optional_enum_to_int(value: Any) -> int:
    """Returns the number of a member of an enumeration.

    Raises:
        TypeError, ValueError: it is none.
    """
    return UNSET if value is None else int(value)


def optional_bool_to_int(value: Any) -> int:
    """Returns 1 for True and 0 for False."""
    return UNSET if value is None else int(bool(value))

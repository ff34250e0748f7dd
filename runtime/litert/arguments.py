"""Converts arguments as LiteRT's native calls do, and refuses the rest with their exceptions."""

import operator
from collections.abc import Iterable
from typing import Any


def integer(value: Any, call: str) -> int:
    """Returns an integer of 32 bits.

    Like LiteRT it takes everything that can be an index, and also what only `int` converts, such as
    NumPy's scalars and arrays of one number, but no `float` and no text.

    Args:
        value: what the program gives.
        call: LiteRT's name of the call, for the message.

    Raises:
        TypeError: it is not such a number.
    """
    number: int | None
    try:
        number = operator.index(value)
    except TypeError:
        number = _truncated(value)
    if number is None or not -(2**31) <= number < 2**31:
        raise TypeError(
            f"{call}(): incompatible function arguments. {value!r} is given; an integer of 32 bits is "
            "expected."
        )
    return number


def _truncated(value: Any) -> int | None:
    if isinstance(value, float) or not hasattr(value, "__int__"):
        return None
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def text(value: Any, call: str) -> str:
    """Returns a text. Like LiteRT it also takes bytes.

    Args:
        value: what the program gives.
        call: LiteRT's name of the call, for the message.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"{call}(): incompatible function arguments. {value!r} is given; a str is expected.")
    return value


def flag(value: Any, call: str) -> bool:
    """Returns True or False. Like LiteRT it takes what has a truth value of its own, and None.

    Args:
        value: what the program gives.
        call: LiteRT's name of the call, for the message.

    Raises:
        TypeError: it has none, as texts, lists, and arrays of several elements.
    """
    try:
        if value is None or hasattr(type(value), "__bool__"):
            return bool(value)
    except ValueError:
        pass  # An array of several elements has none.
    raise TypeError(f"{call}(): incompatible function arguments. {value!r} is given; a bool is expected.")


def lengths(value: Iterable[Any], call: str) -> list[int]:
    """Returns the lengths of the dimensions of a shape.

    Raises:
        TypeError: it is not a sequence of integers of 32 bits.
    """
    return [integer(each, call) for each in list(value)]

"""Adds members to enumerations at run time, for the extensions of vendors."""

from enum import IntEnum
from typing import TypeVar

_Member = TypeVar("_Member", bound=IntEnum)


def add_member(kind: type[_Member], number: int, name: str) -> _Member:
    """Adds an enum member that `kind(number)` finds, but iteration does not."""
    member = int.__new__(kind, number)
    member._name_ = name
    member._value_ = number
    found: _Member = kind._value2member_map_.setdefault(number, member)  # type: ignore[assignment]
    return found

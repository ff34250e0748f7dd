"""Enumerations with many members that are made quickly.

Python takes some 20 microseconds to make each member of an enumeration, since it may have methods
that members need. Whole numbers need none of that.
"""

from enum import EnumType, IntEnum
from typing import Any, TypeVar, cast

_Member = TypeVar("_Member", bound=IntEnum)


class QuickEnumType(EnumType):
    """Makes an enumeration of whole numbers, each with one name, without `auto()`."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: Any, **more: Any) -> "QuickEnumType":
        """Makes the enumeration without members, and adds these."""
        names = dict.fromkeys(body._member_names)
        rest = cls.__prepare__(name, bases, **more)
        for key, value in body.items():
            if key not in names and key not in rest:
                rest[key] = value
        made = super().__new__(cls, name, bases, cast(Any, rest), **more)
        kind = cast(type[IntEnum], made)
        for each in names:
            member = add_member(kind, body[each], each)
            kind._member_map_[each] = member
            kind._member_names_.append(each)
            type.__setattr__(kind, each, member)
        return made


def add_member(kind: type[_Member], number: int, name: str) -> _Member:
    """Adds an enum member that `kind(number)` finds, but iteration does not."""
    member = int.__new__(kind, number)
    member._name_ = name
    member._value_ = number
    found: _Member = kind._value2member_map_.setdefault(number, member)  # type: ignore[assignment]
    return found

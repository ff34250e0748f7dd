"""Checks arguments of applications: wrong values raise `BadData`, wrong types `WrongType`."""

import numbers
import os
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

from neurald.hal.errors import BadData, OutOfMemory, WrongType, members
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.sync.deadline import NEVER_S

_E = TypeVar("_E", bound=IntEnum)
_T = TypeVar("_T")
_KeyT = TypeVar("_KeyT")

#: Longer representations of values are truncated in messages.
_MAX_SHOWN = 80
#: Longer texts of Python's and NumPy's errors are, too, which may repeat a whole value.
_MAX_REASON = 200


def integer(value: object, what: str) -> int:
    """Returns an integer, which may be given as one of NumPy's.

    Raises:
        WrongType: it is not an integer.
    """
    if isinstance(value, int):
        return int(value)
    try:
        return int(value.__index__())  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        raise WrongType(f"{what} is {shown(value)}; an integer is expected") from None


def number(value: object, what: str) -> float:
    """Returns a real number as a float; it may be given as one of NumPy's.

    Raises:
        BadData: it is too large for a float.
        WrongType: it is not a number.
    """
    try:
        if isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
            return float(value)
    except OverflowError:
        raise BadData(f"{what} is {shown(value)}, which is too large for a number") from None
    except (TypeError, ValueError):
        pass
    raise WrongType(f"{what} is {shown(value)}; a number is expected")


def time_limit(seconds: object, what: str) -> float | None:
    """Returns a time limit in seconds; None, 0 and infinity mean no limit, which is None.

    Raises:
        BadData: it is negative.
        WrongType: it is not a number.
    """
    if seconds is None:
        return None
    limit = number(seconds, what)
    if not limit >= 0:
        raise BadData(f"{what} is {limit} s; it must not be negative")
    return limit if 0 < limit < NEVER_S else None


def waiting_time(timeout: object) -> float | None:
    """Returns how long to wait, in seconds; None and infinity mean no limit, which is None.

    Raises:
        BadData: it is negative.
        WrongType: it is not a number.
    """
    if timeout is None:
        return None
    limit = number(timeout, "the timeout")
    if not limit >= 0:
        raise BadData(f"the timeout is {limit} s; it must not be negative")
    return limit if limit < NEVER_S else None


def file_path(value: object, what: str) -> Path:
    """Returns a path of the file system.

    Raises:
        BadData: it contains a zero character.
        WrongType: it is not a path.
    """
    try:
        path = Path(value)  # type: ignore[arg-type]
    except TypeError:
        raise WrongType(f"{what} is {shown(value)}; a path is expected") from None
    try:
        is_path = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise BadData(f"{what} is {shown(str(path))}, which is not a valid path; use another name")
    return path


def flag(value: object, what: str) -> bool:
    """Returns a truth value, which may be given as one of NumPy's or as an integer.

    Raises:
        WrongType: it is not a truth value.
    """
    if isinstance(value, bool | int):
        return bool(value)
    if isinstance(value, np.bool_):
        return bool(value)
    raise WrongType(f"{what} is {shown(value)}; True or False is expected")


def member(value: object, enumeration: type[_E], what: str) -> _E:
    """Returns a member of an enumeration, which may be given as the member or its number.

    Raises:
        BadData: there is no such member.
        WrongType: it is neither a member nor a number.
    """
    kind: type[BadData] = BadData
    try:
        return enumeration(integer(value, what))
    except WrongType:
        kind = WrongType
    except ValueError:
        pass
    raise kind(f"{what} is {shown(value)}; {members(enumeration)} is expected")


def instance(value: object, expected: type[_T], what: str) -> _T:
    """Returns an object after checking that it is an instance of a class.

    Raises:
        WrongType: it is of another class.
    """
    if not isinstance(value, expected):
        kind = "bytes are" if expected is bytes else f"a {expected.__name__} is"
        raise WrongType(f"{what} is {shown(value)}; {kind} expected")
    return value


def integers(value: Iterable[int], what: str) -> tuple[int, ...]:
    """Returns a sequence of integers as a tuple.

    Raises:
        WrongType: it is not a sequence of integers.
    """
    found = items(value, what, "a sequence of integers")
    return tuple(integer(each, f"{what}: element {position}") for position, each in enumerate(found))


def items(value: object, what: str, expected: str) -> tuple[Any, ...]:
    """Returns what an iterable other than text contains.

    Raises:
        WrongType: it is not such an iterable.
    """
    try:
        if not isinstance(value, str | bytes):
            return tuple(value)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):  # Views of several dimensions cannot be iterated.
        pass
    raise WrongType(f"{what} is {shown(value)}; {expected} is expected")


def mapping(value: Mapping[_KeyT, _T], what: str, expected: str) -> Mapping[_KeyT, _T]:
    """Returns a mapping after checking that it is one.

    Raises:
        WrongType: it is not a mapping.
    """
    if not isinstance(value, Mapping):
        raise WrongType(f"{what} is {shown(value)}; {expected} is expected")
    return value


def dimensions(value: Iterable[int] | None, what: str) -> tuple[int, ...] | None:
    """Returns a shape as a tuple; None for None.

    Raises:
        WrongType: it is not a sequence of integers.
    """
    if value is None:
        return None
    found = items(value, what, "a sequence of integers")
    for position, each in enumerate(found):
        if each is None:  # as other libraries write it
            raise WrongType(f"{what}: element {position} is None; 0 leaves a length open")
    return integers(found, what)


def read_array(value: object, dtype: "np.dtype[Any] | None" = None) -> Array:
    """Returns a value as a C-contiguous array, read as NumPy does it.

    But NumPy drops digits where integers or truth values are expected, which is an error here.
    Methods of objects of applications and other libraries may raise anything, for instance those of
    a tensor on a GPU.

    Args:
        value: whatever NumPy can read.
        dtype: the type of the elements; None for that of the value.

    Raises:
        TypeError, ValueError, OverflowError: the value is no such array, as NumPy says, or it could
            not be read for another reason.
        OutOfMemory: there is no memory for the array.
    """
    try:
        # Unlike `ascontiguousarray`, this keeps rank 0.
        array = np.asarray(value, dtype, order="C")
        if dtype is not None and dtype.kind in "biu":
            given = np.asarray(value)
            if given.dtype != dtype and not np.array_equal(given, array):
                raise ValueError(f"not all of its elements can be represented exactly as {dtype}")
        return array
    except (TypeError, ValueError, OverflowError):
        raise
    except MemoryError:
        raise OutOfMemory(f"there is no memory for an array of {shown(value)}") from None
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {shown_reason(error)}") from error


def shown(value: object) -> str:
    """Returns the representation of a value for a message, truncated if it is long."""
    try:
        text = f"an array of {value.dtype}" if isinstance(value, np.ndarray) and value.ndim else repr(value)
    except Exception:
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def shown_reason(error: BaseException) -> str:
    """Returns the text of an error of Python or NumPy for a message, truncated if it is long."""
    text = str(error)
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"

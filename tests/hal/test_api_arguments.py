"""Checks of single arguments."""

from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.api_arguments import (
    dimensions,
    file_path,
    flag,
    instance,
    integer,
    member,
    number,
    read_array,
    shown,
    time_limit,
    waiting_time,
)
from neurald.hal.errors import BadData, OutOfMemory, WrongType


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3), True + 2])
def test_integers(value: Any) -> None:
    found = integer(value, "it")
    assert (found, type(found)) == (3, int)


@sweep("value", [3, 3.0, np.float32(3), np.int16(3), np.array(3.0)])
def test_numbers(value: Any) -> None:
    found = number(value, "it")
    assert (found, type(found)) == (3.0, float)


def test_flags_members_and_dimensions() -> None:
    assert flag(np.True_, "it") is True
    assert member(2, Size, "it") is Size.LARGE
    assert dimensions(np.array([2, 3]), "it") == (2, 3)
    assert dimensions(None, "it") is None
    assert instance("a", str, "it") == "a"


def test_times_that_no_lock_can_wait_for_are_no_limit() -> None:
    assert [time_limit(value, "it") for value in (None, 0, float("inf"), 1e300, 2.5)] == [
        None,
        None,
        None,
        None,
        2.5,
    ]


def test_a_wait_of_no_seconds_is_a_limit() -> None:
    assert [waiting_time(value) for value in (None, float("inf"), 1e300, 0, 2.5)] == [
        None,
        None,
        None,
        0,
        2.5,
    ]
    with pytest.raises(BadData, match=r"the timeout is -1.0 s; it must not be negative"):
        waiting_time(-1)
    with pytest.raises(WrongType, match="the timeout is 'long'; a number is expected"):
        waiting_time("long")


@sweep(
    ("check", "value", "message"),
    [
        (integer, 3.0, "it is 3.0; an integer is expected"),
        (integer, "3", "it is '3'; an integer is expected"),
        (integer, np.zeros(2, np.int32), "it is an array of int32; an integer is expected"),
        (number, "3", "it is '3'; a number is expected"),
        (number, 10**400, "which is too large for a number"),
        (number, 1j, "it is 1j; a number is expected"),
        (flag, "yes", "it is 'yes'; True or False is expected"),
        (time_limit, -1, "it is -1.0 s; it must not be negative"),
        (time_limit, float("nan"), "must not be negative"),
        (dimensions, "23", "a sequence of integers is expected"),
        (dimensions, [2, "x"], "it: element 1 is 'x'; an integer is expected"),
        (dimensions, [2, None], "it: element 1 is None; 0 leaves a length open"),
        (dimensions, memoryview(bytes(6)).cast("B", (2, 3)), "a sequence of integers is expected"),
        (dimensions, 3, "a sequence of integers is expected"),
        (file_path, "a\0b", "is not a valid path"),
        (file_path, 3, "a path is expected"),
    ],
)
def test_wrong_values(check: Any, value: Any, message: str) -> None:
    with pytest.raises(BadData) as raised:
        check(value, "it")
    assert message in str(raised.value)
    assert isinstance(raised.value, TypeError) == message.endswith((" is expected", " open"))


def test_wrong_members_are_told_the_right_ones() -> None:
    for value in ("SMALL", 3, None, 1.0):
        with pytest.raises(BadData, match=r"Size\.SMALL or Size\.LARGE is expected"):
            member(value, Size, "it")


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 10**6)) < 100


class Raising:
    """An object whose methods raise an error."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise self._error("no values")

    def __repr__(self) -> str:
        raise self._error("no text")


def test_values_without_a_representation_are_shown_by_their_class() -> None:
    assert shown(Raising(KeyError)) == "an object of Raising"


@sweep(
    "error", [KeyError, AttributeError, RuntimeError, OSError, RecursionError, AssertionError, BufferError]
)
def test_errors_of_objects_that_are_read_as_arrays(error: type[Exception]) -> None:
    with pytest.raises(ValueError, match=f"{error.__name__}: .*no values") as raised:
        read_array(Raising(error))
    assert isinstance(raised.value.__cause__, error)


def test_arrays_for_which_there_is_no_memory() -> None:
    with pytest.raises(OutOfMemory, match="an array of an object of Raising"):
        read_array(Raising(MemoryError))


@sweep(
    "value",
    [[0.5], [-1.0, 0.1], [256], [np.nan], [[1], [1e300]], np.array([1.5], np.float32), ["1"], [10**30]],
)
@sweep("kind", ["u1", "i4", "?"])
def test_integers_and_truth_values_lose_nothing(value: Any, kind: str) -> None:
    with pytest.raises((ValueError, OverflowError)), np.errstate(all="ignore"):
        read_array(value if kind != "i4" or value != [256] else [2**31], np.dtype(kind))


def test_values_that_integers_hold() -> None:
    for value in ([1.0, 0.0], [True, False], np.array([1, 0], np.float32), (1, 0), np.array([1, 0], ">i8")):
        for kind in ("u1", "i8", "?", "f2"):
            found = read_array(value, np.dtype(kind))
            assert found.dtype == np.dtype(kind)
            assert found.tolist() == [1, 0]
    assert read_array(np.arange(6).reshape(2, 3).T).flags.c_contiguous

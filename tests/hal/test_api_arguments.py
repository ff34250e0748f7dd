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
    shown,
    time_limit,
    waiting_time,
)
from neurald.hal.errors import BadData, WrongType


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

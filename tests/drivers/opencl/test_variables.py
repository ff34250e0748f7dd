"""Choices by variables of the environment."""

from enum import Enum

import pytest

from neurald.drivers.opencl.variables import choice
from neurald.hal.errors import BadData, UnavailableDevice

VARIABLE = "NEURALD_TEST_CHOICE"


class Two(Enum):
    FIRST = "first"
    SECOND = "second"


class Three(Enum):
    FIRST = "first"
    SECOND = "second"
    THIRD = "third"


def test_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert choice(VARIABLE, Two) is None
    monkeypatch.setenv(VARIABLE, "")
    assert choice(VARIABLE, Two) is None
    monkeypatch.setenv(VARIABLE, "second")
    assert choice(VARIABLE, Two) is Two.SECOND


def test_what_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fourth")
    with pytest.raises(UnavailableDevice, match=f"^{VARIABLE} is 'fourth'; first or second is expected$"):
        choice(VARIABLE, Two, UnavailableDevice)
    with pytest.raises(BadData, match=f"^{VARIABLE} is 'fourth'; one of first, second, third is expected$"):
        choice(VARIABLE, Three)

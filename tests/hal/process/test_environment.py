"""Variables of the environment, read without the conversions of `os.environ`."""

import os

import pytest

from neurald.hal.process import environment
from neurald.hal.process.environment import environment_variable

_NAME = "NEURALD_POLICY"


@pytest.mark.parametrize("value", ["", "android", "näme", os.fsdecode(b"\xff\xfe"), " a=b "])
@pytest.mark.parametrize("has_private", [True, False])
def test_values_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str, has_private: bool
) -> None:
    if not has_private:
        monkeypatch.setattr(environment, "_encoded", None)
    monkeypatch.setenv(_NAME, value)
    assert environment_variable(_NAME) == value == os.environ[_NAME]
    monkeypatch.delenv(_NAME)
    assert environment_variable(_NAME) is None
    os.environ[_NAME] = "tengine"
    assert environment_variable(_NAME) == "tengine"
    os.environ.pop(_NAME)
    assert environment_variable(_NAME) is None


def test_this_python_needs_no_conversions() -> None:
    assert environment._encoded is not None

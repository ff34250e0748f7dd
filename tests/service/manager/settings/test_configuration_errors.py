"""Errors about mistakes in the configuration file."""

from typing import Any

import pytest

from neurald.service.manager.settings.configuration import _File
from neurald.service.manager.settings.configuration_errors import mistake


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, ""),
        ({"drivers": {"cpu": {"idle_s": 1}, "gpu": {}}}, ""),
        ({"idle": 3}, "'idle' is not a setting; did you mean 'idle_s'?"),
        (
            {"log_level": "loud"},
            "log_level is 'loud'; expected is one of debug, info, notice, warning, error",
        ),
        ({"drivers": []}, "drivers is an array; a table is expected"),
        ({"drivers": {"cpu": 3}}, "drivers.cpu is an integer; a table is expected"),
        (
            {"drivers": {"cpu": {}, "gpu": {"watch_s": 3}}},
            "'drivers.gpu.watch_s' is not a setting; did you mean 'watchdog_s'?",
        ),
        (
            {"drivers": {"a.b": {"sandbox": "half"}}},
            "drivers.a.b.sandbox is 'half'; expected is one of auto, full, off",
        ),
        (
            {"drivers": {"cpu": {"users": ["ada", 1.5]}}},
            "drivers.cpu.users[1] is a number; an integer or a string is expected",
        ),
        (
            {"drivers": {"cpu": {"limits": {"sessions": []}}}},
            "drivers.cpu.limits.sessions is an array; an integer or a string is expected",
        ),
        (
            {"drivers": {"cpu": {"environment": {"A": 1}}}},
            "drivers.cpu.environment.A is an integer; a string is expected",
        ),
        ({"remotes": {"gpu": {"address": 3}}}, "remotes.gpu.address is an integer; a string is expected"),
        (
            {"service": {"limits": {"queue": "x"}}},
            "service.limits.queue is a string; an integer or a number is expected",
        ),
        (
            {"service": {"trace": {"rate": 1, "level": []}}},
            "service.trace.level is an array; an integer or a string is expected",
        ),
        (
            {"service": {"repository": ["/m"]}},
            "'service.repository' is not a setting; did you mean 'repositories'?",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(content: dict[str, Any], expected: str) -> None:
    assert mistake(content, _File) == expected


def test_without_a_similar_name_all_are_listed() -> None:
    found = mistake({"drivers": {"cpu": {"qqq": 1}}}, _File)
    assert found.startswith(
        "'drivers.cpu.qqq' is not a setting; there are drain_s, driver, environment, groups, "
    )

"""Tests do not see what fixtures of other tests have set up."""

import pytest

from neurald.runtime.devices import daemons
from neurald.runtime.devices.daemons import connection_to


@pytest.fixture(scope="session")
def connected() -> str:
    return connection_to("unix:///nowhere/of-the-session.sock").address


@pytest.fixture(scope="module")
def seen_by_file() -> list[str]:
    return list(daemons._daemons)


def test_fixtures_of_a_file_see_no_daemons_of_the_session(connected: str, seen_by_file: list[str]) -> None:
    assert connected not in seen_by_file
    assert connected not in daemons._daemons

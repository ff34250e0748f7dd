"""The spare process of a driver: prepared once, handed over, and replaced if it ends."""

from typing import Any

import pytest

from neurald.service.manager.supervision.spare_process import SpareProcess


class _Process:
    """Records what is done with it."""

    def __init__(self) -> None:
        self.pid = 1234
        self.deeds: list[str] = []

    def stop(self, within_s: float) -> None:
        self.deeds.append("stop")

    def kill(self) -> None:
        self.deeds.append("kill")


@pytest.fixture
def created() -> list[Any]:
    return []


@pytest.fixture
def spare(created: list[Any]) -> SpareProcess:
    def create() -> Any:
        created.append(_Process())
        return created[-1]

    return SpareProcess(create)


def test_one_is_prepared_and_handed_over(spare: SpareProcess, created: list[Any]) -> None:
    assert spare.take() is None
    spare.prepare()
    spare.prepare()
    assert len(created) == 1
    assert spare.pid == 1234
    assert spare.take() is created[0]
    assert spare.take() is None
    assert spare.pid is None
    assert spare.is_gone
    assert created[0].deeds == []


def test_one_that_is_dropped_is_gone_once_it_has_ended(spare: SpareProcess, created: list[Any]) -> None:
    spare.prepare()
    spare.drop()
    assert spare.take() is None
    assert not spare.is_gone
    spare.kill()
    assert created[0].deeds == ["stop", "kill"]
    assert not spare.ended(created[0])
    assert spare.is_gone


def test_one_that_ends_by_itself_is_replaced_by_the_next(spare: SpareProcess, created: list[Any]) -> None:
    spare.prepare()
    assert spare.ended(created[0])
    assert spare.is_gone
    spare.prepare()
    assert spare.take() is created[1]

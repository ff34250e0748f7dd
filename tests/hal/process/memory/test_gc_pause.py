"""Pauses of the garbage collector."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from neurald.hal.process.memory import gc_pause
from neurald.hal.process.memory.gc_pause import paused_gc


def test_collection_resumes_after_the_last_pause() -> None:
    assert gc.isenabled()
    with paused_gc():
        assert not gc.isenabled()
        with pytest.raises(KeyError), paused_gc():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with paused_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.fixture
def begun() -> Iterator[list[int]]:
    """Returns the generations of the collections that have begun."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    # Tests have frozen what all of them need.
    gc.unfreeze()
    gc.collect()  # the next one would otherwise be due before the pause, by chance
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.freeze()


def many() -> list[list[int]]:
    """Returns so many objects that a collection is due."""
    return [[number] for number in range(gc.get_threshold()[0] + 1)]


def is_old(thing: object) -> bool:
    return any(each is thing for each in gc.get_objects(2))


def test_what_a_pause_has_created_becomes_old_without_being_examined(begun: list[int]) -> None:
    with paused_gc():
        kept = many()
        assert not is_old(kept)
    assert not begun
    assert is_old(kept)
    assert not gc.get_freeze_count()
    with paused_gc():
        young = [0]
    assert not is_old(young)


def test_all_objects_are_examined_after_some_pauses(
    begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gc_pause._state, "unexamined", 0)
    monkeypatch.setattr(gc_pause, "_MAX_UNEXAMINED", 2.5 * gc.get_threshold()[0])
    kept = []
    for expected in ([], [], [2], [2], [2], [2, 2]):
        with paused_gc():
            kept.append(many())
        assert begun == expected


def test_what_the_application_has_frozen_stays_so(begun: list[int]) -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with paused_gc():
            kept = many()
        assert begun == [1]
        assert gc.get_freeze_count() >= count - 10
        assert kept
    finally:
        gc.unfreeze()


def test_finalizers_may_pause_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a collection that a pause has put off."""
    monkeypatch.setattr(gc_pause, "_MAX_UNEXAMINED", 0)
    ended: list[bool] = []

    class Cycle:
        def __init__(self) -> None:
            self.own: Any = self

        def __del__(self) -> None:
            assert gc_pause._lock.acquire(timeout=1)
            gc_pause._lock.release()
            with paused_gc():
                ended.append(gc.isenabled())

    with paused_gc():
        Cycle()
        kept = [[number] for number in range(gc.get_threshold()[0] + 1)]
    assert ended == [False]
    assert gc.isenabled()
    assert kept

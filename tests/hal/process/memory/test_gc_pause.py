"""Pauses of the garbage collector."""

import gc
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


def test_what_was_put_off_is_done_at_the_end() -> None:
    begun: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            begun.append(info["generation"])

    gc.collect()  # the next one would otherwise be due before the pause, by chance
    gc.callbacks.append(note)
    try:
        with paused_gc():
            kept = [[number] for number in range(gc.get_threshold()[0] + 1)]
            assert not begun
        assert begun == [1]
        assert all(gc.is_tracked(each) for each in kept)
        with paused_gc():
            pass
        assert begun == [1]
    finally:
        gc.callbacks.remove(note)


def test_finalizers_may_pause_the_collector() -> None:
    """In a collection that a pause has put off."""
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

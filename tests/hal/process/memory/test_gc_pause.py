"""Pauses of the garbage collector."""

import gc
import threading

import pytest

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


class _Pausing:
    """In a cycle of references; its finalizer pauses the collector."""

    def __init__(self, finished: list[bool]) -> None:
        self._self, self._finished = self, finished

    def __del__(self) -> None:
        with paused_gc():
            self._finished.append(gc.isenabled())


def test_finalizers_may_pause_it_too() -> None:
    finished: list[bool] = []

    def pause() -> None:
        with paused_gc():
            _Pausing(finished)
            kept = [[number] for number in range(gc.get_threshold()[0] + 1)]
        del kept

    thread = threading.Thread(target=pause, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert finished == [False]
    assert gc.isenabled()

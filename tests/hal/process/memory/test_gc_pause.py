"""Pauses of the garbage collector."""

import gc

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

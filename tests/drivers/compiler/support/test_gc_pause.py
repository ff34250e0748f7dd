"""Python's garbage collector while something is compiled."""

import gc

import pytest

from neurald.drivers.compiler.support.gc_pause import paused_gc


def test_collection_is_put_off_until_the_last_has_ended() -> None:
    assert gc.isenabled()
    with paused_gc():
        assert not gc.isenabled()
        with pytest.raises(KeyError), paused_gc():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()

"""Python's garbage collector while something is compiled."""

import gc

import pytest

from neurald.drivers.compiler.support.gc_pause import put_off


def test_collection_is_put_off_until_the_last_has_ended() -> None:
    assert gc.isenabled()
    with put_off():
        assert not gc.isenabled()
        with pytest.raises(KeyError), put_off():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()

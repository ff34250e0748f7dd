"""Room in memory that clients share."""

import threading
from contextlib import ExitStack

import pytest
from support.waiting import wait_until

from neurald.hal.accounting.memory_room import Room
from neurald.hal.errors import ResourceExhaustedPersistent, ResourceExhaustedTransient


def test_room_is_limited_in_all_and_for_each() -> None:
    room = Room(100, 60, wait_s=0.01)
    with pytest.raises(ResourceExhaustedPersistent, match="61 bytes become; one client may have 60"):
        ExitStack().enter_context(room.taken("a", 61))
    for _ in range(3):
        with ExitStack() as taken:
            taken.enter_context(room.taken("a", 60))
            with pytest.raises(ResourceExhaustedTransient, match="60 of them by"):
                taken.enter_context(room.taken("a", 1))
            taken.enter_context(room.taken("b", 40))
            with pytest.raises(ResourceExhaustedTransient, match="100 bytes are held"):
                taken.enter_context(room.taken("c", 1))
    assert not room._taken


def test_who_needs_room_waits_for_it() -> None:
    room = Room(100, 100, wait_s=60)
    got = threading.Event()

    def take() -> None:
        with room.taken("b", 50):
            got.set()

    with room.taken("a", 60):
        thread = threading.Thread(target=take)
        thread.start()
        wait_until(thread.is_alive)
        assert not got.wait(0.05)
    assert got.wait(10)
    thread.join()

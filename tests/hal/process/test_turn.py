"""Turns: one thread at a time, and none waits for itself."""

import threading

import pytest

from neurald.hal.errors import BadState
from neurald.hal.process.turn import Turn


def test_a_turn_is_taken_by_one_thread_at_a_time() -> None:
    turn = Turn()
    found: list[bool] = []

    def ask() -> None:
        for timeout_s in (0, 0.01):
            found.append(turn.take(timeout_s))
            if found[-1]:
                turn.give_back()

    assert turn.take(None)
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [False, False]
    turn.give_back()
    ask()
    assert found[2:] == [True, True]


def test_a_thread_cannot_wait_for_itself() -> None:
    turn = Turn()
    assert turn.take(None)
    with pytest.raises(BadState, match="interrupted"):
        turn.take(0)
    turn.give_back()
    assert turn.take(-1)
    turn.give_back()
    assert turn.take(1e300)
    turn.give_back()

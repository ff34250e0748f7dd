"""Turns: one thread at a time, and none waits for itself."""

import threading

import pytest

from neurald.hal.errors import BadState
from neurald.hal.process.turn import Turn


def test_a_turn_is_taken_by_one_thread_at_a_time() -> None:
    turn = Turn()
    found: list[bool] = []

    def ask() -> None:
        with turn.taken(0) as is_taken:
            found.append(is_taken)
        with turn.taken(0.01) as is_taken:
            found.append(is_taken)

    with turn.taken(None) as is_taken:
        assert is_taken
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert found == [False, False]
    ask()
    assert found[2:] == [True, True]


def test_a_thread_cannot_wait_for_itself() -> None:
    turn = Turn()
    with turn.taken(None), pytest.raises(BadState, match="interrupted"), turn.taken(0):
        pass
    with pytest.raises(ValueError, match="x"), turn.taken(-1):
        raise ValueError("x")
    with turn.taken(1e300) as is_taken:
        assert is_taken

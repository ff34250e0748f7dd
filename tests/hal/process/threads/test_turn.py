"""Turns: one thread at a time, and none waits for itself."""

import threading

import pytest
from support.daemon.forking import in_child
from support.process.interruption import interruptions

from neurald.hal.errors import BadState
from neurald.hal.process.threads.turn import Turn


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


def wait(turn: Turn) -> bool:
    """Takes the turn as code does that waits."""
    if not turn.take(10.0):
        return False
    try:
        return True
    finally:
        turn.give_back()


#: The least number of places at which `wait` is interrupted.
MIN_PLACES = 6


def is_free(turn: Turn) -> bool:
    """Returns whether another thread can take the turn."""
    found: list[bool] = []

    def ask() -> None:
        found.append(turn.take(0))
        if found[-1]:
            turn.give_back()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


def test_a_handler_of_signals_never_waits_for_the_code_that_it_interrupts() -> None:
    turn = Turn()
    outcomes: list[str] = []

    def handle() -> None:
        try:
            assert turn.take(5.0), "it waited for what it interrupts"
        except BadState:
            outcomes.append("refused")
        else:
            turn.give_back()
            outcomes.append("taken")

    places = 0
    for _ in interruptions(lambda: wait(turn), __name__, Turn.__module__, handle=handle):
        places += 1
        assert len(outcomes) == places
        assert is_free(turn)
    assert places >= MIN_PLACES
    assert set(outcomes) == {"refused", "taken"}


def test_errors_of_handlers_leave_the_turn_free() -> None:
    turn, places = Turn(), 0
    for place in interruptions(lambda: wait(turn), __name__, Turn.__module__):
        places += 1
        assert is_free(turn), f"place {place}"
    assert places >= MIN_PLACES


@pytest.mark.forks
def test_the_turn_is_free_in_a_child() -> None:
    turn = Turn()
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        assert turn.take(None)
        taken.set()
        done.wait(60)
        turn.give_back()

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(60)

    def check() -> None:
        assert turn.take(0)

    in_child(check)
    done.set()
    thread.join()

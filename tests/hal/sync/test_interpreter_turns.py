"""Threads that call in a loop pause for work in the background."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from support.daemon.forking import in_child

from neurald.hal.sync import interpreter_turns
from neurald.hal.sync.interpreter_turns import InterpreterTurns


class _Clock:
    """A clock that only pauses and `run` move."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.paused_s = 0.0
        self.at_pause: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s
        self.paused_s += duration_s
        self.at_pause()

    def run(self, turns: InterpreterTurns, duration_s: float, call_s: float = 0.0005) -> float:
        """Makes calls in a loop, and returns the share of the time that pauses took."""
        begin_s, self.paused_s = self.now_s, 0.0
        while self.now_s < begin_s + duration_s:
            turns.give_way()
            self.now_s += call_s
        return self.paused_s / (self.now_s - begin_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(interpreter_turns, "time", made)
    return made


def test_work_gets_a_small_share_of_the_time(clock: _Clock) -> None:
    turns = InterpreterTurns()
    with turns.working():
        assert clock.run(turns, 10.0) == pytest.approx(0.05, rel=0.1)


def test_work_that_waits_gets_less(clock: _Clock) -> None:
    turns = InterpreterTurns()
    with turns.working(), turns.waiting():
        assert 0 < clock.run(turns, 10.0) < 0.006


def test_much_work_gets_no_larger_share(clock: _Clock) -> None:
    turns = InterpreterTurns()
    # Threads are told apart by their identities.
    turns._working.update(range(1, 9))
    assert clock.run(turns, 10.0) <= 0.05 * 1.1


@pytest.mark.parametrize("left_s", [-1.0, 0.0, 1e-4, 0.01, 0.1])
def test_a_call_pauses_for_a_small_part_of_its_time(clock: _Clock, left_s: float) -> None:
    turns = InterpreterTurns()
    with turns.working():
        clock.run(turns, 0.19)
        clock.now_s += 0.02  # a turn is due
        clock.paused_s = 0.0
        turns.give_way(clock.now_s + left_s)
        assert clock.paused_s == pytest.approx(0.05 * max(left_s, 0.0))
        # Calls without a deadline have the rest of the turn.
        turns.give_way()
        assert clock.paused_s == pytest.approx(0.01)


def test_a_turn_ends_with_the_work(clock: _Clock) -> None:
    turns = InterpreterTurns()
    clock.run(turns, 0.1)
    with ExitStack() as work:
        work.enter_context(turns.working())
        clock.at_pause = work.close
        share = clock.run(turns, 0.15)
    assert share * 0.15 == pytest.approx(0.001, rel=0.1)


def test_work_continues_after_it_has_waited(clock: _Clock) -> None:
    turns = InterpreterTurns()
    with turns.working():
        with turns.waiting():
            pass
        assert clock.run(turns, 1.0) > 0.03


def test_other_threads_that_wait_are_no_work(clock: _Clock) -> None:
    turns = InterpreterTurns()
    with turns.waiting():
        pass
    assert clock.run(turns, 1.0) < 0.006


def test_first_calls_do_not_pause(clock: _Clock) -> None:
    turns = InterpreterTurns()
    with turns.working():
        assert clock.run(turns, 0.19) == 0


def test_rare_calls_do_not_pause(clock: _Clock) -> None:
    turns = InterpreterTurns()
    with turns.working():
        assert clock.run(turns, 100.0, call_s=0.5) == 0


@pytest.mark.forks
def test_a_forked_child_has_no_work(clock: _Clock) -> None:
    turns = InterpreterTurns()

    def check() -> None:
        assert clock.run(turns, 1.0) <= 0.006

    with turns.working():
        in_child(check)

"""A child does what it has to do first, once, also if Python does not know of the fork."""

import os
from collections.abc import Callable

import pytest
from support.daemon.forking import fork_untold, in_child

from neurald.hal.process import fork as fork_state
from neurald.hal.process.fork import (
    ForkUnsafeLibrary,
    forkable_lock,
    hold_over_fork,
    in_each_child,
    notice_fork,
)

FORKS = pytest.mark.parametrize("fork", [os.fork, fork_untold], ids=["told", "untold"])


def test_a_process_that_was_not_forked_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_state, "_callbacks", [lambda: pytest.fail("it is no child")])
    assert fork_state._is_noted[0]
    notice_fork()


@pytest.mark.forks
@FORKS
def test_each_child_calls_functions_once(fork: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []

    def note() -> None:
        notice_fork()  # as what it calls may do
        called.append(os.getpid())

    monkeypatch.setattr("neurald.hal.process.fork._callbacks", [])
    in_each_child(note)

    def work() -> None:
        assert bool(fork_state._is_noted[0]) == (fork is os.fork)
        for _ in range(2):
            notice_fork()
        assert called == [os.getpid()]
        assert fork_state._is_noted[0]

        def work_on() -> None:
            notice_fork()
            assert called == [os.getppid(), os.getpid()]

        in_child(work_on, fork=fork)

    in_child(work, fork=fork)
    assert called == []


@pytest.mark.forks
def test_a_function_that_fails_keeps_no_other_from_being_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr("neurald.hal.process.fork._callbacks", [])
    in_each_child(lambda: 1 // 0)
    in_each_child(lambda: called.append(os.getpid()))

    def work() -> None:
        with pytest.raises(ZeroDivisionError):
            notice_fork()
        assert called == [os.getpid()]
        notice_fork()

    in_child(work, fork=fork_untold)


@pytest.mark.forks
@FORKS
def test_locks_of_the_parent_are_free_in_a_child(fork: Callable[[], int]) -> None:
    lock = forkable_lock()
    lock.acquire()

    def work() -> None:
        notice_fork()
        assert lock.acquire(blocking=False)

    in_child(work, fork=fork)
    assert lock.locked()


@pytest.mark.forks
@FORKS
def test_a_lock_that_is_held_over_a_fork_is_free_on_both_sides(fork: Callable[[], int]) -> None:
    import threading

    lock = threading.Lock()
    hold_over_fork(lock)

    def work() -> None:
        notice_fork()
        assert lock.acquire(blocking=False)

    in_child(work, fork=fork)
    assert lock.acquire(blocking=False)
    lock.release()


@pytest.mark.forks
@FORKS
def test_a_library_that_the_parent_has_used_is_refused(fork: Callable[[], int]) -> None:
    library = ForkUnsafeLibrary("Lib", "had used Lib", "uses it")
    library.require()

    def work() -> None:
        assert "forked from one that had used Lib" in library.obstacle

    in_child(work, fork=fork)
    assert library.obstacle == ""

"""Work that is postponed: it is done once, later, or as soon as its result is needed."""

import os
import subprocess
import sys
import threading

import pytest
from support.waiting import wait_until

from neurald.hal.process.threads import postponed
from neurald.hal.process.threads.postponed import PostponedWork
from neurald.hal.process.threads.preparing import PREPARING


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> PostponedWork:
    """Returns work that is due after longer than a test takes."""
    monkeypatch.setattr(postponed, "DELAY_S", 3600.0)
    # Without a thread that would sleep for as long.
    found = PostponedWork()
    found._has_thread = True
    return found


def test_it_is_not_done_at_once_but_when_it_is_needed(work: PostponedWork) -> None:
    done: list[str] = []
    work.postpone("a", lambda: done.append("a"))
    work.postpone("b", lambda: done.append("b"))
    assert not done
    work.finish("b")
    assert done == ["b"]
    work.finish_all()
    work.finish_all()
    assert done == ["b", "a"]


def test_the_same_work_is_done_once(work: PostponedWork) -> None:
    done: list[int] = []
    for number in range(3):
        work.postpone("a", lambda number=number: done.append(number))  # type: ignore[misc]
    work.finish_all()
    assert done == [0]


def test_a_failure_keeps_nothing_from_being_done(work: PostponedWork) -> None:
    done: list[str] = []
    work.postpone("a", lambda: 1 // 0)
    work.postpone("b", lambda: done.append("b"))
    work.finish_all()
    assert done == ["b"]
    work.finish("a")


def test_who_needs_what_another_thread_does_waits(work: PostponedWork) -> None:
    proceed, has_begun, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        has_begun.set()
        assert proceed.wait(30)
        done.append("a")

    work.postpone("a", slow)
    other = threading.Thread(target=work.finish, args=("a",))
    other.start()
    assert has_begun.wait(30)
    threading.Timer(0.05, proceed.set).start()
    work.finish("a")
    assert done == ["a"]
    other.join(30)


def test_a_thread_does_it_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed, "DELAY_S", 0.01)
    work = PostponedWork()
    for _ in range(2):
        done = threading.Event()
        work.postpone("a", done.set)
        assert done.wait(30)
        wait_until(lambda: not work._has_thread)


def test_it_waits_while_models_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed, "DELAY_S", 0.01)
    work, done = PostponedWork(), threading.Event()
    with PREPARING:
        work.postpone("a", done.set)
        assert not done.wait(0.2)
    assert done.wait(30)


def test_it_does_not_wait_for_ever_while_models_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed, "DELAY_S", 0.01)
    monkeypatch.setattr(postponed, "_MAX_WAIT_S", 0.1)
    work, done = PostponedWork(), threading.Event()
    with PREPARING:
        work.postpone("a", done.set)
        assert done.wait(30)


def test_it_is_done_at_once_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("neurald.hal.process.threads.postponed.REUSED_THREADS.start", start)
    done: list[str] = []
    PostponedWork().postpone("a", lambda: done.append("a"))
    assert done == ["a"]


_AT_EXIT = """
import os
from neurald.hal.process.threads import postponed
from neurald.hal.process.threads.postponed import POSTPONED

postponed.DELAY_S = 3600.0  # no thread does it before the exit, however long the child takes
POSTPONED.postpone("a", lambda: print("done", flush=True))
if os.fork() == 0:
    print("child", flush=True)
else:
    os.wait()
    print("parent", flush=True)
"""


def test_the_exit_does_it_in_the_process_that_postponed_it() -> None:
    command = [sys.executable, "-c", _AT_EXIT]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=os.environ)
    assert found.stdout.split() == ["child", "parent", "done"]

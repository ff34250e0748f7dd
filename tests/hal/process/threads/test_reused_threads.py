"""Daemon threads that are used again."""

import threading
import weakref
from concurrent.futures import Future

import pytest
from support.daemon.forking import in_child
from support.waiting import wait_until

from neurald.hal.process.threads import reused_threads
from neurald.hal.process.threads.reused_threads import ReusedThreads


@pytest.fixture(autouse=True)
def _long_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets idle threads wait for so long that none ends meanwhile on a busy machine."""
    monkeypatch.setattr(reused_threads, "_IDLE_S", 10.0)


def ident_of(threads: ReusedThreads, name: str = "some work") -> int:
    """Runs work that returns the identifier of its thread."""
    done: Future[tuple[int, str, bool]] = Future()

    def work() -> None:
        thread = threading.current_thread()
        done.set_result((threading.get_ident(), thread.name, thread.daemon))

    threads.start(work, name)
    ident, found, is_daemon = done.result(30)
    assert (found, is_daemon) == (name, True)
    return ident


def settled(threads: ReusedThreads, idle: int) -> bool:
    return len(threads._idle) == idle


def test_an_idle_thread_is_used_again() -> None:
    threads = ReusedThreads()
    first = ident_of(threads)
    for number in range(5):
        wait_until(lambda: settled(threads, 1))
        assert ident_of(threads, f"work {number}") == first


def test_work_never_waits_for_other_work() -> None:
    threads, proceed, started = ReusedThreads(), threading.Event(), threading.Semaphore(0)

    def work() -> None:
        started.release()
        assert proceed.wait(30)

    for _ in range(2):
        for _ in range(8):
            threads.start(work, "work")
        for _ in range(8):
            assert started.acquire(timeout=30)
        proceed.set()
        wait_until(lambda: settled(threads, 8))
        proceed.clear()


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reused_threads, "_IDLE_S", 0.02)
    before, threads = set(threading.enumerate()), ReusedThreads()
    for _ in range(3):
        ident_of(threads)
        wait_until(lambda: settled(threads, 0))
    # Of the process's own, some may be idle at any time.
    wait_until(lambda: not any(each.name == "neurald idle" for each in set(threading.enumerate()) - before))


def test_an_idle_thread_keeps_nothing_alive() -> None:
    class Work:
        def __call__(self) -> None:
            pass

    threads, work = ReusedThreads(), Work()
    reference = weakref.ref(work)
    threads.start(work, "work")
    del work
    wait_until(lambda: settled(threads, 1))
    assert reference() is None


def test_a_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        ReusedThreads().start(lambda: None, "work")


@pytest.mark.forks
def test_a_child_has_no_idle_threads() -> None:
    threads = ReusedThreads()
    ident_of(threads)
    wait_until(lambda: settled(threads, 1))

    def check() -> None:
        assert not threads._idle

    in_child(check)

"""The thread pool for calls."""

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from support.waiting import wait_until

from neurald.hal.process.threads.workers import WorkerThreads


def threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.nodeid)


@pytest.fixture
def workers(name: str) -> Iterator[WorkerThreads]:
    workers = WorkerThreads(4, name, idle_s=0.05)
    yield workers
    workers.shutdown()
    assert threads(name) == 0


def test_threads_come_as_they_are_needed_and_go(workers: WorkerThreads, name: str) -> None:
    leave = threading.Event()
    futures = [workers.submit(leave.wait, 60) for _ in range(3)]
    assert threads(name) == 3
    leave.set()
    assert [future.result(60) for future in futures] == [True] * 3
    wait_until(lambda: threads(name) == 1)
    assert workers.submit(divmod, 7, 2).result(60) == (3, 1)


def test_calls_beyond_the_limit_wait(workers: WorkerThreads, name: str) -> None:
    leave = threading.Event()
    first = [workers.submit(leave.wait, 60) for _ in range(4)]
    later = [workers.submit(threading.get_ident) for _ in range(20)]
    assert threads(name) == 4
    time.sleep(0.02)
    assert not any(future.done() for future in later)
    leave.set()
    assert len({future.result(60) for future in later}) <= 4
    assert all(future.result(60) for future in first)


def test_what_a_failed_call_kept_is_free_without_a_collection(workers: WorkerThreads) -> None:
    class Kept:
        pass

    def fail(_: Kept) -> None:
        raise ValueError("it failed")

    kept = Kept()
    is_kept = weakref.ref(kept)
    gc.collect()
    gc.disable()
    try:
        future = workers.submit(fail, kept)
        assert str(future.exception(60)) == "it failed"
        del kept, future
        wait_until(lambda: is_kept() is None)
    finally:
        gc.enable()


def test_finalizers_end_the_threads_without_a_lock(name: str) -> None:
    workers = WorkerThreads(4, name, idle_s=0.05)
    assert workers.submit(divmod, 7, 2).result(60) == (3, 1)
    with workers._lock:
        workers.end_when_idle()
    wait_until(lambda: threads(name) == 0)


def test_one_call_after_another_takes_one_thread(name: str) -> None:
    workers = WorkerThreads(4, name, idle_s=60)
    leave = threading.Event()
    for _ in range(3):
        workers.submit(leave.wait, 60)
    assert threads(name) == 3
    leave.set()
    used = set()
    for _ in range(50):
        # A thread has told the result of its last call before it is idle.
        wait_until(lambda: len(workers._idle) == 3)
        used.add(workers.submit(threading.get_ident).result(60))
    assert len(used) == 1, "the others may go"
    workers.shutdown()


def test_a_call_that_comes_as_a_thread_goes_is_run() -> None:
    workers = WorkerThreads(2, "going", idle_s=0.0)
    for number in range(300):
        both = [workers.submit(divmod, number, each) for each in (2, 3)]
        assert [future.result(60) for future in both] == [divmod(number, 2), divmod(number, 3)]
    workers.shutdown()


def test_errors_belong_to_the_call(workers: WorkerThreads) -> None:
    def fail() -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        workers.submit(fail).result(60)
    assert workers.submit(int, "5").result(60) == 5


def test_nothing_of_a_call_is_kept(workers: WorkerThreads) -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    workers.submit(id, thing).result(60)
    del thing
    wait_until(lambda: gone() is None)


def test_where_no_thread_can_be_started_those_there_are_work(
    workers: WorkerThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = threading.Event()
    first = workers.submit(leave.wait, 60)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        second = workers.submit(int, "7")
    leave.set()
    assert first.result(60)
    assert second.result(60) == 7


def test_where_there_is_no_thread_at_all_there_are_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError, match="can't start"):
        WorkerThreads(4, "none")


def test_an_interpreter_ends_with_workers_that_nobody_shut_down() -> None:
    program = "from neurald.hal.process.threads.workers import WorkerThreads; print(WorkerThreads(2, 'left', idle_s=0.05).submit(int, '7').result())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=True)
    assert ended.stdout == b"7\n"


def test_a_shutdown(name: str) -> None:
    workers = WorkerThreads(1, name, idle_s=60)
    leave = threading.Event()
    running, waiting = workers.submit(leave.wait, 60), workers.submit(int, "1")
    workers.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="shutdown"):
        workers.submit(int, "2")
    leave.set()
    assert running.result(60)
    assert waiting.result(60) == 1
    wait_until(lambda: threads(name) == 0)
    other = WorkerThreads(1, name, idle_s=60)
    leave.clear()
    other.submit(leave.wait, 60)
    dropped = other.submit(int, "1")
    other.shutdown(wait=False, cancel_futures=True)
    assert dropped.cancelled()
    leave.set()
    wait_until(lambda: threads(name) == 0)

"""Work in the background is done one piece at a time, bounded, and ended with the process."""

import threading
import time

import pytest
from support.daemon.forking import in_child
from support.threads import refuse_threads

from neurald.hal.execution.background import BackgroundWorker
from neurald.hal.sync.cancellation import Cancellation

pytestmark = pytest.mark.quick


def test_pieces_are_done_in_order_one_at_a_time() -> None:
    worker, found, done = BackgroundWorker(), [], threading.Event()
    running = []

    def work(number: int) -> None:
        running.append(number)
        time.sleep(0.002)
        found.append((number, len(running)))
        running.clear()
        if number == 9:
            done.set()

    for number in range(10):
        assert worker.submit(lambda _, number=number: work(number)) is not None  # type: ignore[misc]
    assert done.wait(10)
    assert found == [(number, 1) for number in range(10)]
    worker.close()


def test_failures_do_not_stop_the_others() -> None:
    worker, done = BackgroundWorker(), threading.Event()

    def fail(_: Cancellation) -> None:
        raise ValueError("no")

    worker.submit(fail)
    worker.submit(lambda _: done.set())
    assert done.wait(10)
    worker.close()


def test_work_without_a_thread_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, done = BackgroundWorker(), threading.Event()
    refuse_threads(monkeypatch)
    for _ in range(40):
        assert worker.submit(lambda _: pytest.fail("it was left out")) is None
    monkeypatch.undo()
    assert worker.submit(lambda _: done.set()) is not None
    assert done.wait(10)
    worker.close()


def test_too_much_work_is_refused() -> None:
    worker, go = BackgroundWorker(), threading.Event()

    def work(_: Cancellation) -> None:
        go.wait(10)

    accepted = [worker.submit(work) for _ in range(40)]
    assert 16 <= sum(each is not None for each in accepted) <= 17
    go.set()
    worker.close()
    assert worker.submit(lambda _: None) is None


def test_cancelled_work_is_not_begun() -> None:
    worker, begun, go, done = BackgroundWorker(), threading.Event(), threading.Event(), threading.Event()

    def first(_: Cancellation) -> None:
        begun.set()
        go.wait(10)

    worker.submit(first)
    assert begun.wait(10)
    found: list[str] = []
    cancellation = worker.submit(lambda _: found.append("cancelled"))
    assert cancellation is not None
    cancellation.cancel()
    worker.submit(lambda _: done.set())
    go.set()
    assert done.wait(10)
    assert found == []
    worker.close()


def test_closing_cancels_what_runs() -> None:
    worker, begun, seen = BackgroundWorker(), threading.Event(), threading.Event()

    def work(cancellation: Cancellation) -> None:
        cancellation.call_on_cancel(seen.set)
        begun.set()
        seen.wait(10)

    worker.submit(work)
    assert begun.wait(10)
    worker.close()
    assert seen.is_set()


def test_a_forked_child_starts_afresh() -> None:
    worker, begun, go = BackgroundWorker(), threading.Event(), threading.Event()

    def work(_: Cancellation) -> None:
        begun.set()
        go.wait(20)

    worker.submit(work)
    assert begun.wait(10)

    def check() -> None:
        done = threading.Event()
        assert worker.submit(lambda _: done.set()) is not None
        assert done.wait(10)

    in_child(check)
    go.set()
    worker.close()

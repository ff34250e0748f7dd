"""Work in the background is done one piece at a time, bounded, and ended with the process."""

import queue
import threading
import time
import weakref
from typing import Any

import pytest
from support.daemon.forking import in_child
from support.process.threads import refuse_threads
from support.waiting import wait_until

from neurald.hal.errors import OpFailed, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.execution.background_worker import BackgroundWorker
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns

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
    assert done.wait(60)
    assert found == [(number, 1) for number in range(10)]
    worker.close()


def test_failures_do_not_stop_the_others() -> None:
    worker, done = BackgroundWorker(), threading.Event()

    def fail(_: Cancellation) -> None:
        raise ValueError("no")

    worker.submit(fail)
    worker.submit(lambda _: done.set())
    assert done.wait(60)
    worker.close()


def test_work_without_a_thread_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, done = BackgroundWorker(), threading.Event()
    refuse_threads(monkeypatch)
    for _ in range(40):
        assert worker.submit(lambda _: pytest.fail("it was left out")) is None
    monkeypatch.undo()
    assert worker.submit(lambda _: done.set()) is not None
    assert done.wait(60)
    worker.close()


def test_too_much_work_is_refused() -> None:
    worker, go = BackgroundWorker(), threading.Event()

    def work(_: Cancellation) -> None:
        go.wait(60)

    accepted = [worker.submit(work) for _ in range(40)]
    assert 16 <= sum(each is not None for each in accepted) <= 17
    go.set()
    worker.close()
    assert worker.submit(lambda _: None) is None


def test_cancelled_work_is_not_begun() -> None:
    worker, begun, go, done = BackgroundWorker(), threading.Event(), threading.Event(), threading.Event()

    def first(_: Cancellation) -> None:
        begun.set()
        go.wait(60)

    worker.submit(first)
    assert begun.wait(60)
    found: list[str] = []
    cancelled = worker.submit(lambda _: found.append("cancelled"))
    assert cancelled is not None
    assert cancelled.is_ongoing
    cancelled.cancel()
    assert not cancelled.is_ongoing
    worker.submit(lambda _: done.set())
    go.set()
    assert done.wait(60)
    assert found == []
    worker.close()


def test_closing_cancels_what_runs() -> None:
    worker, begun, seen = BackgroundWorker(), threading.Event(), threading.Event()

    def work(cancellation: Cancellation) -> None:
        cancellation.call_on_cancel(seen.set)
        begun.set()
        seen.wait(60)

    worker.submit(work)
    assert begun.wait(60)
    worker.close()
    assert seen.is_set()


def test_closing_cancels_what_waits() -> None:
    worker, begun, go = BackgroundWorker(), threading.Event(), threading.Event()

    def work(cancellation: Cancellation) -> None:
        cancellation.call_on_cancel(go.set)
        begun.set()
        go.wait(60)

    worker.submit(work)
    assert begun.wait(60)
    waiting = worker.submit(lambda _: pytest.fail("the worker is closed"))
    assert waiting is not None
    worker.close()
    assert not waiting.is_ongoing


def test_calls_give_way_until_the_work_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, go, given = BackgroundWorker(), threading.Event(), list[float | None]()
    monkeypatch.setattr(turns, "give_way", given.append)

    def fail(_: Cancellation) -> None:
        go.wait(60)
        raise ValueError("no")

    submitted = worker.submit(fail)
    assert submitted is not None
    assert submitted.give_way(5.0)
    assert given == [5.0]
    go.set()
    wait_until(lambda: not submitted.is_ongoing)
    assert not submitted.give_way(6.0)
    assert given == [5.0]
    worker.close()


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (OutOfMemory("no"), True),
        (ResourceExhaustedTransient("no"), True),
        (MemoryError(), True),
        (OpFailed("no"), False),
        (None, False),
    ],
)
def test_work_that_lacks_a_resource_is_lost(error: Exception | None, is_lost: bool) -> None:
    worker = BackgroundWorker()

    def work(_: Cancellation) -> None:
        if error is not None:
            raise error

    submitted = worker.submit(work)
    assert submitted is not None
    wait_until(lambda: not submitted.is_ongoing)
    assert submitted.is_lost == is_lost
    worker.close()


def test_an_idle_worker_keeps_nothing_of_its_work_alive() -> None:
    class Kept:
        def work(self, _: Cancellation) -> None:
            pass

    worker, kept = BackgroundWorker(), Kept()
    submitted, reference = worker.submit(kept.work), weakref.ref(kept)
    assert submitted is not None
    del kept
    wait_until(lambda: reference() is None)
    assert worker._thread is not None
    worker.close()


def test_an_idle_worker_keeps_nothing_of_cancelled_work_alive() -> None:
    class Kept:
        def work(self, _: Cancellation) -> None:
            pytest.fail("it was cancelled")

    worker, begun, go, kept = BackgroundWorker(), threading.Event(), threading.Event(), Kept()

    def first(_: Cancellation) -> None:
        begun.set()
        go.wait(60)

    worker.submit(first)
    assert begun.wait(60)
    submitted, reference = worker.submit(kept.work), weakref.ref(kept)
    assert submitted is not None
    submitted.cancel()
    del kept
    go.set()
    wait_until(lambda: reference() is None)
    assert worker._thread is not None
    worker.close()


def test_closing_cancels_what_the_thread_has_just_taken() -> None:
    worker = BackgroundWorker()

    class Pieces(queue.SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            piece = super().get(block, timeout)
            if piece is not None:
                taken.set()
                wait_until(lambda: worker._is_closed)
            return piece

    taken, worker._pieces = threading.Event(), Pieces()
    submitted = worker.submit(lambda _: pytest.fail("the worker is closed"))
    assert submitted is not None
    assert taken.wait(60)
    worker.close()
    assert not submitted.is_ongoing


@pytest.mark.forks
def test_a_forked_child_starts_afresh() -> None:
    worker, begun, go = BackgroundWorker(), threading.Event(), threading.Event()

    def work(_: Cancellation) -> None:
        begun.set()
        go.wait(20)

    submitted = worker.submit(work)
    assert submitted is not None
    assert begun.wait(60)
    assert submitted.is_ongoing
    assert not submitted.is_lost

    def check() -> None:
        assert submitted.is_lost
        assert not submitted.give_way()
        done = threading.Event()
        assert worker.submit(lambda _: done.set()) is not None
        assert done.wait(60)

    in_child(check)
    go.set()
    worker.close()

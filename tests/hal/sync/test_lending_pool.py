"""Lending pools: threads get objects in order of arrival, and none is ever lost."""

import threading
import time
from collections import Counter
from functools import partial

import pytest
from support.daemon.forking import in_child
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.errors import Cancelled, MissedDeadlineTransient, OutOfMemory
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.lending_pool import FairLock, LendingPool


def is_waited_for(pool: LendingPool[str], threads: int) -> bool:
    return pool.waiting == threads


def test_first_come_first_served() -> None:
    pool = LendingPool(["thing"], str, 1)
    thing, order = pool.take(), list[int]()

    def use(number: int) -> None:
        with pool.using():
            order.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(20)]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until(partial(is_waited_for, pool, number + 1))
    pool.give_back(thing)
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_who_comes_again_and_again_does_not_keep_it() -> None:
    """A thread that returns an object and takes it again comes after waiting threads."""
    pool = LendingPool([0], int, 1)
    thing, got = pool.take(), threading.Event()

    def take() -> None:
        pool.take()
        got.set()

    thread = threading.Thread(target=take)
    thread.start()
    wait_until(lambda: pool.waiting)
    pool.give_back(thing)
    with pytest.raises(MissedDeadlineTransient):
        pool.take(time.monotonic() + 0.01)
    assert got.wait(30)
    thread.join()


def test_what_was_given_back_is_not_for_newcomers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread comes after an object was given back, and before a waiting thread has it."""
    pool, order = LendingPool(["thing"], str, 1), list[int]()
    thing, serve = pool.take(), pool._serve

    def use(number: int) -> None:
        with pool.using():
            order.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]

    def serve_later() -> None:
        monkeypatch.setattr(pool, "_serve", lambda: None)
        threads[1].start()
        wait_until(lambda: pool.waiting == 2 or order)
        monkeypatch.setattr(pool, "_serve", serve)
        serve()

    threads[0].start()
    wait_until(partial(is_waited_for, pool, 1))
    monkeypatch.setattr(pool, "_serve", serve_later)
    pool.give_back(thing)
    for thread in threads:
        thread.join()
    assert order == [0, 1]


@pytest.mark.timed
@pytest.mark.parametrize("threads", [8, 16])
def test_threads_share_evenly(threads: int) -> None:
    """With more threads than objects, none gets half as much again as another."""
    pool, stop = LendingPool([0], int, 4), threading.Event()
    counts: Counter[int] = Counter()

    def work(number: int) -> None:
        while not stop.is_set():
            with pool.using():
                counts[number] += 1
                time.sleep(0.0005)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(0.6)
    stop.set()
    for worker in workers:
        worker.join()
    assert len(counts) == threads
    assert max(counts.values()) <= 1.5 * min(counts.values()) + 5


def test_as_many_as_there_may_be_are_made() -> None:
    made = iter(range(1, 10))
    pool = LendingPool([0], lambda: next(made), 3)
    assert sorted(pool.take() for _ in range(3)) == [0, 1, 2]
    with pytest.raises(MissedDeadlineTransient, match="other executions"):
        pool.take(time.monotonic())


def test_one_that_cannot_be_made_may_be_made_later() -> None:
    fails = [True]

    def make() -> int:
        if fails:
            raise OutOfMemory("no room")
        return 1

    pool = LendingPool([0], make, 2)
    assert pool.take() == 0
    with pytest.raises(OutOfMemory):
        pool.take()
    fails.clear()
    assert pool.take() == 1


def test_a_wait_ends_by_cancellation() -> None:
    pool = LendingPool([0], int, 1)
    pool.take()
    cancellation = Cancellation()
    threading.Timer(0.03, cancellation.cancel).start()
    with pytest.raises(Cancelled):
        pool.take(None, cancellation)
    assert pool.waiting == 0
    pool.give_back(0)
    assert pool.take(time.monotonic()) == 0


@sweep("deadline_s", [1e300, float("inf")])
def test_no_deadline_is_too_far_away(deadline_s: float) -> None:
    pool = LendingPool([0], int, 1)
    thing = pool.take()
    threading.Timer(0.03, pool.give_back, [thing]).start()
    assert pool.take(deadline_s) == 0


def test_what_comes_to_one_who_is_interrupted_goes_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = LendingPool(["thing"], str, 1)
    thing = pool.take()

    def interrupted(*_: object) -> None:
        pool.give_back(thing)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pool, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.take()
    assert pool.take(time.monotonic()) == "thing"


@pytest.mark.forks
def test_a_child_of_a_fork_waits_for_nobody_of_its_parent() -> None:
    pool = LendingPool([0], int, 1)
    thing = pool.take()
    thread = threading.Thread(target=pool.take)
    thread.start()
    wait_until(lambda: pool.waiting)

    def check() -> None:
        assert pool.take(time.monotonic() + 5) == 0

    in_child(check)
    pool.give_back(thing)
    thread.join()


def test_a_lock() -> None:
    lock, inside, most = FairLock(), [0], [0]

    def work() -> None:
        for _ in range(100):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert lock.try_take()
    assert not lock.try_take()
    with pytest.raises(MissedDeadlineTransient):
        lock.take(time.monotonic() + 0.01)
    lock.give_back(None)
    lock.take()
    waiting = threading.Thread(target=work)
    waiting.start()
    while not lock.waiting:
        time.sleep(0.001)
    # The lock goes to the thread that waits.
    lock.give_back(None)
    waiting.join()
    assert lock.try_take()


def test_closing_waits_for_the_objects_in_use() -> None:
    pool = LendingPool(["first"], lambda: "another", 2)
    taken = [pool.take(), pool.take()]
    interrupted = []

    def interrupt() -> None:
        interrupted.append(pool)
        if taken:
            pool.give_back(taken.pop())

    assert pool.close(time.monotonic() + 30, interrupt)
    assert len(interrupted) == 2


def test_closing_comes_before_those_who_wait() -> None:
    pool = LendingPool(["thing"], str, 1)
    taken, cancellation, ended = [pool.take()], Cancellation(), list[type[BaseException] | None]()

    def wait() -> None:
        try:
            pool.take(None, cancellation)
            ended.append(None)
        except Cancelled:
            ended.append(Cancelled)

    def interrupt() -> None:
        if taken:
            pool.give_back(taken.pop())

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(partial(is_waited_for, pool, 1))
    assert pool.close(time.monotonic() + 10, interrupt)
    cancellation.cancel()
    thread.join()
    assert ended == [Cancelled]


def test_closing_gives_up_at_its_deadline() -> None:
    pool = LendingPool(["thing"], str, 1)
    pool.take()
    assert not pool.close(time.monotonic() + 0.01, lambda: None)


def test_a_closed_pool_serves_only_the_thread_that_closed_it() -> None:
    pool = LendingPool(["thing"], lambda: "new", 1)
    assert pool.close(time.monotonic() + 30, lambda: None)
    late: list[object] = []

    def take() -> None:
        try:
            late.append(pool.take(time.monotonic() + 0.05))
        except MissedDeadlineTransient as error:
            late.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert isinstance(late[0], MissedDeadlineTransient)
    assert pool.take() == "new"

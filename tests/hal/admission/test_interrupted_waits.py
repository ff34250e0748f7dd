"""Executions that are cancelled or interrupted while they wait leave the queue as it was."""

import contextlib
import threading
import time

import pytest

from neurald.hal.admission.executions import admission_queue
from neurald.hal.admission.executions.admission_queue import AdmissionQueue
from neurald.hal.errors import Cancelled
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation

LOW, HIGH = Priority.LOW, Priority.HIGH


def test_who_is_cancelled_leaves_the_queue() -> None:
    one = AdmissionQueue(1)
    ticket = one.acquire(LOW)
    cancellation = Cancellation()
    threading.Timer(0.03, cancellation.cancel).start()
    with pytest.raises(Cancelled):
        one.acquire(HIGH, cancellation=cancellation)
    assert one.waiting == 0
    one.release(ticket)
    one.release(one.acquire(LOW, time.monotonic()))


def test_a_cancellation_wakes_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling ends the waits by itself: they do not have to poll."""
    monkeypatch.setattr(admission_queue, "_POLL_S", 1e3)
    one = AdmissionQueue(1)
    ticket = one.acquire(LOW)
    cancellations = [Cancellation() for _ in range(20)]
    for number, cancellation in enumerate(cancellations):
        threading.Timer(0.02 + 1e-3 * number, cancellation.cancel).start()
    ended = []

    def wait(cancellation: Cancellation) -> None:
        with pytest.raises(Cancelled):
            one.acquire(HIGH, cancellation=cancellation)
        ended.append(cancellation)

    threads = [threading.Thread(target=wait, args=(each,)) for each in cancellations]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(ended) == 20
    assert all(each.is_cancelled for each in cancellations)
    assert one.waiting == 0
    one.release(ticket)
    # One that is cancelled while it starts is started, or not; either way nothing is left behind.
    for _ in range(50):
        ticket, cancellation = one.acquire(LOW), Cancellation()
        releasing = threading.Thread(target=one.release, args=(ticket,))
        cancelling = threading.Thread(target=cancellation.cancel)
        releasing.start()
        cancelling.start()
        with contextlib.suppress(Cancelled):
            one.release(one.acquire(HIGH, cancellation=cancellation))
        releasing.join()
        cancelling.join()
    one.release(one.acquire(LOW))


@pytest.mark.timeout(60)
def test_a_thread_that_is_interrupted_in_the_queue_may_cancel_who_waits() -> None:
    """A signal handler or a finalizer runs in a thread that may hold the lock of the queue."""
    one, cancellation = AdmissionQueue(1), Cancellation()
    ticket, errors = one.acquire(LOW), []

    def wait() -> None:
        try:
            one.acquire(HIGH, cancellation=cancellation)
        except Cancelled as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not one.waiting or cancellation.is_unused:
        time.sleep(1e-3)
    with one._lock:
        cancellation.cancel()
    waiting.join()
    assert len(errors) == 1
    one.release(ticket)
    assert one.waiting == 0


def test_whoever_is_interrupted_leaves_no_turn_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    one = AdmissionQueue(1)
    ticket = one.acquire(LOW)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(one, "_wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.acquire(LOW)
    assert one.waiting == 0
    one.release(ticket)
    one.release(one.acquire(LOW, time.monotonic()))

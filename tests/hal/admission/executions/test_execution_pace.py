"""Executions that cannot end by their deadline are not begun, so that others can."""

import threading
import time

import pytest

from neurald.hal.admission.executions.admission_queue import AdmissionQueue
from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.errors import Cancelled, MissedDeadlineTransient
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation

#: Duration and limit of the executions below.
RUN_S, LIMIT_S = 0.01, 0.08


def test_an_estimate_is_above_most_executions() -> None:
    pace = ExecutionPace()
    assert pace.expected_s == 0.0
    pace.add(0.01)
    assert pace.expected_s == pytest.approx(0.01)
    for number in range(200):
        pace.add(0.01 + 0.002 * (number % 2))
    assert 0.012 <= pace.expected_s <= 0.015
    for _ in range(200):
        pace.refused()
    assert pace.expected_s < 0.001


def test_the_time_of_those_that_ran_alone() -> None:
    pace = ExecutionPace()
    pace.add(0.04, 3)
    assert pace.alone_s == 0.0
    pace.add(0.02)
    pace.add(0.01)
    pace.add(0.04, 3)
    assert pace.alone_s == pytest.approx(0.01)
    pace.add(0.02)
    assert 0.01 < pace.alone_s < 0.011
    assert 0.01 < pace.mean_s < 0.04


def test_executions_that_end_at_the_last_moment_make_later_ones_begin_earlier() -> None:
    pace = ExecutionPace()
    for _ in range(100):
        pace.add(0.01, spare_s=0.01)
    assert pace.expected_s == pytest.approx(0.01)
    pace.add(0.01, spare_s=-0.001)
    pace.add(0.01, spare_s=0.0001)
    assert pace.expected_s == pytest.approx(0.012)
    for _ in range(100):
        pace.add(0.01, spare_s=-0.001)
    assert pace.expected_s == pytest.approx(0.015)
    for _ in range(200):
        pace.add(0.01, spare_s=0.01)
    assert pace.expected_s == pytest.approx(0.01, rel=0.02)


def test_what_those_before_it_leave_no_time_for_is_refused_at_once() -> None:
    queue, pace = AdmissionQueue(1), ExecutionPace()
    pace.add(10.0)
    running = queue.acquire(Priority.MEDIUM, pace=pace)
    waiting = threading.Thread(
        target=lambda: queue.release(queue.acquire(Priority.MEDIUM, pace=pace)), daemon=True
    )
    waiting.start()
    while not queue.waiting:
        time.sleep(0.001)
    # It would do for what runs and for itself, but another one waits.
    with pytest.raises(MissedDeadlineTransient, match=r"other executions take \d{5} ms more, 2\d{4} ms are"):
        queue.acquire(Priority.MEDIUM, time.monotonic() + 25.0, pace=pace)
    assert queue.waiting == 1
    # What others have begun first does not count for another client.
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        queue.acquire(
            Priority.MEDIUM, time.monotonic() + 25.0, client="other", pace=pace, cancellation=cancellation
        )
    queue.release(running)
    waiting.join()


def test_an_execution_without_enough_time_left_is_not_begun() -> None:
    queue, pace = AdmissionQueue(1), ExecutionPace()
    pace.add(10.0)
    # Alone, it is tried whatever the estimate says.
    first = queue.acquire(Priority.MEDIUM, time.monotonic() + 5.0, pace=pace)
    begun = time.monotonic()
    with pytest.raises(MissedDeadlineTransient, match="takes up to 10000 ms; it was not begun"):
        queue.acquire(Priority.MEDIUM, begun + 5.0, client="other", pace=pace)
    assert time.monotonic() - begun < 2.5
    assert pace.expected_s < 10.0
    queue.release(first)
    queue.release(queue.acquire(Priority.MEDIUM, time.monotonic() + 5.0, pace=pace))
    assert not queue.waiting


def goodput(load: float, seconds: float, pace: ExecutionPace | None) -> tuple[float, float]:
    """Runs executions that a device has no time for.

    Returns:
        The share of those begun that ended in time, and the share of the time in which one ran.

    Args:
        load: how much is asked for, in relation to what the device can do.
        seconds: for how long.
        pace: of the executions; None to begin them however late it is.
    """
    queue = AdmissionQueue(1, guests=0)
    answered: list[bool] = []
    taken_s: list[float] = []

    def ask() -> None:
        end = time.monotonic() + LIMIT_S
        try:
            ticket = queue.acquire(Priority.MEDIUM, end, pace=pace)
        except MissedDeadlineTransient:
            return
        began = time.monotonic()
        time.sleep(RUN_S)
        ended = time.monotonic()
        taken_s.append(ended - began)
        if pace is not None:
            pace.add(ended - began)
        answered.append(ended <= end)
        queue.release(ticket)

    threads = []
    begun = time.monotonic()
    for number in range(int(seconds / RUN_S * load)):
        pause_s = begun + number * RUN_S / load - time.monotonic()
        if pause_s > 0:
            time.sleep(pause_s)
        threads.append(threading.Thread(target=ask))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return sum(answered) / len(answered), sum(taken_s) / (time.monotonic() - begun)


@pytest.mark.timed
def test_at_twice_the_load_most_of_the_goodput_stays() -> None:
    # Both are 0.9 and more on a machine that has nothing else to do.
    in_time, busy = goodput(2.0, 1.5, ExecutionPace())
    assert in_time >= 0.7
    assert busy >= 0.4
    assert goodput(2.0, 1.5, None)[0] < in_time / 2

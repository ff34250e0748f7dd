"""Requests that are on their way are counted, but not for ever."""

import threading

from neurald.service.inference.models.requests.arrivals import _MAX_AGE_S, Arrivals


def test_requests_count_until_they_have_arrived() -> None:
    arrivals = Arrivals()
    first, second = arrivals.begin(), arrivals.begin()
    assert len(arrivals) == 2
    first()
    first()
    assert len(arrivals) == 1
    second()
    assert len(arrivals) == 0


def test_slow_ones_count_no_longer() -> None:
    now_s = 0.0
    arrivals = Arrivals(lambda: now_s)
    slow = arrivals.begin()
    now_s += 0.6 * _MAX_AGE_S
    arrivals.begin()
    assert len(arrivals) == 2
    now_s += 0.6 * _MAX_AGE_S
    assert len(arrivals) == 1
    slow()
    assert len(arrivals) == 1
    now_s += _MAX_AGE_S
    assert len(arrivals) == 0


def test_threads_may_count_at_the_same_time() -> None:
    arrivals = Arrivals()

    def run() -> None:
        for _ in range(1000):
            ended = arrivals.begin()
            assert len(arrivals) <= 4
            ended()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(arrivals) == 0

"""Benchmarks that would wait for ever."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def time_limit(import_benchmark: Callable[..., Any]) -> Any:
    return import_benchmark("time_limit").time_limit


def test_a_wait_that_takes_too_long_is_an_error(time_limit: Any) -> None:
    before = signal.getsignal(signal.SIGALRM)
    reading, writing = os.pipe()
    try:
        with (
            pytest.raises(TimeoutError, match=r"Triton, arrays has not ended within 0\.05 s"),
            time_limit(0.05, "Triton, arrays"),
        ):
            os.read(reading, 1)
    finally:
        os.close(reading)
        os.close(writing)
    assert signal.getsignal(signal.SIGALRM) is before


def test_what_is_in_time_ends_as_it_does(time_limit: Any) -> None:
    with time_limit(60, "a run"):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

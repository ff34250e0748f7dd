"""Cancellation: callbacks of a context, and waits that notice it."""

import threading
import time

import pytest

from neurald.hal.errors import Cancelled
from neurald.hal.sync.cancellation import NEVER_CANCELLED, POLL_S, Cancellation, next_wait_s


def test_a_callback_is_called_only_during_its_context() -> None:
    calls: list[str] = []
    cancellation = Cancellation()
    with cancellation.calling(lambda: calls.append("first")):
        assert not cancellation.is_unused
    assert cancellation.is_unused
    with cancellation.calling(lambda: calls.append("second")):
        cancellation.cancel()
        assert calls == ["second"]
    with cancellation.calling(lambda: calls.append("third")):
        assert calls == ["second", "third"]


def test_a_callback_is_forgotten_after_an_error() -> None:
    cancellation = Cancellation()
    with pytest.raises(ZeroDivisionError), cancellation.calling(lambda: None):
        raise ZeroDivisionError
    assert cancellation.is_unused


def test_waits_are_as_long_as_they_may_be() -> None:
    assert next_wait_s(None, None, "") == threading.TIMEOUT_MAX
    assert next_wait_s(1e300, None, "") == threading.TIMEOUT_MAX
    assert 50 < next_wait_s(time.monotonic() + 100, None, "") <= 100
    assert next_wait_s(time.monotonic() - 1, None, "") == 0
    assert next_wait_s(None, NEVER_CANCELLED, "") == POLL_S
    assert next_wait_s(time.monotonic() - 1, NEVER_CANCELLED, "") == 0


def test_a_cancelled_wait_says_what_it_waited_for() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled, match="while it waited for a test"):
        next_wait_s(None, cancellation, "while it waited for a test")

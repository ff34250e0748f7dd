"""Cancellation: callbacks of a context, and waits that notice it."""

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from support.sweeps import sweep

from neurald.hal.errors import Cancelled
from neurald.hal.sync import cancellation as module
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


def interrupted(cancellation: Cancellation, line: int, run: Callable[[], object]) -> None:
    """Runs a function in which a signal handler cancels before a line of the module is run.

    Args:
        cancellation: what it cancels.
        line: how many lines are run before.
        run: the function.
    """
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            passed += 1
            if passed == line + 1:
                sys.settrace(None)
                cancellation.cancel()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)


@pytest.mark.timeout(30)
@sweep("line", range(16))
def test_a_signal_handler_cancels_at_any_line(line: int) -> None:
    """Also while the thread that it interrupts holds the lock; the callback is called once."""
    calls: list[int] = []
    cancellation = Cancellation()

    def run() -> None:
        cancellation.call_on_cancel(lambda: calls.append(1))
        cancellation.cancel()

    interrupted(cancellation, line, run)
    assert calls == [1]


@pytest.mark.timeout(30)
@sweep("line", range(24))
@sweep("is_cancelled", [False, True])
def test_a_signal_handler_cancels_at_any_line_of_a_wait(line: int, is_cancelled: bool) -> None:
    """Nothing fails, also if it was cancelled before, and no callback is left."""
    cancellation = Cancellation()
    if is_cancelled:
        cancellation.cancel()
    interrupted(cancellation, line, lambda: cancellation.wait(0.0))
    assert not cancellation._callbacks


def stops(cancellation: Cancellation) -> bool:
    """Returns whether native code must stop, by the words at the address that it polls."""
    own, address, value = (ctypes.c_int64 * 3).from_address(cancellation.address)
    other: int = ctypes.c_uint32.from_address(address).value
    return own != 0 or other == value & 0xFFFFFFFF


def test_native_code_finds_out_at_the_address() -> None:
    cancellation = Cancellation()
    assert not stops(cancellation)
    cancellation.cancel()
    assert stops(cancellation)
    assert not stops(NEVER_CANCELLED)


def test_native_code_stops_by_a_word_of_others() -> None:
    cancellation, word = Cancellation(), ctypes.c_uint32(6)
    cancellation.watch(ctypes.addressof(word), (1 << 32) + 7)
    assert not stops(cancellation)
    word.value = 7
    assert stops(cancellation)
    assert not cancellation.is_cancelled
    word.value = 8
    cancellation.cancel()
    assert stops(cancellation)


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


@pytest.mark.timeout(60)
def test_threads_wait_for_a_cancellation() -> None:
    cancellation = Cancellation()
    assert not cancellation.wait(0.0)
    assert not cancellation.wait(-1.0)
    assert cancellation.is_unused
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(cancellation.wait(float("inf")))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    while len(cancellation._callbacks) < 3:
        time.sleep(1e-3)
    cancellation.cancel()
    for thread in threads:
        thread.join()
    assert found == [True] * 3
    assert cancellation.wait(0.0)

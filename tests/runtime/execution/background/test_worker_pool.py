"""Lanes: limited, in order, apart from each other, and usable in a forked child."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.daemon.forking import in_child

from neurald.hal.errors import BadState, ResourceExhaustedTransient
from neurald.runtime.execution.background.worker_pool import MAX_AT_ONCE, Lane


def test_functions_begin_in_their_order_and_no_more_than_the_limit_run_at_once() -> None:
    lane, lock, open_gate = Lane(), threading.Lock(), threading.Event()
    begun: list[int] = []
    running, most = 0, 0

    def one(number: int) -> int:
        nonlocal running, most
        with lock:
            begun.append(number)
            running += 1
            most = max(most, running)
        open_gate.wait(60)
        with lock:
            running -= 1
        return number

    futures = [lane.submit(lambda number=number: one(number)) for number in range(3 * MAX_AT_ONCE)]  # type: ignore[misc]
    assert futures[-1].cancel()
    open_gate.set()
    assert [future.result(60) for future in futures[:-1]] == list(range(3 * MAX_AT_ONCE - 1))
    assert most <= MAX_AT_ONCE
    assert sorted(begun) == list(range(3 * MAX_AT_ONCE - 1))
    assert set(begun[:MAX_AT_ONCE]) == set(range(MAX_AT_ONCE))


def test_a_full_lane_keeps_no_other_lane_waiting() -> None:
    full, other, open_gate = Lane(), Lane(), threading.Event()
    futures = [full.submit(lambda: open_gate.wait(60)) for _ in range(4 * MAX_AT_ONCE)]
    assert other.submit(lambda: 5).result(60) == 5
    open_gate.set()
    assert all(future.result(60) for future in futures)


def test_errors_are_those_of_the_function_and_the_lane_goes_on() -> None:
    lane = Lane()

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        lane.submit(fails).result(60)
    assert lane.submit(lambda: 1).result(60) == 1


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("can't start new thread", ResourceExhaustedTransient, "none can be started: can't start new thread"),
        ("cannot schedule new futures after interpreter shutdown", BadState, "Python ends"),
    ],
)
def test_a_thread_that_cannot_start_is_an_error_of_the_api(
    monkeypatch: pytest.MonkeyPatch, reason: str, kind: type[Exception], words: str
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError(reason)

    lane = Lane()
    with monkeypatch.context() as patched:
        patched.setattr(ThreadPoolExecutor, "submit", refuse)
        with pytest.raises(kind, match=words):
            lane.submit(lambda: 1)
    assert lane.submit(lambda: 2).result(60) == 2


def test_python_that_ends_runs_nothing_more() -> None:
    text = (
        "import atexit\nfrom neurald.runtime.execution.background.worker_pool import Lane\n"
        "from neurald.hal.errors import BadState\nlane = Lane()\n"
        "def late():\n    try:\n        lane.submit(int)\n    except BadState as error:\n        print(error)\n"
        "atexit.register(late)\nprint(lane.submit(int).result())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stderr == ""
    assert ended.stdout.startswith("0\nPython ends")


@pytest.mark.forks
def test_a_forked_child_has_threads_of_its_own() -> None:
    lane, open_gate = Lane(), threading.Event()
    futures = [lane.submit(lambda: open_gate.wait(60)) for _ in range(2 * MAX_AT_ONCE)]
    while not any(future.running() for future in futures):
        time.sleep(1e-3)

    def check() -> None:
        assert lane.submit(lambda: 7).result(60) == 7

    in_child(check, 80)
    open_gate.set()
    assert all(future.result(60) for future in futures)

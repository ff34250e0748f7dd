"""Arrays are copied as NumPy copies them, whatever their size and order."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from neurald.drivers.compiler.memory import array_copies
from neurald.drivers.compiler.memory.array_copies import copy_arrays


@pytest.mark.parametrize("shape", [(), (0,), (3,), (1, 1, 5, 7), (0, 4), (1, 1 << 21), (7, 3, 1 << 17)])
def test_arrays_are_reordered_and_converted(shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    same, turned = np.full(shape, 9, np.float32), np.full(shape[::-1], 9, np.float16)
    copy_arrays([(same, source), (turned, source.T)])
    assert np.array_equal(same, source)
    assert np.array_equal(turned, source.T.astype(np.float16))


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_the_range_become_infinite() -> None:
    target = np.zeros((2, 1 << 21), np.float16)
    copy_arrays([(target, np.full(target.shape, -1e6, np.float32))])
    assert np.isneginf(target).all()


def test_many_small_arrays_are_copied_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(array_copies, "_copy_in_threads", _refused)
    copies = [(np.zeros(1000, np.float32), np.full(1000, number, np.float32)) for number in range(100)]
    array_copies.copy_arrays(copies)
    assert all((target == source).all() for target, source in copies)


def test_many_arrays_that_are_large_together_are_copied_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(array_copies, "_copy_in_threads", _refused)
    with pytest.raises(AssertionError, match="2 threads"):
        array_copies.copy_arrays([(np.zeros(1 << 17), np.zeros(1 << 17)) for _ in range(4)])


def _refused(parts: object, count: int, *others: object) -> None:
    raise AssertionError(f"{count} threads")


def test_nothing_is_copied() -> None:
    copy_arrays([])


def test_parts_are_copied_as_the_caller_wants() -> None:
    def negate(target: np.ndarray, source: np.ndarray) -> None:
        np.negative(source, out=target)

    source = np.arange(3 << 20, dtype=np.float32).reshape(3, -1)
    target = np.zeros_like(source)
    copy_arrays([(target, source)], negate)
    assert np.array_equal(target, -source)


_AFTER_MAIN = """
import sys, threading
import numpy as np
from neurald.drivers.compiler.memory import array_copies

def copy():
    threading.main_thread().join()
    source = np.arange(3 << 20, dtype=np.float32)
    target = np.zeros_like(source)
    array_copies.os.sched_getaffinity = lambda _: {0, 1}
    array_copies.copy_arrays([(target, source)])
    print(np.array_equal(target, source))

threading.Thread(target=copy).start()
"""


def test_arrays_are_copied_after_the_main_thread_has_ended() -> None:
    """In a thread for which the program waits; pools of threads are closed then."""
    done = subprocess.run([sys.executable, "-c", _AFTER_MAIN], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n", done.stderr


def test_arrays_are_copied_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    source = np.arange(3 << 20, dtype=np.float32)
    target = np.zeros_like(source)
    copy_arrays([(target, source)])
    assert np.array_equal(target, source)

"""Counting the threads that want to run."""

import threading
from pathlib import Path

import pytest
from support.waiting import wait_until

from neurald.hal.process.threads import processors
from neurald.hal.process.threads.processors import Processors, running_threads


@pytest.mark.skipif(not Path("/proc/loadavg").exists(), reason="this system has no /proc/loadavg")
def test_this_thread_runs() -> None:
    assert running_threads() >= 1


def test_threads_that_compute_count() -> None:
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: running_threads() >= 2)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("content", [b"", b"0.1 0.2 0.3", b"0.1 0.2 0.3 x/7 8", None])
def test_a_file_that_says_nothing(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "loadavg"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr(processors, "_LOAD_FILE", str(file))
    assert running_threads() == 0
    assert Processors(1).are_crowded(0.0)


def test_a_count_is_valid_for_a_moment() -> None:
    counts = iter([2, 3, 3, 2])
    found = Processors(2, lambda: next(counts))
    assert not found.are_crowded(1.0)
    assert not found.are_crowded(1.0005)
    assert found.are_crowded(1.0011)
    assert found.are_crowded(1.0012)
    assert found.are_crowded(2.0)
    assert not found.are_crowded(3.0)

"""Locks exclude threads and processes, and let the process fork at any time."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.processes import python_path

from neurald.hal.process.files.file_lock import ProcessLock
from neurald.hal.sync.cancellation import Cancellation

_HOLDS = """
import sys
from pathlib import Path
from neurald.hal.process.files.file_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
assert lock.acquire(30)
print("held", flush=True)
input()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def holder(path: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path()},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_one_thread_at_a_time(path: Path) -> None:
    first, second = ProcessLock(path), ProcessLock(path)
    assert first.acquire(0)
    assert not second.acquire(0)
    first.release()
    assert second.acquire(0)
    second.release()
    second.release()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_ends_with_its_process(path: Path, holder: "subprocess.Popen[str]") -> None:
    lock = ProcessLock(path)
    assert not lock.acquire(0.1)
    holder.kill()
    assert lock.acquire(30)
    lock.release()


@pytest.mark.timed
def test_a_wait_can_be_cancelled(path: Path, holder: "subprocess.Popen[str]") -> None:
    cancellation = Cancellation()
    timer = threading.Timer(0.2, cancellation.cancel)
    timer.start()
    started = time.monotonic()
    assert not ProcessLock(path).acquire(60, lambda: cancellation.is_cancelled)
    assert time.monotonic() - started < 30
    timer.join()


def test_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"):
        ProcessLock(path).acquire(0)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.forks
def test_forks_while_threads_lock(path: Path) -> None:
    ends = threading.Event()

    def work() -> None:
        while not ends.is_set():
            lock = ProcessLock(path)
            assert lock.acquire(30)
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    try:
        for _ in range(50):
            child = os.fork()
            if child == 0:
                time.sleep(0.2)
                os._exit(0)
            children.append(child)
        # The children, which still run, hold no lock.
        lock = ProcessLock(path)
        assert lock.acquire(30)
        lock.release()
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 50

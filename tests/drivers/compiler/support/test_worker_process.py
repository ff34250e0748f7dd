"""Requests to a worker process, and its failures."""

import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.drivers.compiler.support.worker_process import WorkerProcess

ECHO = """
import json, struct, sys
about = json.loads(sys.argv[1])
requests, answers = sys.stdin.buffer, sys.stdout.buffer
while length := requests.read(8):
    request = about["before"].encode() + requests.read(struct.unpack("<Q", length)[0])
    answers.write(struct.pack("<Q", len(request)) + request)
    answers.flush()
"""
FAILURES = {
    "ends": "import sys; sys.stdin.buffer.read(8)",
    "says too little": r"import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write(b'\5' + bytes(7) + b'1234')",
    "says nonsense": r"import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write(b'what a nonsense that is')",
    "says nothing": "import time; time.sleep(600)",
}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[WorkerProcess]]:
    """Yields a list for the processes that a test starts, and closes them afterwards."""
    processes: list[WorkerProcess] = []
    yield processes
    for process in processes:
        process.close()
        assert process.has_ended


def script(folder: Path, text: str) -> Path:
    path = folder / "worker.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("flags", [(), ("-S",)])
def test_requests_are_answered(started: list[WorkerProcess], tmp_path: Path, flags: tuple[str, ...]) -> None:
    started.append(WorkerProcess(script(tmp_path, ECHO), {"before": "> "}, flags=flags))
    (process,) = started
    for request in (b"one", b"", os.urandom(1 << 20)):
        assert process.answer(request, limit_s=60) == b"> " + request
    assert not process.has_ended
    assert not process.is_closed


@pytest.mark.parametrize("failure", FAILURES)
def test_invalid_answers_raise(started: list[WorkerProcess], tmp_path: Path, failure: str) -> None:
    started.append(WorkerProcess(script(tmp_path, FAILURES[failure]), {}))
    limit_s = 0.2 if failure == "says nothing" else 60
    with pytest.raises((OSError, ValueError, struct.error)):
        started[0].answer(bytes(100_000), limit_s=limit_s)


@pytest.mark.timed
def test_a_process_that_exceeds_the_time_limit_is_killed(
    started: list[WorkerProcess], tmp_path: Path
) -> None:
    started.append(WorkerProcess(script(tmp_path, FAILURES["says nothing"]), {}))
    begun = time.monotonic()
    with pytest.raises((OSError, ValueError, struct.error)):
        started[0].answer(b"", limit_s=0.1)
    assert time.monotonic() - begun < 60
    started[0].close()
    assert started[0].has_ended


def test_an_unknown_interpreter_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(OSError, match="interpreter is not known"):
        WorkerProcess(script(tmp_path, ECHO), {})

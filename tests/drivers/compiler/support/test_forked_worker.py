"""Requests to a forked worker, and its failures."""

import subprocess
import sys

import pytest
from support.daemon.processes import bare_environment

_PROGRAM = """
import os, struct, sys, time
from neurald.drivers.compiler.support.forked_worker import ForkedWorker

def answer(request):
    if request == b"fail":
        raise ValueError("this request is refused")
    if request == b"sleep":
        time.sleep(600)
    return request[::-1]

workers = [ForkedWorker(answer) for _ in range(2)]
what = sys.argv[1]
if what == "answers":
    for size in (0, 1, 100_000):
        for worker in workers:
            assert worker.answer(bytes(range(256)) * size) == bytes(range(255, -1, -1)) * size
elif what == "kill":
    workers[0].kill()
    workers[0].kill()
else:
    for _ in range(2):
        try:
            workers[0].answer(what.encode())
        except (OSError, ValueError, struct.error):
            pass
        else:
            raise AssertionError("there was an answer")
assert workers[1].answer(b"ab") == b"ba"
for worker in workers:
    worker.close()
    worker.close()
    assert worker.is_closed
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
else:
    raise AssertionError("a worker is left")
assert len(os.listdir("/proc/self/fd")) == 4, os.listdir("/proc/self/fd")
"""


@pytest.mark.parametrize("what", ["answers", "kill", "fail"])
def test_a_worker_answers_or_ends(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, what],
        env={**bare_environment(), "PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr

"""The process that forks the compiling processes, and what its children send."""

import resource
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.process.descriptors import no_descriptors

from neurald.hal.compiling import server
from neurald.hal.compiling.job import CompileProgress, CompileReply, receive_message, send_message
from neurald.hal.errors import ResourceExhaustedTransient

#: Starts a job in a process in which the system call of the first argument fails.
_PROGRAM = """
import os
import socket
import sys

from neurald.hal.compiling import server
from neurald.hal.compiling.job import CompileReply, receive_message
from neurald.hal.rpc.transport.packet import rights


def refused(*arguments):
    raise OSError(24, "Too many open files")


setattr(os, sys.argv[1], refused)
own, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
own.sendmsg([b"j"], rights([theirs.fileno()]))
theirs.close()
before = set(os.listdir("/proc/self/fd"))
assert server._ForkServer(control, lambda job, pools: None)._take()
print(receive_message(ours, CompileReply))
assert set(os.listdir("/proc/self/fd")) == before
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child is left")
"""


@pytest.mark.parametrize("name", ["pidfd_open", "fork", "memfd_create"])
def test_a_job_that_cannot_be_started_is_reported(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, name], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Too many open files" in ran.stdout, ran.stderr
    assert ran.stdout.endswith("no child is left\n"), ran.stderr


def test_memory_is_limited_where_its_size_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dict(server._memory_limits(1 << 20))
    assert limits[resource.RLIMIT_AS] > limits[resource.RLIMIT_DATA] > 1 << 20

    def missing(path: Path, encoding: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "read_text", missing)
    assert server._memory_limits(1 << 20) == []


def test_a_result_that_finds_no_descriptor_is_not_taken_for_a_wrong_packet() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        send_message(theirs, CompileProgress(3), [])
        with no_descriptors(), pytest.raises(ResourceExhaustedTransient, match="its limit of descriptors"):
            receive_message(ours, CompileProgress)


def test_progress_is_sent_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message wakes the process that waits, so a hundred short steps must not send a hundred."""
    now_s = 100.0
    monkeypatch.setattr("neurald.hal.compiling.server.time.monotonic", lambda: now_s)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        percent = server._Percent(theirs)
        for step in range(50):
            percent.reached(step / 100)
        assert not select.select([ours], [], [], 0)[0]
        now_s += 10
        for step in range(50, 100):
            percent.reached(step / 100)
        received = receive_message(ours, CompileReply)
        assert isinstance(received, CompileProgress)
        assert received.percent == 50
        assert not select.select([ours], [], [], 0)[0]

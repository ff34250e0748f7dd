"""Orphans of marked processes are ended, wherever they have moved to, and no others."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.daemon.processes import python_path

#: Starts a child that leaves a process in another session behind, and prints the id of that.
_LEAVES = """
import os, sys, time
reading, writing = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(writing, str(os.getpid()).encode())
        while True:
            time.sleep(1)
    os._exit(0)
print(os.read(reading, 20).decode(), flush=True)
"""
_BEGINNING = f"""
import contextlib, os, signal, subprocess, sys, time
from neurald.hal.process.orphans import ORPHANS

def left(**environment):
    command = [sys.executable, "-c", {_LEAVES!r}]
    with subprocess.Popen(command, env={{**os.environ, **environment}}, stdout=subprocess.PIPE) as process:
        ORPHANS.started(process.pid)
        pid = int(process.stdout.readline())
        process.wait()
        ORPHANS.ended(process.pid)
    until(lambda: parent(pid) == os.getpid())
    return pid

def parent(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{{pid}}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    return 0

def until(holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)

def is_gone(pid):
    ORPHANS.end()
    return not os.path.exists(f"/proc/{{pid}}")

before = subprocess.Popen(["sleep", "60"], env={{**os.environ, "MARK": "1"}})
ORPHANS.inherit("MARK=1")
"""


def play(script: str) -> None:
    """Plays a script in a process of its own, which inherits orphans."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGINNING + textwrap.dedent(script) + "\nbefore.kill()"],
        env={**os.environ, "PYTHONPATH": python_path()},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0


def test_a_marked_orphan_is_ended() -> None:
    play("""
        pid = left(MARK="1")
        assert ORPHANS.end()
        until(lambda: is_gone(pid))
        assert not ORPHANS.end()
    """)


def test_other_orphans_and_own_children_are_left_alone() -> None:
    play("""
        pid = left(MARK="2")
        own = subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": "1"})
        ORPHANS.started(own.pid)
        assert not ORPHANS.end()
        assert parent(pid) == os.getpid()
        os.kill(pid, signal.SIGKILL)  # nobody else waits for it
        until(lambda: is_gone(pid))
        for each in (own, before):
            assert each.poll() is None
            each.kill()
            until(lambda: open(f"/proc/{each.pid}/stat").read().rpartition(")")[2].split()[0] == "Z")
            ORPHANS.end()
            assert each.wait() == -signal.SIGKILL
    """)


def test_a_process_that_starts_now_is_no_orphan() -> None:
    play("""
        with ORPHANS.starting():
            own = subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": "1"})
            assert ORPHANS.is_starting
            assert not ORPHANS.end()
            ORPHANS.started(own.pid)
        assert not ORPHANS.is_starting
        assert not ORPHANS.end()
        assert own.poll() is None
        own.kill()
    """)


def test_restrictions_show_what_has_cleared_its_environment() -> None:
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("this process itself may get no new privileges")
    play("""
        import ctypes
        if not os.fork():
            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no new privileges
            if not os.fork():
                os.setsid()
                os.execve("/bin/sleep", ["sleep", "60"], {})
            os._exit(0)
        os.wait()
        until(ORPHANS.end)
        until(lambda: not ORPHANS.end())
    """)


def test_nothing_is_ended_before_it_inherits() -> None:
    script = "from neurald.hal.process.orphans import ORPHANS; assert not ORPHANS.end()"
    subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": python_path()}, check=True
    )

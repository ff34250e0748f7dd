"""Driver daemons as separate processes."""

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.process.ports import free_port

_TESTS = Path(__file__).parents[2]
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 40.0

_PROGRAM = """
import logging, sys
from neurald.hal.accounting.limits import parse_limits
from neurald.service.daemon.daemon import Daemon
from neurald.service.daemon.running import run_daemon
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
driver, listen, drain_s, *limits = sys.argv[1:]
tell = lambda address: print(address, flush=True)
limits = parse_limits(limits)
daemon = Daemon(driver, listen or None, drain_s=float(drain_s), limits=limits)
sys.exit(run_daemon(daemon, ready=tell))
"""


#: Variables that hide the daemons of this user and machine.
_DIRECTORIES = ("XDG_RUNTIME_DIR", "NEURALD_MACHINE_DIRECTORY")


def bare_environment() -> dict[str, str]:
    """Returns the least environment of a process that uses the library.

    It has no cache, and starts no drivers on demand.
    """
    return {
        "PYTHONPATH": python_path(),
        "NEURALD_CACHE_DIR": "",
        "NEURALD_AUTOSTART": "0",
        "PATH": "/usr/bin:/bin",
        **{name: os.environ[name] for name in _DIRECTORIES if name in os.environ},
    }


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], *, timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Runs a `neurald` command in an environment; returns its status and output."""
    return subprocess.run(
        [sys.executable, "-m", "neurald", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def python_path() -> str:
    """Returns the module path of a child process: tests, sources, and this process's own.

    Without the sources, it could import another copy of them that is installed.
    """
    own = str(_TESTS), str(_TESTS.parent / "src")
    return os.pathsep.join((*own, *filter(None, (os.environ.get("PYTHONPATH"),))))


@contextlib.contextmanager
def running_daemon(driver: str = "cpu", listen: str | None = None) -> Iterator[str]:
    """Runs a daemon and yields its address, by default a UNIX socket in a new directory."""
    with daemon_process(driver, listen) as (_, address):
        yield address


@contextlib.contextmanager
def daemon_process(
    driver: str = "cpu",
    listen: str | None = None,
    *,
    drain_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
    limits: Sequence[str] = (),
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Runs a daemon and yields its process and address.

    Args:
        driver: name of a driver, or `module:factory`; modules under `tests` can be imported.
        listen: an address; "" lets the daemon choose, None is a UNIX socket in a new directory, and
            127.0.0.1:0 is a port that the kernel gives to nobody meanwhile.
        drain_s: time limit for running calls when the daemon is stopped, in seconds.
        environment: variables in addition to those of this process.
        limits: in the form of `neurald driver --limit`.
    """
    with tempfile.TemporaryDirectory(prefix="neurald") as directory:
        if listen is None:
            listen = f"unix://{directory}/{driver.rpartition(':')[0].rpartition('.')[2] or driver}.sock"
        elif listen == "127.0.0.1:0":
            # Tests start other daemons at its address, which must stay free between them.
            listen = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, driver, listen, str(drain_s), *limits],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": python_path(),
                "OPENBLAS_NUM_THREADS": "1",
                **(environment or {}),
            },
        )
        assert process.stdout is not None
        try:
            readable, _, _ = select.select([process.stdout], [], [], _START_TIMEOUT_S)
            address = process.stdout.readline().strip() if readable else ""
            if not address:
                raise RuntimeError(f"the daemon of {driver} did not start; exit status {process.poll()}")
            yield process, address
        finally:
            stop_process(process)
            process.stdout.close()


def stop_process(process: "subprocess.Popen[str]") -> int:
    """Stops a process that the tests started, and returns its exit status."""
    process.terminate()
    try:
        return process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def freeze_process(process: "subprocess.Popen[Any]") -> None:
    """Stops all threads of a process before this call returns, until SIGCONT."""
    process.send_signal(signal.SIGSTOP)
    # Its threads stop once one of them has received the signal.
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def is_alive(pid: int) -> bool:
    """Returns whether a process runs.

    One that has ended, and that nobody has waited for, does not.
    """
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in ("Z", "X")
    return False


def held_streams(pid: int) -> list[str]:
    """Returns which of its files a process shares with the standard streams of this one.

    A reader of a pipe of a program waits for every process that holds it.
    """
    ours = {(each.st_dev, each.st_ino) for each in map(os.fstat, (0, 1, 2)) if not stat.S_ISCHR(each.st_mode)}
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        # The process may close it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            status = link.stat()
            if (status.st_dev, status.st_ino) in ours:
                found.append(str(link.readlink()))
    return found

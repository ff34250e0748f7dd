"""A process that forks daemons: each has its own session, and only the server's code."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from support.daemon.processes import bare_environment, is_alive, run_command
from support.waiting import wait_until

from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.service.daemon.forking import FORKS, REQUEST

_LONGEST = 4096
_WAIT_S = 60.0
_STOPS = 20


class _Server:
    """The server for a driver. It and the processes write what they import to standard error."""

    def __init__(self, address: str, driver: str) -> None:
        self.connection, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(_WAIT_S)
        command = [sys.executable, "-m", "neurald", "driver", driver, "--listen", address]
        command += ["--await-start", "--take-over", "--sandbox", "off", "--fork"]
        environment = {**bare_environment(), "PYTHONPROFILEIMPORTTIME": "1"}
        with its:
            self.process = subprocess.Popen(command, env=environment, stdin=its.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        assert self.process.wait(_WAIT_S) == 0

    def request(self, *descriptors: int) -> bytes:
        """Asks for a process with these descriptors; returns the answer."""
        socket.send_fds(self.connection, [REQUEST], descriptors)
        return self.connection.recv(_LONGEST)


class _Forked:
    """A process that was forked. Ends at the end of the block."""

    def __init__(self, server: _Server) -> None:
        with ExitStack() as its:
            its_stdin, stdin = os.pipe()
            stderr, its_stderr = os.pipe()
            breadcrumbs = create_memory()
            for descriptor in (its_stdin, its_stderr, breadcrumbs):
                its.callback(os.close, descriptor)
            self.stdin = os.fdopen(stdin, "wb", buffering=0)
            self.stderr = os.fdopen(stderr, "rb")
            self.pid = int(server.request(its_stdin, its_stderr, breadcrumbs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()
        self.stderr.close()
        if is_alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(self.pid))


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"unix://{tmp_path_factory.mktemp('f')}/d.sock"


@pytest.fixture
def server(address: str) -> Iterator[_Server]:
    with _Server(address, "sample-all") as started:
        assert started.connection.recv(_LONGEST) == FORKS
        yield started


def test_a_process_serves_once_it_is_told(server: _Server, address: str) -> None:
    with _Forked(server) as forked:
        assert os.getsid(forked.pid) == forked.pid
        path = Address.parse(address).path
        assert path is not None
        assert not path.exists()
        forked.stdin.write(b"begin\n")
        # It has imported nothing since, which the first lines would tell.
        assert forked.stderr.readline().startswith(b"serving sample-all on unix://")
        device = connect(address)
        assert device.name.startswith("sample-all")
        device.close()


def test_one_that_is_not_needed_ends(server: _Server) -> None:
    with _Forked(server) as forked:
        forked.stdin.close()
        wait_until(lambda: not is_alive(forked.pid))


def test_processes_go_on_without_the_server(address: str) -> None:
    with ExitStack() as both:
        with _Server(address, "sample-all") as server:
            assert server.connection.recv(_LONGEST) == FORKS
            forked = [both.enter_context(_Forked(server)) for _ in range(2)]
            assert len({each.pid for each in forked}) == 2
        assert all(is_alive(each.pid) for each in forked)


def test_a_process_has_no_descriptor_of_the_server(server: _Server) -> None:
    with _Forked(server) as forked:
        # It opens and closes files and pipes, so that it may be stopped where it has more of them.
        for _ in range(_STOPS):
            links = _links_of_stopped(forked.pid)
            if _pipes(links) == 2:
                break
            os.kill(forked.pid, signal.SIGCONT)
            time.sleep(0.05)
        assert not [link for link in links.values() if link.startswith("socket:")]
        assert _pipes(links) == 2
        # Programs that code of the driver executes do not get its breadcrumbs.
        (breadcrumbs,) = [number for number, link in links.items() if "breadcrumbs" in link]
        flags = (
            (Path(f"/proc/{forked.pid}") / "fdinfo" / breadcrumbs).read_text().split("flags:")[1].split()[0]
        )
        assert int(flags, 8) & os.O_CLOEXEC


def _links_of_stopped(pid: int) -> dict[str, str]:
    """Stops a process; returns what its descriptors refer to."""
    os.kill(pid, signal.SIGSTOP)
    process = Path(f"/proc/{pid}")
    wait_until(lambda: (process / "stat").read_text().rpartition(")")[2].split()[0] == "T")
    return {link.name: str(link.readlink()) for link in (process / "fd").iterdir()}


def _pipes(links: dict[str, str]) -> int:
    return sum(link.startswith("pipe:") for link in links.values())


def test_nothing_of_the_server_runs_in_a_process_that_cannot_tell_its_id() -> None:
    program = """
import os
from neurald.service.daemon import forking

def fail(*_):
    raise BrokenPipeError("the server has ended")

os.write, write = fail, os.write
said = forking._fork([os.dup(0), os.dup(2), os.dup(0)])
write(1, said + b"\\n")
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
    )
    assert (found.stdout, found.stderr) == ("it ended at once\n", "")


@pytest.mark.parametrize("request_", [b"other", b"fork"])
def test_a_request_that_is_none_ends_the_server(server: _Server, request_: bytes) -> None:
    server.connection.send(request_)  # without descriptors
    assert server.process.wait(_WAIT_S) == 0


def test_code_of_other_drivers_is_not_loaded_by_the_server(address: str) -> None:
    with _Server(address, "no_such_module:create") as server:
        assert server.connection.recv(_LONGEST) == FORKS
        with _Forked(server) as forked:
            forked.stdin.write(b"begin\n")
            assert b"no_such_module" in forked.stderr.read()


def test_operators_are_told_who_sends_requests(address: str) -> None:
    command = ["driver", "sample-all", "--listen", address, "--fork"]
    found = run_command(command, bare_environment(), timeout_s=60)
    assert found.returncode == 1
    assert "--fork is for the service manager" in found.stderr

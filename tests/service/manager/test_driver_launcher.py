"""Processes of drivers are forked from a server, or execute the program if that is not possible."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from support.daemon.managed import Managed
from support.daemon.processes import is_alive
from support.waiting import wait_until

from neurald.hal.admission.sharing import NOBODY_ELSE
from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import connect
from neurald.service.manager.configuration import DriverSettings
from neurald.service.manager.driver_launcher import DriverLauncher
from neurald.service.manager.fork_server import ForkServer
from neurald.service.manager.state import DriverState
from neurald.service.sandbox.mode import SandboxMode


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("l")


def _arguments(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _served(managed: Managed, other_than: int = 0) -> int:
    """Waits until another process than the given one serves; returns its id."""
    found = 0

    def is_other() -> bool:
        nonlocal found
        try:
            connect(str(managed.address)).close()
        except Error:
            return False
        found = managed.wait_for(DriverState.READY).process or 0
        return found not in (0, other_than)

    wait_until(is_other)
    return found


def _servers(managed: Managed) -> list[int]:
    """Returns the fork servers of a manager: its children with other names for the same program."""
    children = Path(f"/proc/{managed.process.pid}/task/{managed.process.pid}/children").read_text()
    return [
        pid
        for pid in map(int, children.split())
        if b"--fork" in _arguments(pid) and str(Path(f"/proc/{pid}/fd/0").readlink()).startswith("socket:")
    ]


def test_processes_of_a_driver_are_forked(folder: Path) -> None:
    with Managed(folder, settings={"spare": True}) as managed:
        process = _served(managed)
        # A process that is just being forked still looks like its server.
        wait_until(lambda: managed.status().spare is not None and len(_servers(managed)) == 1)
        (server,) = _servers(managed)
        assert process != server
        assert b"--fork" in _arguments(process)
        assert _parent(process) == managed.process.pid
        os.kill(process, signal.SIGKILL)
        assert b"--fork" in _arguments(_served(managed, other_than=process))
        wait_until(lambda: _servers(managed) == [server])
        managed.command("restart", "adder")
        wait_until(lambda: not is_alive(server))
        wait_until(lambda: len(_servers(managed)) == 1)


def test_without_spare_processes_none_is_forked(folder: Path) -> None:
    with Managed(folder) as managed:
        assert b"--fork" not in _arguments(_served(managed))
        assert not _servers(managed)


def test_a_server_that_is_killed_is_replaced_when_it_is_needed(folder: Path) -> None:
    with Managed(folder, settings={"spare": True}) as managed:
        process = _served(managed)
        for server in _servers(managed):
            os.kill(server, signal.SIGKILL)
        wait_until(lambda: not _servers(managed))
        assert is_alive(process)
        os.kill(process, signal.SIGKILL)
        successor = _served(managed, other_than=process)
        assert b"--fork" in _arguments(successor)


def test_the_program_is_executed_if_it_cannot_be_forked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> int:
        raise OSError("there is no memory")

    monkeypatch.setattr(ForkServer, "fork", fail)
    ended = []

    async def test() -> None:
        settings = DriverSettings(driver="sample-all", sandbox=SandboxMode.OFF, drain_s=1.0)
        launcher = DriverLauncher(
            "sample", settings, f"unix://{folder}/d.sock", NOBODY_ELSE, folder / "n", lambda: ended.append(1)
        )
        its_stdin, stdin = os.pipe()
        errors, its_errors = os.pipe()
        breadcrumbs = create_memory()
        process = await launcher.launch(its_stdin, its_errors, breadcrumbs)
        assert "there is no memory" in caplog.text
        for descriptor in (its_stdin, its_errors, breadcrumbs):
            os.close(descriptor)
        os.write(stdin, b"begin\n")
        with os.fdopen(errors, "rb") as lines:
            assert b"serving sample-all on " in lines.readline()
        assert os.getsid(process) == process
        os.close(stdin)
        os.kill(process, signal.SIGTERM)
        assert os.waitpid(process, 0)[1] == 0
        launcher.drop()
        while not launcher.is_gone:
            await asyncio.sleep(0.01)

    asyncio.run(test())
    assert ended

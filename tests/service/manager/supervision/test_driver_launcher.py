"""Processes of drivers are forked from a server, or execute the program if that is not possible."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest
from support.daemon.managed import Managed
from support.daemon.processes import is_alive
from support.waiting import wait_until

from neurald.hal.admission.access.sharing import NOBODY_ELSE
from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import connect
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.state import DriverState
from neurald.service.manager.supervision.driver_launcher import DriverLauncher
from neurald.service.manager.supervision.fork_server import ForkServer
from neurald.service.sandbox.mode import SandboxMode


def _arguments(pid: int) -> list[bytes]:
    """Returns the arguments of a process; none if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


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
        # If the server ended while it forks the spare process, that would be executed instead.
        wait_until(lambda: managed.status().spare is not None and len(_servers(managed)) == 1)
        spare = managed.status().spare
        os.kill(_servers(managed)[0], signal.SIGKILL)
        wait_until(lambda: not _servers(managed))
        assert is_alive(process)
        os.kill(process, signal.SIGKILL)
        assert _served(managed, other_than=process) == spare
        wait_until(lambda: managed.status().spare not in (None, spare))
        successor = managed.status().spare
        assert successor is not None
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


def _launcher(folder: Path, driver: str = "sample-all") -> DriverLauncher:
    """Returns one that forks no processes."""
    settings = DriverSettings(driver=driver, sandbox=SandboxMode.OFF, spare=False, drain_s=1.0)
    return DriverLauncher(
        "sample", settings, f"unix://{folder}/d.sock", NOBODY_ELSE, folder / "n", lambda: None
    )


def test_an_executed_program_gets_no_descriptors_of_the_manager(folder: Path) -> None:
    async def test() -> None:
        its_stdin, stdin = os.pipe()
        errors, its_errors = os.pipe()
        breadcrumbs = create_memory()
        lock = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT)
        os.set_inheritable(lock, True)
        process = await _launcher(folder).launch(its_stdin, its_errors, breadcrumbs)
        # It opens and closes files.
        os.kill(process, signal.SIGSTOP)
        os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOWAIT)
        links = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
        os.close(stdin)
        for descriptor in (its_stdin, errors, its_errors, breadcrumbs, lock):
            os.close(descriptor)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        assert any("breadcrumbs" in link for link in links)
        assert str(folder / "lock") not in links

    asyncio.run(test())


def test_processes_from_before_an_installation_are_not_current(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(here), "/nonexistent"])
    monkeypatch.chdir(here)
    monkeypatch.setattr(DriverLauncher, "_execute", lambda *_: 1)

    async def test() -> None:
        launcher = _launcher(folder)
        assert launcher.is_current
        await launcher.launch(0, 2, 3)
        os.utime(here, (1, 1))
        assert launcher.is_current
        os.utime(tmp_path, (1, 1))
        # No server runs that would have to be replaced, but perhaps a spare process.
        assert not launcher.is_current
        await launcher.launch(0, 2, 3)
        assert launcher.is_current
        os.utime(tmp_path, (2, 2))
        launcher.drop()
        assert launcher.is_current

    asyncio.run(test())


def test_processes_are_started_although_the_current_folder_was_removed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    monkeypatch.setattr(DriverLauncher, "_execute", lambda *_: 1)

    async def test() -> None:
        launcher = _launcher(folder)
        await launcher.launch(0, 2, 3)
        assert launcher.is_current

    asyncio.run(test())

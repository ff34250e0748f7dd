"""Another service manager: one that an application has started gives way, and others stay."""

import socket
from pathlib import Path

import pytest
from support.daemon.managed import NOTICED_S, Managed
from support.models.addition import one_plus
from support.waiting import wait_until

from neurald.hal.errors import BadState
from neurald.service.manager.takeover import end_other_manager


def test_the_manager_of_an_application_gives_way(folder: Path) -> None:
    with Managed(folder, "--exit-when-idle", "600") as managed:
        assert one_plus(managed.connect(), 1) == 2
        assert managed.manager_status().is_of_application
        started = managed.process
        managed.process = managed.start()
        assert started.wait(NOTICED_S) == 0, managed.log
        wait_until(lambda: managed.log.count("supervising") == 2)
        assert f"stopped the service manager that ran in {managed.directory}" in managed.log
        found = managed.manager_status()
        assert (found.process, found.is_of_application) == (managed.process.pid, False)
        assert one_plus(managed.connect(), 1) == 2


def test_an_application_does_not_replace_a_manager(managed: Managed) -> None:
    second = managed.start("--exit-when-idle", "600")
    assert second.wait(NOTICED_S) == 1
    assert managed.process.poll() is None


def test_another_manager_is_stopped(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Managed(tmp_path_factory.mktemp("m")) as managed:
        told: list[str] = []
        end_other_manager(managed.directory, told.append)
        assert managed.process.wait(60) == 0
        assert told == [
            f"stopped the service manager that ran in {managed.directory} (process {managed.process.pid})"
        ]


def test_without_another_manager_nothing_happens(tmp_path: Path) -> None:
    told: list[str] = []
    end_other_manager(tmp_path, told.append)
    with socket.socket(socket.AF_UNIX) as listener:
        # Nobody listens any more.
        listener.bind(str(tmp_path / "manager.sock"))
    end_other_manager(tmp_path, told.append)
    assert not told


def test_a_manager_that_takes_no_connections_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "manager.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen(0)
        client.connect(path)
        with pytest.raises(BadState, match="does not answer"):
            end_other_manager(tmp_path, lambda _: None)

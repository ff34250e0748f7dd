"""Conditions for systemd to run the manager: a Python for its user, and no other manager."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.managed import Managed

from neurald.hal.errors import BadState
from neurald.service.installation.precondition import end_other_manager, require_public


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everyone can enter."""
    folder = Path(tempfile.mkdtemp(prefix="neurald-p-"))
    folder.chmod(0o755)
    (folder / "bin").mkdir(mode=0o755)
    (folder / "bin").chmod(0o755)
    (folder / "bin" / "python").write_text("")
    (folder / "bin" / "python").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_everyone_can_read_is_usable(public: Path) -> None:
    require_public([public / "bin" / "python", public], "neurald")


@pytest.mark.parametrize(("name", "mode"), [("bin/python", 0o700), ("bin", 0o750), (".", 0o700)])
def test_what_is_in_the_way_is_told(public: Path, name: str, mode: int) -> None:
    (public / name).chmod(mode)
    with pytest.raises(BadState, match=rf"{public / name} has the mode {mode:04o}\..*in /opt"):
        require_public([public / "bin" / "python"], "neurald")
    (public / name).chmod(0o700)


def test_a_python_that_is_gone_is_told(public: Path) -> None:
    with pytest.raises(BadState, match="cannot be examined"):
        require_public([public / "none"], "neurald")


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

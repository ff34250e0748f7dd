"""Installing the service: which files change, and which commands run."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.configuration_file import CONFIG_VARIABLE
from neurald.service.cli.manager.install_service import install_service, uninstall_service
from neurald.service.installation import installer
from neurald.service.installation.installer import install, uninstall, unit_files, unit_paths
from neurald.service.manager.settings.configuration import Flags, load_configuration


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps the user's own files out of it."""
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(installer, "_RUNNING", tmp_path / "no systemd")
    return tmp_path


class Systemd:
    """Plays systemd: notes the commands, and refuses those that contain a word."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, refused: str = "") -> None:
        self.commands: list[str] = []
        self._refused = refused
        (folder / "systemd").mkdir()
        monkeypatch.setattr(installer, "_RUNNING", folder / "systemd")
        monkeypatch.setattr(subprocess, "run", self._run)

    def _run(self, command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        self.commands.append(" ".join(command))
        is_refused = bool(self._refused) and self._refused in command
        return subprocess.CompletedProcess(command, int(is_refused), "", "Access denied\n")


def test_a_file_that_cannot_be_written_leaves_no_part_of_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(home, monkeypatch)

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadState, match="cannot be written: No space left"):
        install_service()
    assert list((home / "config" / "systemd" / "user").iterdir()) == []
    assert not any("enable" in command for command in systemd.commands)


def test_the_users_service_is_written_enabled_and_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(home, monkeypatch)
    install_service()
    folder = home / "config" / "systemd" / "user"
    assert sorted(path.name for path in folder.iterdir()) == ["neurald.service", "neurald.socket"]
    assert (folder / "neurald.service").stat().st_mode & 0o777 == 0o644
    last = [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now neurald.socket",
        # It is started once, to tell what prevents it.
        "systemctl --user start neurald.service",
        "systemctl --user stop neurald.service",
    ]
    assert systemd.commands == last
    systemd.commands.clear()
    # A second time nothing changes, and so nothing is stopped.
    install_service()
    assert systemd.commands == last[:2]
    systemd.commands.clear()
    (home / "config" / "neurald").mkdir()
    (home / "config" / "neurald" / "neurald.toml").write_text("[drivers.cpu]\n")
    install_service()
    assert "cpu.sock" in (folder / "neurald.socket").read_text()
    assert systemd.commands == ["systemctl --user stop neurald.socket neurald.service", *last]
    systemd.commands.clear()
    uninstall_service()
    assert list(folder.iterdir()) == []
    assert systemd.commands == [
        "systemctl --user disable --now neurald.socket neurald.service",
        "systemctl --user daemon-reload",
    ]


def test_files_below_another_root(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = home / "image"
    install_service(system=True, root=root)
    written = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert written == [
        "etc/systemd/system/neurald.service",
        "etc/systemd/system/neurald.socket",
        "etc/sysusers.d/neurald.conf",
        "etc/tmpfiles.d/neurald.conf",
    ]
    assert "systemctl" not in capsys.readouterr().out
    uninstall_service(system=True, root=root)
    assert not [path for path in root.rglob("*") if path.is_file()]
    uninstall_service(system=True, root=root)
    assert "there is nothing to remove" in capsys.readouterr().out


def test_printing_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_service(print_only=True, system=True)
    out = capsys.readouterr().out
    assert "# /etc/systemd/system/neurald.service\n" in out
    assert "\n[Service]\n" in out
    assert not (home / "config").exists()


def test_without_systemd_the_commands_are_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_service()
    out = capsys.readouterr().out
    assert "systemd does not run here" in out
    assert "  systemctl --user enable --now neurald.socket\n" in out


def test_files_of_others_stay(home: Path) -> None:
    path = home / "config" / "systemd" / "user" / "neurald.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\n")
    for command in (install_service, uninstall_service):
        with pytest.raises(BadState, match="was not written by `neurald install-service`"):
            command()
    assert path.read_text() == "[Service]\n"


def test_nothing_is_written_beside_files_of_others(home: Path) -> None:
    folder = home / "config" / "systemd" / "user"
    folder.mkdir(parents=True)
    (folder / "neurald.service").write_text("[Service]\n")
    with pytest.raises(BadState, match=r"neurald\.service exists and was not written"):
        install_service()
    assert [path.name for path in folder.iterdir()] == ["neurald.service"]


def test_a_service_without_drivers(home: Path) -> None:
    file = home / "neurald.toml"
    file.write_text("[drivers]\n")
    configuration = load_configuration(file)
    assert not configuration.drivers
    socket, service = unit_files(configuration, is_system=False, file=file).values()
    assert socket.count("ListenStream=") == 1
    assert "TimeoutStopSec=" in service


def test_the_machines_service_needs_a_python_that_everyone_can_run(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(home, monkeypatch)
    (home / "private").mkdir(mode=0o700)
    (home / "private" / "python").write_text("")
    monkeypatch.setattr(sys, "executable", str(home / "private" / "python"))
    files = unit_files(load_configuration(None, Flags(system=True)), is_system=True, file=None)
    with pytest.raises(BadState, match=r"the user neurald, as whom the service runs, may not use"):
        install(files, is_system=True, root=None, tell=print)
    assert not systemd.commands


def test_failures_are_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = unit_files(load_configuration(), is_system=False, file=None)
    (home / "file").write_text("")
    with pytest.raises(BadState, match="Not a directory"):
        install(files, is_system=False, root=home / "file", tell=print)
    Systemd(home, monkeypatch, "enable")
    with pytest.raises(BadState, match=r"enable --now neurald\.socket failed: Access denied"):
        install(files, is_system=False, root=None, tell=print)


def test_systemd_that_is_not_installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "running").mkdir()
    monkeypatch.setattr(installer, "_RUNNING", home / "running")
    monkeypatch.setenv("PATH", str(home))
    files = unit_files(load_configuration(), is_system=False, file=None)
    with pytest.raises(BadState, match="systemctl cannot be run"):
        install(files, is_system=False, root=None, tell=print)
    with pytest.raises(BadState, match="systemctl cannot be run"):
        uninstall(unit_paths(is_system=False), is_system=False, root=None, tell=print)


def test_the_command_is_that_of_this_installation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "my file.toml"
    file.write_text("[drivers.cpu]\n")
    monkeypatch.setattr(sys, "executable", str(home / "python"))

    def command() -> str:
        files = unit_files(load_configuration(file, Flags(system=True)), is_system=True, file=file)
        (line,) = (
            line for text in files.values() for line in text.splitlines() if line.startswith("ExecStart=")
        )
        return line

    assert command() == f'ExecStart={home}/python -P -m neurald serve --system --config "{file}"'
    (home / "neurald").write_text("")
    (home / "neurald").chmod(0o755)
    assert command().startswith(f"ExecStart={home}/neurald serve")


def test_names_that_no_unit_file_can_have(home: Path) -> None:
    file = Path(f"{home}/a\nExecStartPre=evil")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[drivers.cpu]\n")
    with pytest.raises(BadData, match="control characters"):
        unit_files(load_configuration(file), is_system=False, file=file)

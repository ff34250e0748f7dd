"""Installs the unit files, and tells systemd."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.runtime_directory import MACHINE_DIRECTORY, runtime_directory
from neurald.hal.process.own_program import own_program
from neurald.service.installation.precondition import require_public
from neurald.service.installation.units import USER, Units
from neurald.service.manager.settings.configuration import Configuration
from neurald.service.manager.takeover import end_other_manager

#: There is such a directory if and only if systemd is the first process of the machine.
_RUNNING: Final = Path("/run/systemd/system")
_MARK: Final = "# Written by `neurald install-service`, which also replaces it.\n"


def unit_files(configuration: Configuration, *, is_system: bool, file: Path | None) -> dict[Path, str]:
    """Returns the contents of the files to install, by path.

    Args:
        configuration: the configuration of the manager.
        is_system: whether the service is the machine's, or else this user's.
        file: the configuration file, if it is not the default one.

    Raises:
        BadData: a name has characters that unit files cannot have.
    """
    command = [*_neurald(), "serve"]
    if is_system:
        command.append("--system")
    if file is not None:
        command += ["--config", str(file.absolute())]
    for argument in (*command, configuration.group, configuration.socket_mode):
        if not argument.isprintable():
            raise BadData(f"{argument!r} cannot be written into a unit file: it has control characters")
    units = Units(
        command=command,
        directory=str(MACHINE_DIRECTORY) if is_system else "%t/neurald",
        drivers=tuple(configuration.drivers),
        drain_s=max(
            (configuration.drain_s, *(each.drain_s or 0.0 for each in configuration.drivers.values()))
        ),
        serves_models=configuration.service.is_wanted,
        is_system=is_system,
        group=configuration.group,
        socket_mode=configuration.socket_mode,
    )
    texts = (units.socket, units.service, units.users, units.directories)
    paths = unit_paths(is_system=is_system)
    return {path: _MARK + text for path, text in zip(paths, texts, strict=False)}


def unit_paths(*, is_system: bool) -> tuple[Path, ...]:
    """Returns the paths of the files of the sockets, the service, the users and the directories."""
    if not is_system:
        return _user_folder() / "neurald.socket", _user_folder() / "neurald.service"
    names = ("systemd/system/neurald.socket", "systemd/system/neurald.service")
    return tuple(
        Path("/etc", name) for name in (*names, "sysusers.d/neurald.conf", "tmpfiles.d/neurald.conf")
    )


def install(
    files: dict[Path, str], *, is_system: bool, root: Path | None, tell: Callable[[str], None]
) -> None:
    """Writes the files, and enables the service unless they are for another root.

    If the files are new or changed, a service that runs is stopped, since systemd listens at other
    sockets only then. In the end the service is started once, so that anything that prevents it
    shows now.

    Args:
        files: contents by path.
        is_system: whether the service is the machine's.
        root: the directory of another system's files, such as an image; None for this one.
        tell: receives a line for each step.

    Raises:
        BadState: a file cannot be written, is somebody else's, the service's user cannot run this
            Python, or systemd refuses.
    """
    targets = {_within(root, path): text for path, text in files.items()}
    changed = [target for target, text in targets.items() if _ours(target) != text]
    is_live = root is None and _RUNNING.is_dir()
    if is_live and is_system:
        require_public((Path(sys.executable).resolve(), Path(sys.base_prefix), Path(__file__)), USER)
    systemctl = _systemctl(is_system)
    if is_live and changed:
        end_other_manager(MACHINE_DIRECTORY if is_system else runtime_directory(), tell)
        if any(target.exists() for target in changed):
            # With its old files, it also removes the sockets of drivers that have none any more.
            _run([[*systemctl, "stop", "neurald.socket", "neurald.service"]], tell)
    for target, text in targets.items():
        staging = target.with_name(f".{target.name}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            staging.write_text(text, encoding="utf-8")
            staging.chmod(0o644)
            staging.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                staging.unlink()
            raise BadState(f"{target} cannot be written: {error.strerror or error}") from None
        tell(f"wrote {target}")
    if root is not None:
        return
    serves_models = any("[Install]" in text for path, text in files.items() if path.suffix == ".service")
    units = ["neurald.socket", *(["neurald.service"] if serves_models else [])]
    commands = [["systemd-sysusers"], ["systemd-tmpfiles", "--create", "neurald.conf"]] if is_system else []
    commands.append([*systemctl, "daemon-reload"])
    if is_live and changed:
        commands += (
            [*systemctl, "enable", "--now", *units],
            [*systemctl, "start", "neurald.service"],
        )
        # It starts at the first connection.
        commands += [] if serves_models else [[*systemctl, "stop", "neurald.service"]]
    else:
        commands.append([*systemctl, "enable", "--now", *units])
    _run(commands, tell)


def uninstall(
    paths: Sequence[Path], *, is_system: bool, root: Path | None, tell: Callable[[str], None]
) -> None:
    """Stops the service and removes its files. Its user and its cache stay.

    Raises:
        BadState: a file is somebody else's or cannot be removed, or systemd refuses.
    """
    present = [target for path in paths if (target := _within(root, path)).exists()]
    for target in present:
        _ours(target)
    systemctl = _systemctl(is_system)
    if root is None and present:
        _run([[*systemctl, "disable", "--now", "neurald.socket", "neurald.service"]], tell)
    for target in present:
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise BadState(f"{target} cannot be removed: {error.strerror or error}") from None
        tell(f"removed {target}")
    if not present:
        tell("there is nothing to remove")
    elif root is None:
        _run([[*systemctl, "daemon-reload"]], tell)


def _run(commands: Sequence[Sequence[str]], tell: Callable[[str], None]) -> None:
    """Runs commands, or tells which ones to run if systemd does not run here."""
    if not _RUNNING.is_dir():
        tell("systemd does not run here; where it does, run:")
        for command in commands:
            tell("  " + " ".join(command))
        return
    for command in commands:
        tell(" ".join(command))
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        except OSError as error:
            raise BadState(f"{command[0]} cannot be run: {error.strerror or error}") from None
        if done.returncode:
            raise BadState(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")


def _systemctl(is_system: bool) -> list[str]:
    return ["systemctl"] if is_system else ["systemctl", "--user"]


def _within(root: Path | None, path: Path) -> Path:
    return path if root is None else root / path.relative_to("/")


def _ours(path: Path) -> str | None:
    """Returns the content of a file that this command has written; None if there is none.

    Raises:
        BadState: it is somebody else's, or cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadState(f"{path} cannot be read: {error.strerror or error}") from None
    if not text.startswith(_MARK):
        raise BadState(f"{path} exists and was not written by `neurald install-service`; remove it first")
    return text


def _user_folder() -> Path:
    base = environment_variable("XDG_CONFIG_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "systemd" / "user"


def _neurald() -> list[str]:
    """Returns the command that runs this installation of neurald."""
    script = Path(sys.executable).with_name("neurald")
    if script.is_file() and os.access(script, os.X_OK):
        return [str(script)]
    return own_program("neurald")

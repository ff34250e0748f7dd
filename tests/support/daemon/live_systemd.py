"""A real systemd, as the first process of its own namespaces, with a manager of the user's units.

It has its own processes, mounts, /run and control groups, so that it neither sees nor changes the
services of the machine. For a service of the machine it also has its own layer above the machine's
settings and state, with users of its own, who can read Python and this project wherever they are.
It needs root.
"""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from support.waiting import wait_until

_SYSTEMD = Path("/usr/lib/systemd/systemd")
_PROGRAMS = ("unshare", "nsenter", "systemctl")
_UNIFIED = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_RUNTIME = Path("/run/user/0")
_NAMESPACES = ("--mount", "--uts", "--ipc", "--pid", "--cgroup")
#: Becomes systemd, whose only service is the manager of the user's units.
_START = """
set -e
umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /run
mkdir -p /run/systemd/system {runtime}
chmod 700 {runtime}
{machine}
cat > /run/systemd/system/user.target <<X
[Unit]
DefaultDependencies=no
Requires=user.service
X
cat > /run/systemd/system/user.service <<X
[Unit]
DefaultDependencies=no
[Service]
Type=notify
Delegate=yes
ExecStart={systemd} --user --log-target=null
Environment={environment}
X
export container=test
exec {systemd} --system --unit=user.target --log-target=null --show-status=no
"""
#: Puts a layer above a folder, which vanishes with the namespace.
_LAYER = """
mkdir -p /run/layers{folder}/upper /run/layers{folder}/work
mount -t overlay overlay -o lowerdir={folder},upperdir=/run/layers{folder}/upper,workdir=/run/layers{folder}/work {folder}
"""
#: Also that of temporary files: a system that starts removes what is there.
_MACHINE_FOLDERS = (Path("/etc"), Path("/var"), Path("/tmp"))
#: Leaves out what a machine does when it starts: it would do so with devices that are not its own.
_MASK = """
for unit in /usr/lib/systemd/system/*.target.wants/*; do
    ln -sfn /dev/null /etc/systemd/system/$(basename "$unit")
done
rm -rf /etc/systemd/system/*.wants
"""
_MACHINE_PROGRAMS = ("useradd", "usermod", "runuser")


def unavailability(*, for_machine: bool = False) -> str:
    """Returns why there can be no systemd of its own here; "" if there can.

    Args:
        for_machine: whether it is to have users and services of the machine.
    """
    if os.geteuid() != 0:
        return "only root can start systemd in namespaces"
    programs = (*_PROGRAMS, *(_MACHINE_PROGRAMS if for_machine else ()))
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or not _SYSTEMD.exists():
        return f"there is no {', '.join(missing) or _SYSTEMD}"
    if _cgroups() is None:
        return "there is no hierarchy of control groups of version 2"
    trial = "set -e\nmount -t tmpfs none /run\n" + (_LAYER.format(folder="/etc") if for_machine else "")
    command = ["unshare", *_NAMESPACES, "--fork", "--mount-proc", "/bin/sh", "-c", trial]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"there can be no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def _cgroups() -> Path | None:
    found = (folder for folder in _UNIFIED if (folder / "cgroup.controllers").exists())
    return next((folder for folder in found if os.access(folder, os.W_OK)), None)


class LiveSystemd:
    """A running systemd.

    Args:
        process: the id of its process.
        environment: of the manager of the user's units, and of commands.
    """

    def __init__(self, process: int, environment: Mapping[str, str]) -> None:
        self._process = process
        self._environment = {**environment, "PATH": os.environ["PATH"]}

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command beside the services."""
        return subprocess.run(
            ["nsenter", f"--target={self._process}", *_NAMESPACES, "--", *command],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def show(self, unit: str, name: str) -> str:
        """Returns a property of a unit of the user."""
        return self.run("systemctl", "--user", "show", f"--property={name}", "--value", unit).stdout.strip()

    def kill(self, unit: str, number: signal.Signals) -> None:
        """Sends a signal to the main process of a unit of the user."""
        done = self.run("systemctl", "--user", "kill", "--kill-whom=main", f"--signal={number.name}", unit)
        assert not done.returncode, done.stderr


def _machine(users: Sequence[str]) -> str:
    """Returns commands that prepare a machine with users of its own."""
    needed = (Path(sys.executable).resolve(), Path(sys.prefix), Path(sys.base_prefix), Path(__file__))
    closed = {
        folder
        for path in needed
        for folder in path.parents
        if not folder.stat().st_mode & stat.S_IXOTH and not folder.is_relative_to("/tmp")
    }
    highest = [each for each in closed if not closed & set(each.parents)]
    lines = [_LAYER.format(folder=folder) for folder in (*_MACHINE_FOLDERS, *highest)]
    lines += [f"chmod o+x {folder}" for folder in closed]
    lines += [_MASK, ": > /etc/fstab", *(f"useradd --no-create-home {user}" for user in users)]
    return "\n".join(lines)


@contextlib.contextmanager
def live_systemd(environment: Mapping[str, str], users: Sequence[str] = ()) -> Iterator[LiveSystemd]:
    """Runs systemd during the block.

    Args:
        environment: for the user's units; it gets XDG_RUNTIME_DIR.
        users: whom the machine has; with any of them, it can have services of its own.
    """
    root = _cgroups()
    assert root is not None
    variables = {**environment, "XDG_RUNTIME_DIR": str(_RUNTIME)}
    script = _START.format(
        runtime=_RUNTIME,
        systemd=_SYSTEMD,
        machine=_machine(users) if users else "",
        environment=" ".join(f'"{name}={value}"' for name, value in variables.items()),
    )
    group = root / f"neurald-test-{os.getpid()}"
    group.mkdir()
    try:
        joined = f"echo $$ > {group}/cgroup.procs && exec unshare {' '.join(_NAMESPACES)} --fork --kill-child"
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'{joined} --mount-proc /bin/sh -c "$0"', script], stdin=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: bool(_children(process.pid)) or process.poll() is not None)
            assert process.poll() is None, "there are no namespaces"
            systemd = LiveSystemd(_children(process.pid)[0], variables)
            wait_until(lambda: systemd.run("systemctl", "--user", "show-environment").returncode == 0)
            yield systemd
        finally:
            process.kill()  # and with it the first process of the namespace, and so all of them
            process.wait()
    finally:
        _remove(group)


def _children(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def _remove(group: Path) -> None:
    """Removes a control group and those below it, once their processes have ended."""
    end = time.monotonic() + 30
    while group.exists() and time.monotonic() < end:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        time.sleep(0.02)

"""A real systemd, as the first process of namespaces of its own, with a manager of the user's units.

It has its own processes, mounts, /run and control groups, so that it neither sees nor changes the
services of the machine. It needs root.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
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


def unavailability() -> str:
    """Returns why there can be no systemd of its own here; "" if there can."""
    if os.geteuid() != 0:
        return "only root can start systemd in namespaces"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing or not _SYSTEMD.exists():
        return f"there is no {', '.join(missing) or _SYSTEMD}"
    if _cgroups() is None:
        return "there is no hierarchy of control groups of version 2"
    command = ["unshare", *_NAMESPACES, "--fork", "--mount-proc", "mount", "-t", "tmpfs", "none", "/run"]
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


@contextlib.contextmanager
def live_systemd(environment: Mapping[str, str]) -> Iterator[LiveSystemd]:
    """Runs systemd during the block.

    Args:
        environment: for the user's units; it gets XDG_RUNTIME_DIR.
    """
    root = _cgroups()
    assert root is not None
    variables = {**environment, "XDG_RUNTIME_DIR": str(_RUNTIME)}
    script = _START.format(
        runtime=_RUNTIME,
        systemd=_SYSTEMD,
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

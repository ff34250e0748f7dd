"""Plays systemd for a service: listens at its sockets, and starts it at the first connection.

Run as a program: the first argument is a directory, the second the names of sockets in it, and the
rest the command. It starts the command again if that ends and somebody connects.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.daemon.processes import python_path
from support.waiting import wait_until

_FIRST = 3
_PR_SET_NAME = 15


class ActivatedManager:
    """A service manager that is started by the first connection to one of its sockets.

    Args:
        folder: of its files; the runtime directory is below it.
        configuration: content of the configuration file.
        sockets: the names of the sockets to listen at.
        environment: further variables of the manager.
    """

    def __init__(
        self, folder: Path, configuration: str, sockets: tuple[str, ...], environment: dict[str, str]
    ) -> None:
        self.directory = folder / "neurald"
        self.directory.mkdir(mode=0o700)
        self.sockets = sockets
        self._log = folder / "log"
        file = folder / "neurald.toml"
        file.write_text(configuration)
        self.environment = {
            **os.environ,
            "PYTHONPATH": python_path(),
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            **environment,
        }
        command = [sys.executable, "-m", "neurald", "serve", "--config", str(file), "--log-level", "debug"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(self.directory), ",".join(sockets), *command],
                env=self.environment,
                stderr=log,
            )
        wait_until((folder / "listening").exists)

    @property
    def log(self) -> str:
        """The output of the managers."""
        return self._log.read_text(errors="replace")

    @property
    def managers(self) -> list[int]:
        """The ids of all managers so far."""
        file = self.directory.with_name("managers")
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def main() -> None:
    """Listens until SIGTERM, which it passes on."""
    directory, names, *command = Path(sys.argv[1]), *sys.argv[2:]
    # Clients recognise systemd by its name.
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"systemd", 0, 0, 0)
    listeners = []
    for name in names.split(","):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(directory / name))
        listener.listen()
        listeners.append(listener)
    directory.with_name("listening").touch()
    stops = False
    child = 0

    def stop(number: int, frame: object) -> None:
        nonlocal stops
        stops = True
        if child:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    while not stops:
        if not select.select(listeners, [], [], 0.1)[0]:
            continue
        child = os.fork()
        if not child:
            _become(listeners, command)
        with directory.with_name("managers").open("a") as file:
            file.write(f"{child}\n")
        os.waitpid(child, 0)
        child = 0


def _become(listeners: list[socket.socket], command: list[str]) -> None:
    """Starts the command in this process, with the listeners as its first descriptors."""
    # Above all numbers that they are to get.
    high = [os.dup2(each.fileno(), 100 + number) for number, each in enumerate(listeners)]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, _FIRST + number)
        os.close(descriptor)
    environment = {**os.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(listeners))}
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()

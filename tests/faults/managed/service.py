"""Service manager with one driver, for fault tests; by default that of the kill matrix."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from faults.field import child_environment
from faults.managed.driver import DRIVER, FOLDER_VARIABLE

from neurald.service.manager.state import DriverState, DriverStatus, ManagerStatus

_START_S = 60.0
NAME = "matrix"


class Service:
    """Service manager in a process of its own. Stops at the end of the block.

    Args:
        folder: with a short path, for all files; those that control the driver are in `files`.
        settings: lines of the driver's table in the configuration file.
        name: of the driver.
        driver: an installed driver or a factory.
        program: of the manager.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        name: str = NAME,
        driver: str = DRIVER,
        program: str = "neurald",
    ) -> None:
        self.name = name
        self._driver = driver
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir(exist_ok=True)
        self._settings = settings
        self._file = folder / "neurald.toml"
        self._log = folder / "manager.log"
        self.directory = folder / "neurald"
        self.address = f"unix://{self.directory / name}.sock"
        self.configure()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, "serve", "--config", str(self._file), "--log-level", "info"],
                env={**child_environment(folder), "XDG_STATE_HOME": str(folder / "state")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + _START_S
        while "supervising" not in self.log:
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"the manager does not start: {self.log[-2000:]}")
            time.sleep(0.01)

    def configure(self, **environment: str) -> None:
        """Writes the configuration file.

        Args:
            environment: variables of the driver's process.
        """
        variables = {FOLDER_VARIABLE: str(self.files), **environment}
        lines = [
            f"[drivers.{self.name}]",
            f'driver = "{self._driver}"',
            f'writable = ["{self.files}"]',
            *self._settings,
        ]
        lines += [
            f"[drivers.{self.name}.environment]",
            *(f'{key} = "{value}"' for key, value in variables.items()),
        ]
        draft = self._file.with_suffix(".new")
        draft.write_text("\n".join(lines) + "\n")
        draft.replace(self._file)

    def reload(self) -> None:
        """Has the manager load the configuration again."""
        self.process.send_signal(signal.SIGHUP)

    @property
    def log(self) -> str:
        """The output of the manager and the driver."""
        return self._log.read_text(errors="replace")

    @property
    def log_bytes(self) -> int:
        """The length of `log` so far."""
        return self._log.stat().st_size

    def log_since(self, start: int) -> str:
        """Returns the part of `log` after this many bytes."""
        with self._log.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")

    def status(self) -> DriverStatus:
        """Asks for the status of the driver."""
        return msgspec.json.decode(self._ask(b'{"type": "status"}'), type=ManagerStatus).drivers[0]

    def restart(self) -> None:
        """Replaces the process of the driver, and forgets its deaths."""
        self._ask(f'{{"type": "restart", "driver": "{self.name}"}}'.encode())

    def _ask(self, request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.directory / "manager.sock"))
            connection.sendall(request + b"\n")
            with connection.makefile("rb") as file:
                return file.readline()

    def wait_for_process(self, other_than: int | None = None) -> int:
        """Waits until the driver serves, in another process than the given one; returns its id."""
        end = time.monotonic() + _START_S
        while True:
            found = self.status()
            if found.state is DriverState.READY and found.process not in (None, other_than):
                assert found.process is not None
                return found.process
            if time.monotonic() > end:
                raise RuntimeError(f"the driver does not serve: {found}")
            time.sleep(0.005)

    def write(self, name: str, content: str) -> None:
        """Writes a file that controls the driver, at once."""
        draft = self.files / f".{name}.{os.getpid()}"
        draft.write_text(content)
        draft.replace(self.files / name)

    def remove(self, *names: str) -> None:
        """Removes files that control the driver, or that it has written."""
        for name in names:
            (self.files / name).unlink(missing_ok=True)

    def close(self) -> bool:
        """Stops it; returns True if it obeyed."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(60) == 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False

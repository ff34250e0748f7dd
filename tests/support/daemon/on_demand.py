"""Service managers that applications start, in a directory of their own, and their end."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.daemon.managed import BEHAVIOUR_VARIABLE
from support.daemon.processes import python_path, run_command
from support.waiting import wait_until


class OnDemand:
    """An environment in which applications may start a manager with one driver, `adder`.

    What was started ends with the block.

    Args:
        folder: of its files.
    """

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.folder = folder
        self.directory = folder / "neurald"
        self.file = folder / "neurald.toml"
        self.behaviour = folder / "behaviour"
        self.behaviour.write_text("")
        self.configure()
        self.environment = {
            **os.environ,
            "PYTHONPATH": python_path(),
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "NEURALD_CONFIG": str(self.file),
            "NEURALD_AUTOSTART": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def configure(self, first: str = "", **settings: object) -> None:
        """Writes the configuration file.

        Args:
            first: lines before the tables.
            settings: of the driver, in TOML.
        """
        lines = [
            first,
            "[drivers.adder]",
            'driver = "support.daemon.managed:create_adder"',
            'sandbox = "off"',
            "spare = false",
        ]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        lines += ["[drivers.adder.environment]", f'{BEHAVIOUR_VARIABLE} = "{self.behaviour}"']
        self.file.write_text("\n".join(lines) + "\n")

    def start(self, program: str, **variables: str) -> "subprocess.Popen[str]":
        """Starts a Python program in this environment."""
        return subprocess.Popen(
            [sys.executable, "-c", program],
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

    def run(self, program: str, **variables: str) -> str:
        """Runs a Python program, and returns what it prints."""
        with self.start(program, **variables) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return out

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a `neurald` command."""
        return run_command(arguments, self.environment, timeout_s=120)

    @property
    def log(self) -> str:
        """The output of the managers."""
        file = self.directory / "manager.log"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def driver_starts(self) -> list[int]:
        """The ids of all driver processes so far."""
        file = self.folder / "starts"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def managers(self) -> list[int]:
        """Returns the ids of the managers that run in this environment."""
        mark = f"XDG_RUNTIME_DIR={self.folder}\0".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (
                    b"\0serve\0" in (place / "cmdline").read_bytes()
                    and mark in (place / "environ").read_bytes()
                ):
                    found.append(int(place.name))
        return found

    def stop(self) -> None:
        """Ends what was started, by process id."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.managers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            with contextlib.suppress(AssertionError):
                wait_until(lambda: not self.managers(), 30.0)
        assert not self.managers()


@contextlib.contextmanager
def on_demand(folder: Path) -> Iterator[OnDemand]:
    """Yields an environment; nothing that was started in it survives."""
    found = OnDemand(folder)
    try:
        yield found
    finally:
        found.stop()


def variables(environment: OnDemand) -> Mapping[str, str]:
    """Returns the variables that a test sets in its own process."""
    names = ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "NEURALD_CONFIG", "NEURALD_AUTOSTART", "PYTHONPATH")
    return {name: environment.environment[name] for name in names}

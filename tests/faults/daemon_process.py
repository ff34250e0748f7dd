"""Daemon of the CPU device as users start it, with separate runtime and cache directories."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from support.daemon.processes import python_path

_START_S = 60.0
_STOP_S = 40.0
_SAYS = "serving cpu on "


def private_environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a process that only uses files in a folder."""
    return {
        **os.environ,
        "PYTHONPATH": python_path(),
        "OPENBLAS_NUM_THREADS": "1",
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "caches"),
        "XDG_STATE_HOME": str(folder / "state"),
        "TMPDIR": str(folder),
    }


class DaemonProcess:
    """Daemon that runs during a block.

    Args:
        folder: for its files, with a short path.
        options: of its command line.
        listen: its address; None for a UNIX socket in the folder.
        descriptors: its limit on descriptors; None for no limit.
        environment: variables in addition to those of `private_environment`.
    """

    def __init__(
        self,
        folder: Path,
        options: Sequence[str] = (),
        *,
        listen: str | None = None,
        descriptors: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # The driver may write to the socket's folder, but not to the state in the other one.
        for each in (folder, folder / "s"):
            each.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._log = folder / "log"
        listen = listen or f"unix://{folder / 's' / 'd.sock'}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "neurald", "driver", "cpu", "--listen", listen, *options],
                env={**private_environment(folder), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        try:
            self.address = self._served()
            if descriptors is not None:
                resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        except BaseException:
            self.kill()
            raise

    def _served(self) -> str:
        end = time.monotonic() + _START_S
        while True:
            for line in self.log.splitlines(keepends=True):
                if line.startswith(_SAYS) and line.endswith("\n"):
                    return line.removeprefix(_SAYS).strip()
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"the daemon does not start: {self.log[-2000:]}")
            time.sleep(0.01)

    @property
    def log(self) -> str:
        """Contents of its log."""
        return self._log.read_text(errors="replace")

    @property
    def token_file(self) -> Path | None:
        """File with the token for its clients; None for a UNIX socket, which needs none."""
        if self.address.startswith("unix:"):
            return None
        (path,) = (self._folder / "neurald").glob("*.token")
        return path

    def stop(self) -> float:
        """Stops it; returns the seconds it took, or infinity if it had to be killed."""
        began = time.monotonic()
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return float("inf")
        return time.monotonic() - began

    def kill(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

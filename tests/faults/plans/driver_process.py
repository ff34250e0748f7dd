"""A driver's process that faults strike."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from faults.plans.driver import DRIVERS, FOLDER_VARIABLE
from support.daemon.processes import python_path, stop_process

import neurald as nd
from neurald.hal.rpc.client.device import RemoteDevice

_START_S = 60.0
_LOOK_S = 0.01
#: How long a process is stopped. Clients notice after 2 s.
_STOPPED_S = (0.1, 4.0)
#: How long executions hang.
_HANGING_S = (0.05, 0.5)


class DriverProcess:
    """A driver's process, which is started again when it ends.

    Args:
        name: of the device.
        folder: for sockets, and what the devices count.
        chance: decides how long faults last and how they end.
    """

    def __init__(self, name: str, folder: Path, chance: random.Random) -> None:
        self.name = name
        self._address = f"unix://{folder}/{name}.sock"
        self._hang = folder / f"hang-{name}"
        self._chance = chance
        self._command = [
            *(sys.executable, "-m", "neurald", "driver", DRIVERS[name]),
            *("--listen", self._address, "--writable", str(folder)),
        ]
        self._environment = {**os.environ, "PYTHONPATH": python_path(), FOLDER_VARIABLE: str(folder)}
        self._device: RemoteDevice | None = None
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def connect(self) -> nd.Device:
        """Waits until it serves; returns its device, which is the same one each time."""
        end_s = time.monotonic() + _START_S
        while True:
            try:
                self._device = self._device or nd.connect(self._address)
                self._device.status()
            except nd.Error:
                if time.monotonic() > end_s:
                    raise
                time.sleep(_LOOK_S)
            else:
                return self._device

    def faults(self) -> dict[str, Callable[[], None]]:
        """Returns the faults by their names; each returns when it is over."""
        return {"kill": self.kill, "stop": self.halt, "hang": self.hang}

    def kill(self) -> None:
        """Kills the process, and starts another one."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self._started()

    def halt(self) -> None:
        """Stops the process for a while; then it goes on or is killed."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(self._chance.uniform(*_STOPPED_S))
        if self._chance.random() < 0.5:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.kill()

    def hang(self) -> None:
        """Lets executions hang for a while; then they end or the process is killed."""
        self._hang.touch()
        time.sleep(self._chance.uniform(*_HANGING_S))
        if self._chance.random() < 0.5:
            self.kill()
        self._hang.unlink()

    def stop(self) -> None:
        """Stops the process for ever."""
        self.process.send_signal(signal.SIGCONT)
        stop_process(self.process)

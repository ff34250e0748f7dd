"""A service manager in a process of its own, and drivers for it that misbehave on demand.

The behaviour of a driver is the content of the file that the variable BEHAVIOUR names: "fail" makes
its factory raise, "exit" ends its process, "flood" does so and leaves a process behind that writes
to stderr without end, "hang" never returns, and "slow" does so once the behaviour is another one.
Each driver process appends its id to the file `starts` beside it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
from support.daemon.processes import python_path, run_command
from support.models.addition import AddingDevice, one_plus
from support.waiting import wait_until

from neurald.hal.errors import DeadObject, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.service.manager.state import DriverState, DriverStatus, ManagerStatus

if TYPE_CHECKING:
    # The drivers that this module creates need no client.
    from neurald.hal.rpc.client.device import RemoteDevice

BEHAVIOUR_VARIABLE = "BEHAVIOUR"
#: SIGSTOP and the like must be noticed within this time, which leaves much for a busy machine.
NOTICED_S = 30.0


def create_adder() -> AddingDevice:
    """Creates a device, unless its behaviour is another one."""
    file = Path(os.environ[BEHAVIOUR_VARIABLE])
    with file.with_name("starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    behaviour = file.read_text()
    if behaviour == "fail":
        raise RuntimeError("the device is out of order")
    if behaviour == "flood":
        child = os.fork()
        while not child:  # until nobody reads any more
            os.write(2, (b"x" * 200 + b"\n") * 100)
        os.setpgid(child, child)  # the group ends with this process
        time.sleep(0.2)
    if behaviour in ("exit", "flood"):
        os._exit(7)
    while behaviour == "hang":
        time.sleep(1)
    while file.read_text() == "slow":
        time.sleep(0.05)
    return AddingDevice()


def _toml(value: object) -> str:
    """Returns a value of the configuration file."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    return msgspec.json.encode(value).decode()


def added_again(device: "RemoteDevice") -> float:
    """Returns 1 + 1, computed by the process that has taken the place of another; 0 without one."""
    with contextlib.suppress(DeadObject, UnavailableDevice):
        device.reconnect(at_once=True)
        return one_plus(device, 1)
    return 0.0


class Managed:
    """A service manager with one driver, `adder`. Stops at the end of the block.

    Without a spare process, which would take time to start, unless the settings say otherwise.

    Args:
        folder: of its files; the runtime directory is below it.
        options: of `neurald serve`.
        settings: of the driver, in addition to its factory and environment.
        name: of the driver.
        driver: the factory; None for that of `create_adder`.
        directory: of the sockets, if it is not the user's runtime directory.
        tables: of the configuration file, besides that of the driver.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        settings: Mapping[str, object] | None = None,
        name: str = "adder",
        driver: str = "support.daemon.managed:create_adder",
        directory: Path | None = None,
        tables: str = "",
    ) -> None:
        self.name = name
        self._tables = tables
        self._driver = driver
        #: The file is in a folder to which the driver may write; the manager's settings are not.
        self.behaviour = folder / "driver" / "behaviour"
        self.behaviour.parent.mkdir(exist_ok=True)
        self.behaviour.write_text("")
        self.directory = directory or folder / "neurald"
        self.file = folder / "neurald.toml"
        self._log = folder / "log"
        self.configure(**(settings or {}))
        self.environment = {
            **os.environ,
            "PYTHONPATH": python_path(),
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.process = self.start(*options)
        wait_until(lambda: "supervising" in self.log or self.process.poll() is not None)
        assert self.process.poll() is None, self.log

    def configure(self, **settings: object) -> None:
        """Writes the configuration file."""
        lines = ["[drivers.adder]", f'driver = "{self._driver}"']
        lines += [
            f"{name} = {_toml(value)}"
            for name, value in {"sandbox": "off", "spare": False, **settings}.items()
        ]
        lines += ["[drivers.adder.environment]", f'{BEHAVIOUR_VARIABLE} = "{self.behaviour}"']
        self.file.write_text("\n".join(lines) + "\n" + self._tables)

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """Starts a manager."""
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "neurald", "serve", "--config", str(self.file), *options],
                env=self.environment,
                stderr=log,
                cwd=self.file.parent,
            )

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a `neurald` command."""
        return run_command(arguments, self.environment, timeout_s=60)

    @property
    def log(self) -> str:
        """The manager's output."""
        return self._log.read_text(errors="replace")

    @property
    def address(self) -> Address:
        """The address of the driver."""
        return Address(path=self.directory / f"{self.name}.sock")

    @property
    def starts(self) -> list[int]:
        """The ids of all driver processes so far."""
        file = self.behaviour.with_name("starts")
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def status(self) -> DriverStatus:
        """Asks the manager for the status of the driver."""
        (driver,) = self.manager_status().drivers
        return driver

    def manager_status(self) -> ManagerStatus:
        """Asks the manager for its status."""
        import socket

        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.directory / "manager.sock"))
            connection.sendall(b'{"type": "status"}\n')
            with connection.makefile("rb") as file:
                return msgspec.json.decode(file.readline(), type=ManagerStatus)

    def wait_for(self, state: DriverState) -> DriverStatus:
        """Waits until the driver is in a state."""
        found: list[DriverStatus] = []

        def is_there() -> bool:
            found[:] = [self.status()]
            return found[0].state is state

        wait_until(is_there)
        return found[0]

    def connect(self) -> "RemoteDevice":
        """Connects to the driver."""
        from neurald.hal.rpc.client.device import connect

        return connect(str(self.address))

    def wait_for_spare(self, other_than: int | None = None) -> int:
        """Waits until the driver has another spare process; returns its id."""
        found: list[int | None] = []

        def is_there() -> bool:
            found[:] = [self.status().spare]
            return found[0] not in (None, other_than)

        wait_until(is_there)
        assert found[0] is not None
        return found[0]

    def stop(self) -> int:
        """Stops the manager; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self.stop()

"""Test field.

Two driver daemons that are restarted whenever they die, and processes that use them.
"""

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from faults.driver import FAULT_VARIABLE
from support.daemon.processes import python_path

from neurald.hal.process.activation import is_served

_START_S = 60.0
#: Time limit of an execution in the daemons.
EXECUTION_S = 2


class Daemon:
    """Driver daemon that can be killed and restarted at the same address.

    Args:
        folder: the folder in which it listens, like a runtime directory.
        name: the name of its driver, a factory of `faults.driver`.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.fault = folder / f"{name}.fault"
        self._folder = folder
        self._name = name
        self._socket = folder / "neurald" / f"{name}.sock"
        self.address = f"unix://{self._socket}"
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "neurald", "driver", f"faults.driver:create_{self._name}"]
        environment = {**child_environment(self._folder), FAULT_VARIABLE: str(self.fault)}
        log = self._folder / f"{self._name}.log"
        with log.open("ab") as target:
            process = subprocess.Popen(
                [*command, "--listen", self.address, "--limit", f"execution_s={EXECUTION_S}"],
                env=environment,
                stdout=target,
                stderr=target,
            )
        end = time.monotonic() + _START_S
        while not is_served(self._socket):
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError(f"daemon {self._name} does not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        return process

    def restart(self) -> None:
        """Restarts it after it was killed."""
        self.process.wait(_START_S)
        self.process = self._started()

    def stop(self) -> bool:
        """Stops it; returns True if it obeyed."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        return True


class Field:
    """Daemons, and the folder of their sockets and files.

    Args:
        folder: a short path for sockets.
        seed: determines the actions and their times.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.wrong: list[str] = []
        self.daemons: list[Daemon] = []
        self._children: list[Child] = []
        (folder / "neurald").mkdir(mode=0o700)
        try:
            for name in ("first", "second"):
                self.daemons.append(Daemon(folder, name))
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Address of the daemon that adds."""
        return self.daemons[0].address

    def any_daemon(self) -> Daemon:
        """Returns one of the two daemons."""
        return self.random.choice(self.daemons)

    def pause(self, low: float = 0.0, high: float = 0.2) -> None:
        """Pauses for a random time, in which the clients call."""
        time.sleep(self.random.uniform(low, high))

    def start(self, module: str, *arguments: object) -> "Child":
        """Starts a program of this folder, which reports when it is ready."""
        self._children = [child for child in self._children if child.process.poll() is None]
        self._children.append(Child(self.folder, module, *arguments))
        return self._children[-1]

    def close(self) -> None:
        """Stops the daemons and remaining programs; a daemon that does not stop is a failure."""
        for child in self._children:
            child.kill()
        self.wrong += [f"{daemon.address} did not stop" for daemon in self.daemons if not daemon.stop()]


def child_environment(folder: Path) -> dict[str, str]:
    """Returns the environment for finding the daemons of a field, without user settings.

    Devices are chosen by Android's rule, so that small models run on drivers. Processes that abort
    write where each of their threads is.
    """
    return {
        **os.environ,
        "PYTHONPATH": python_path(),
        "OPENBLAS_NUM_THREADS": "1",
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "caches"),
        "NEURALD_POLICY": "android",
        "PYTHONFAULTHANDLER": "1",
    }


class Child:
    """Program of this folder in its own process.

    It prints `ready`, runs until its input ends, and reports.
    """

    def __init__(self, folder: Path, module: str, *arguments: object) -> None:
        self._log = folder / f"{module}.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"faults.{module}", *map(str, arguments)],
                env=child_environment(folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,  # a buffer would swallow what follows `ready`, which `communicate` needs
            )

    def wait_ready(self) -> None:
        """Waits until the program is ready.

        Raises:
            RuntimeError: it did not become ready.
        """
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], _START_S)
        line = self.process.stdout.readline() if readable else b""
        if line != b"ready\n":
            self.kill()
            raise RuntimeError(f"a client does not start: {line!r}, {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kills it."""
        self.process.kill()
        self._reap()

    @property
    def has_answer(self) -> bool:
        """True if there is output to read, or it has ended."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def answer(self, timeout_s: float) -> bytes:
        """Returns the next line of its output.

        Raises:
            RuntimeError: it died, or it hangs and was aborted; with the end of its log.
        """
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        if readable and (line := self.process.stdout.readline()):
            return line
        what = "died" if readable else f"does not answer within {timeout_s:g} s"
        self.process.send_signal(signal.SIGABRT)
        self.process.wait()
        raise RuntimeError(f"a client {what}: {self._log.read_text(errors='replace')[-4000:]}")

    def report(self, timeout_s: float) -> str:
        """Stops it and returns its report; "" if it hangs or failed."""
        try:
            output, _ = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return ""
        return output.decode() if not self.process.returncode else ""

    def _reap(self) -> None:
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

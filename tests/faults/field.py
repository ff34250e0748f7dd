"""Where harm is done: two driver daemons that are started again whenever they are gone, and processes that use them."""

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

from neurald.hal.registry import is_served

TESTS = Path(__file__).resolve().parents[1]
_START_S = 60.0
#: How long an execution may take before the daemons give it up.
EXECUTION_S = 2


class Daemon:
    """A driver daemon that can be killed and started again at the same address.

    Args:
        folder: in which it listens, as in a runtime directory.
        name: of its driver, a factory of `faults.driver`.
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
        """Starts what was killed anew."""
        self.process.wait(_START_S)
        self.process = self._started()

    def stop(self) -> bool:
        """Stops it; whether it did so when it was told to."""
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
    """The daemons, and the folder of their sockets and files.

    Args:
        folder: a short path; sockets lie in it.
        seed: of what is done and when.
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
        """Of the daemon that adds."""
        return self.daemons[0].address

    def any_daemon(self) -> Daemon:
        """One of the two."""
        return self.random.choice(self.daemons)

    def pause(self, low: float = 0.0, high: float = 0.2) -> None:
        """Lets the clients call for a random while."""
        time.sleep(self.random.uniform(low, high))

    def start(self, module: str, *arguments: object) -> "Child":
        """Starts a program of this folder, which says when it is ready."""
        self._children = [child for child in self._children if child.process.poll() is None]
        self._children.append(Child(self.folder, module, *arguments))
        return self._children[-1]

    def close(self) -> None:
        """Stops the daemons, and programs that still run; a daemon that does not stop is itself a fault."""
        for child in self._children:
            child.kill()
        self.wrong += [f"{daemon.address} did not stop" for daemon in self.daemons if not daemon.stop()]


def child_environment(folder: Path) -> dict[str, str]:
    """What a process needs to find the daemons of a field, and nothing of the user's own."""
    return {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "OPENBLAS_NUM_THREADS": "1",
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "caches"),
    }


class Child:
    """A program of this folder in a process of its own. It says `ready`, goes on until its input ends, and then reports."""

    def __init__(self, folder: Path, module: str, *arguments: object) -> None:
        self._log = folder / f"{module}.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"faults.{module}", *map(str, arguments)],
                env=child_environment(folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,  # else what is read ahead of `ready` would be lost to `communicate`
            )

    def wait_ready(self) -> None:
        """Returns when it has said so.

        Raises:
            RuntimeError: it has not.
        """
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], _START_S)
        line = self.process.stdout.readline() if readable else b""
        if line != b"ready\n":
            self.kill()
            raise RuntimeError(f"a client does not start: {line!r}, {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kills it, whatever it does."""
        self.process.kill()
        self._reap()

    def report(self, timeout_s: float) -> str:
        """Tells it to stop, and returns what it has to say then; empty if it hangs or failed."""
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

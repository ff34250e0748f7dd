"""An execution service in a process of its own, without a service manager."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pytest
from support.daemon.processes import python_path
from support.waiting import wait_until

from neurald.service.inference.server.client_choices import ClientChoices
from neurald.service.inference.server.front_end_report import FrontEndReport
from neurald.service.manager.state import ModelStatus, ServiceStatus

pytest.importorskip("httptools", reason="the extra [serve] is not installed")
pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")


class Serving:
    """Serves the models of a repository. Stops at the end of the block.

    Args:
        repository: the folder of the models.
        settings: of the service, see `ServiceSettings`.
    """

    def __init__(self, repository: Path, **settings: Any) -> None:
        content = {
            "grpc": "127.0.0.1:0",
            "http": "127.0.0.1:0",
            "repositories": [str(repository)],
            "drain_s": 5.0,
            **settings,
        }
        self.folder = str(repository)
        self.lines: list[ServiceStatus] = []
        #: What clients have chosen, as the service has reported it.
        self.choices = ClientChoices()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "neurald.service.inference.server.program", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path(), "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(content) + b"\n")
        self.process.stdin.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            report = msgspec.json.decode(line, type=FrontEndReport)
            if report.status is not None:
                self.lines.append(report.status)
            self.choices = report.choices or self.choices
        self.process.stdout.close()

    @property
    def status(self) -> ServiceStatus:
        """The service's latest report about itself."""
        wait_until(lambda: self.lines or self.process.poll() is not None)
        assert self.lines, f"the service ended with {self.process.returncode}"
        return self.lines[-1]

    def wait_ready(self) -> Self:
        """Waits until all models are ready."""
        self.wait_for(lambda status: status.is_ready)
        return self

    def wait_for(self, condition: Callable[[ServiceStatus], object]) -> None:
        """Waits until the status of the service fulfils a condition."""
        # On a busy machine, a dozen workers take their time to start.
        wait_until(lambda: self.process.poll() is not None or condition(self.status), 180.0)
        assert self.process.poll() is None

    def model(self, name: str) -> ModelStatus:
        """Returns the status of a model."""
        return next(each for each in self.status.models if each.name == name)

    @property
    def grpc(self) -> str:
        """The address for gRPC."""
        return self.status.addresses["grpc"]

    @property
    def http(self) -> str:
        """The address for HTTP."""
        return self.status.addresses["http"]

    def stop(self) -> int:
        """Stops the service; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def is_gone(pid: int) -> bool:
    """Returns whether a process has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def elapsed(call: Callable[[], object]) -> float:
    """Returns how long a call took, in seconds."""
    began = time.monotonic()
    call()
    return time.monotonic() - began

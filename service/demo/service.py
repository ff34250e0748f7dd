"""Runs `neurald serve` with the demo's model as a child process during a block."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.own_program import own_program
from neurald.service.demo.daemon import stopped_after, termination_as_interrupt
from neurald.service.demo.digits import MODEL

_MAX_START_S: Final = 60.0
#: What the service runs on, apart from its model.
_ANYWHERE: Final = "127.0.0.1:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddresses:
    """The addresses at which a service listens, as `host:port`.

    Attributes:
        grpc, http: where clients of the V2 protocol reach it over gRPC, and over HTTP.
        is_ready: whether its models can be run now.
    """

    grpc: str
    http: str
    is_ready: bool


@contextmanager
def served_model() -> Iterator[ServiceAddresses]:
    """Serves the demo's model under the name `digits` during the block.

    The service has a runtime directory of its own, so that a service manager of this user is left
    alone.

    Raises:
        UnavailableDevice: the service ended, or was not ready in time; the message contains its
            last line of output.
    """
    with (
        tempfile.TemporaryDirectory(prefix="neurald-") as folder,
        tempfile.TemporaryFile() as messages,
        termination_as_interrupt(),
    ):
        models = Path(folder) / "models"
        models.mkdir()
        shutil.copy(MODEL, models)
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
        command = own_program("neurald", "serve", "--http", _ANYWHERE, "--grpc", _ANYWHERE)
        command += ["--repository", str(models), "--until-exit-of", str(os.getpid())]
        # In a session of its own, so that Ctrl-C reaches only this process.
        process = subprocess.Popen(  # noqa: S603 - this Python, and a module of this package
            command,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            start_new_session=True,
            env=environment,
        )
        with stopped_after(process):
            yield _ready(process, environment, messages)


def _ready(
    process: "subprocess.Popen[bytes]", environment: dict[str, str], messages: IO[bytes]
) -> ServiceAddresses:
    """Waits until the model can be run."""
    end = time.monotonic() + _MAX_START_S
    while process.poll() is None and time.monotonic() < end:
        found = _addresses(environment)
        if found is not None and found.is_ready:
            return found
        time.sleep(0.05)
    messages.seek(0)
    output = messages.read().decode(errors="replace").strip().splitlines()
    reason = output[-1] if output else f"it printed nothing (exit status {process.poll()})"
    raise UnavailableDevice(f"the execution service did not start: {reason}")


def _addresses(environment: dict[str, str]) -> ServiceAddresses | None:
    """Returns what `neurald status` says of the service; None if it says nothing yet."""
    done = subprocess.run(  # noqa: S603 - this Python, and a module of this package
        own_program("neurald", "status", "--json"),
        capture_output=True,
        check=False,
        env=environment,
        start_new_session=True,
    )
    if done.returncode != 0:
        return None
    service: dict[str, Any] | None = json.loads(done.stdout)["service"]
    if service is None or service["addresses"].keys() != {"grpc", "http"}:
        return None
    return ServiceAddresses(**service["addresses"], is_ready=service["is_ready"])

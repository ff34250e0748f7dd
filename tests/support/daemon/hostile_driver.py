"""A driver that attacks whatever it can reach, once it is asked to compute.

The variable TARGETS has a JSON object with what to attack; the outcomes go to the file that it
names. It tries to connect also when its module is loaded and when its device is created.
"""

import ctypes
import errno
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.models.addition import AddingDevice

from neurald.hal.device import ExecuteOptions
from neurald.hal.model.request import Request

TARGETS_VARIABLE = "TARGETS"
_PTRACE_SEIZE = 0x4206


def attacks(targets: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Returns the attacks by name."""
    file, process = Path(targets["file"]), int(targets["process"])
    return {
        "read another user's file": file.read_bytes,
        "read the passwords": Path("/etc/shadow").read_bytes,
        "change another user's file": lambda: file.open("r+b"),
        "remove another user's file": file.unlink,
        "plant a file": lambda: file.with_name("planted").write_text("x"),
        "connect to a port": lambda: _connect(socket.AF_INET, ("127.0.0.1", targets["port"])),
        "make a socket for another host": lambda: socket.socket(socket.AF_INET).close(),
        "connect to another service": lambda: _connect(socket.AF_UNIX, targets["socket"]),
        "command the manager": lambda: _connect(socket.AF_UNIX, targets["manager"]),
        "read where the manager was started": Path(targets["notes"]).read_bytes,
        "read the installation's secret": Path(targets["secret"]).read_bytes,
        "trace the manager": lambda: _trace(process),
        "read the manager's memory": lambda: Path(f"/proc/{process}/mem").open("rb"),
        "read the manager's environment": Path(f"/proc/{process}/environ").read_bytes,
        "end the manager": lambda: os.kill(process, signal.SIGTERM),
    }


def _connect(family: int, address: Any) -> None:
    with socket.socket(family) as client:
        client.connect(address)


def _trace(process: int) -> None:
    if ctypes.CDLL(None, use_errno=True).ptrace(_PTRACE_SEIZE, process, None, None) < 0:
        raise OSError(ctypes.get_errno(), "")


def _outcome(attack: Callable[[], object]) -> str:
    try:
        attack()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def _leave_processes_behind(file: Path, environment: dict[str, str]) -> None:
    """Starts processes that nothing connects with this one, and appends their ids to a file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for has_parent in (True, False):
        if os.fork():
            continue
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if not has_parent and os.fork():
                os._exit(0)
            os.fork()
            os.write(descriptor, f"{os.getpid()}\n".encode())
            os.closerange(0, 256)
            os.execve("/bin/sleep", ["sleep", "1000"], environment)
        finally:
            os._exit(1)
    os.close(descriptor)


def _connections(moment: str) -> dict[str, str]:
    """Tries to connect to others; returns the outcomes."""
    targets = json.loads(os.environ.get(TARGETS_VARIABLE, "{}"))
    if "port" not in targets:
        return {}
    found = attacks(targets)
    return {
        f"{name} {moment}": _outcome(found[name])
        for name in ("connect to a port", "connect to another service", "command the manager")
    }


_WHEN_LOADED = _connections("when it is loaded")


def create() -> AddingDevice:
    """Creates a device that attacks when it executes."""
    targets = json.loads(os.environ[TARGETS_VARIABLE])
    when_created = _connections("when its device is created")
    device = AddingDevice()

    def on_execute(request: Request, options: ExecuteOptions) -> None:
        if "left" in targets:
            _leave_processes_behind(
                Path(targets["left"]), dict(os.environ) if targets["keeps environment"] else {}
            )
            return
        outcomes = {name: _outcome(attack) for name, attack in attacks(targets).items()}
        Path(targets["report"]).write_text(json.dumps(_WHEN_LOADED | when_created | outcomes))

    device.on_execute = on_execute
    return device

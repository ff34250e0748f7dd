"""Asks a service manager to start the driver behind a socket.

While a driver of a service manager does not run, the manager itself listens at the driver's socket.
It greets each client with a line, and a client that answers with a request gets another line once
the driver serves the socket, or a reason why it will not. A client that only tests whether the
socket is served, as `neurald.hal.registry.is_served` does, starts nothing.
"""

import contextlib
import socket
import time
from pathlib import Path
from typing import Final

from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.process.peer import peer_of

#: The name of the manager's own socket in the directory of its drivers' sockets.
MANAGER_SOCKET: Final = "manager.sock"
#: What the manager says first, what a client answers, and what the manager then says.
GREETING: Final = b"neurald manager 1\n"
START: Final = b"start\n"
READY: Final = b"ready\n"
REFUSED: Final = b"refused "
#: Maximum length of a line.
MAX_LINE_BYTES: Final = 4096
#: How long a listening process has for its first byte. A driver's gRPC server sends one at once;
#: whatever else is wrong with it shows in the calls that follow.
_GREETING_S: Final = 0.5
#: The same while a supervisor such as systemd holds the socket, which starts the manager at the
#: first connection.
_MANAGER_START_S: Final = 10.0
_SYSTEMD: Final = "systemd"


def activate(address: Address, deadline_s: float) -> None:
    """Starts the driver behind a socket, if a service manager stands in for it, and waits for it.

    Returns at once if there is no manager, or if the driver runs.

    Args:
        address: of the driver.
        deadline_s: when to stop waiting, on the clock of `time.monotonic()`.

    Raises:
        UnavailableDevice: the manager does not start the driver, or not in time; the message says
            why.
    """
    path = address.path
    if path is None or not path.with_name(MANAGER_SOCKET).exists():
        return
    # The manager may hand over to the driver between two steps; the driver is then found running.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as manager:
        if not _is_greeted(manager, path, deadline_s):
            return
        manager.sendall(START)
        answer = _line(manager, deadline_s)
        if answer is None:
            raise UnavailableDevice(
                f"the driver at {address} is being started and was not ready in time; try again later"
            )
        if answer.startswith(REFUSED):
            reason = answer.removeprefix(REFUSED).strip().decode(errors="replace")
            raise UnavailableDevice(f"the service manager does not start the driver at {address}: {reason}")


def _is_greeted(manager: socket.socket, path: Path, deadline_s: float) -> bool:
    """Connects; returns True if a service manager listens."""
    manager.settimeout(max(0.001, min(_GREETING_S, deadline_s - time.monotonic())))
    manager.connect(str(path))
    patience_s = _MANAGER_START_S if _is_of_supervisor(peer_of(manager).process) else _GREETING_S
    return _line(manager, min(deadline_s, time.monotonic() + patience_s), GREETING) == GREETING


def _is_of_supervisor(listening: int) -> bool:
    """Returns True if no manager runs, although somebody listens.

    Args:
        listening: the process that began to listen. If it has ended, a supervisor has the socket.
    """
    try:
        return Path(f"/proc/{listening}/comm").read_text().strip() == _SYSTEMD
    except OSError:
        return listening > 0


def _line(manager: socket.socket, deadline_s: float, expected: bytes | None = None) -> bytes | None:
    """Reads a line; returns None if it does not arrive in time.

    Args:
        manager: the connection.
        deadline_s: on the clock of `time.monotonic()`.
        expected: the line; reading ends as soon as another one arrives.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return None
        manager.settimeout(left_s)
        try:
            received = manager.recv(MAX_LINE_BYTES - len(line))
        except TimeoutError:
            return None
        line += received
        if not received or (expected is not None and not expected.startswith(line)):
            break
    return line

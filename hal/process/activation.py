"""Asks a service manager to start the driver behind a socket.

While a driver of a service manager does not run, the manager itself listens at the driver's socket.
It greets each client with a line, and a client that answers with a request gets another line once
the driver serves the socket, or a reason why it will not. A client that only tests whether the
socket is served, as `is_served` does, starts nothing, and neither does one that asks for the state
of the driver.
"""

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from neurald.hal.errors import DriverUnable, UnavailableDevice
from neurald.hal.process.address import Address

if TYPE_CHECKING:
    # Slow to import, and a process without service managers and daemons needs none.
    import socket

#: The name of the manager's own socket in the directory of its drivers' sockets.
MANAGER_SOCKET: Final = "manager.sock"
#: The name of the execution service's socket there.
SERVICE_SOCKET: Final = "service.sock"
#: The sockets there that are not those of drivers.
OTHER_SOCKETS: Final = frozenset((MANAGER_SOCKET, SERVICE_SOCKET))
#: The first line of the manager, the answer of a client, and the lines that the manager then sends.
GREETING: Final = b"neurald manager 1\n"
START: Final = b"start\n"
STATE: Final = b"state\n"
READY: Final = b"ready\n"
#: The answer to `STATE` of a driver that starts when it is needed.
STANDBY: Final = b"standby\n"
REFUSED: Final = b"refused "
#: Precedes the reason if the driver never became ready.
UNABLE: Final = b"unable "
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
        address: the address of the driver.
        deadline_s: when to stop waiting, on the clock of `time.monotonic()`.

    Raises:
        DriverUnable: its process ended before it could serve the device.
        UnavailableDevice: the manager does not start the driver, or not in time; the message says
            why.
    """
    path = address.path
    if path is None or not is_managed(path):
        return
    import socket

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
        _require_consent(answer, f"the service manager does not start the driver at {address}")


def is_managed(path: Path) -> bool:
    """Returns whether a service manager has its socket beside that of a driver.

    False also if the folder of another user hides it, as after `su` with kept variables.
    """
    return os.path.exists(path.with_name(MANAGER_SOCKET))  # noqa: PTH110 - never raises


def is_standing_by(address: Address) -> bool:
    """Returns whether a service manager stands in for a driver and starts it when it is needed.

    Asking starts nothing.

    Returns:
        False if there is no manager, or if the driver itself listens.

    Raises:
        UnavailableDevice: the manager does not start the driver now; the message says why.
    """
    path = address.path
    if path is None or not is_managed(path):
        return False
    import socket

    deadline_s = time.monotonic() + _GREETING_S
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as manager:
        if not _is_greeted(manager, path, deadline_s):
            return False
        manager.sendall(STATE)
        answer = _line(manager, deadline_s) or b""
        _require_consent(answer, f"the driver at {address} is not ready")
        return answer == STANDBY
    return False


def is_served(path: Path, *, or_forbidden: bool = False) -> bool:
    """Returns whether a process accepts connections at a UNIX socket.

    Args:
        path: the path of the socket.
        or_forbidden: the result if this user may not connect.
    """
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # it connects at once, unless the queue of the server is full
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.EACCES:
                return or_forbidden
            # A server also exists if its queue is full, or if it uses another type of socket.
            return error.errno in (errno.EAGAIN, errno.EPROTOTYPE)
    return True


def is_vacant(path: Path) -> bool:
    """Returns whether a driver has just died, and its service manager does not stand in for it yet.

    Args:
        path: the path of the driver's socket.
    """
    is_there = os.path.exists(path)  # noqa: PTH110 - never raises
    return is_there and not is_served(path) and is_served(path.with_name(MANAGER_SOCKET))


def _require_consent(answer: bytes, what: str) -> None:
    """Raises an error if a manager refuses.

    Raises:
        DriverUnable: the driver never became ready.
        UnavailableDevice: it is not started for another reason.
    """
    for beginning, kind in ((REFUSED, UnavailableDevice), (UNABLE, DriverUnable)):
        if answer.startswith(beginning):
            reason = answer.removeprefix(beginning).strip().decode(errors="replace")
            raise kind(f"{what}: {reason}")


def _is_greeted(manager: "socket.socket", path: Path, deadline_s: float) -> bool:
    """Connects; returns True if a service manager listens."""
    from neurald.hal.process.peer import peer_of

    manager.settimeout(max(0.001, min(_GREETING_S, deadline_s - time.monotonic())))
    manager.connect(str(path))
    patience_s = _MANAGER_START_S if is_of_supervisor(peer_of(manager).process) else _GREETING_S
    return _line(manager, min(deadline_s, time.monotonic() + patience_s), GREETING) == GREETING


def is_of_supervisor(listening: int) -> bool:
    """Returns True if no manager runs, although a process listens.

    Args:
        listening: the process that began to listen. If it has ended, a supervisor has the socket.
    """
    try:
        return Path(f"/proc/{listening}/comm").read_text().strip() == _SYSTEMD
    except OSError:
        return listening > 0


def _line(manager: "socket.socket", deadline_s: float, expected: bytes | None = None) -> bytes | None:
    """Reads a line; returns None if it does not arrive in time.

    Args:
        manager: the connection.
        deadline_s: the deadline on the clock of `time.monotonic()`.
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

"""Reports the state of a daemon to its supervisor.

The protocol is systemd's `sd_notify`: a datagram of `NAME=value` lines to the socket that the
environment variable NOTIFY_SOCKET names. A daemon is thus a service of `Type=notify`, under systemd
and under neurald's own service manager.
"""

import contextlib
import os
import socket
from typing import Final

#: The environment variable with the address of the supervisor's socket.
SOCKET_VARIABLE = "NOTIFY_SOCKET"
#: Environment variables with the time within which a supervisor wants to hear of a process, in
#: microseconds, and with the process.
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
WATCHDOG_PROCESS_VARIABLE = "WATCHDOG_PID"
#: Names of the values that a daemon sends.
READY: Final = "READY"
STOPPING: Final = "STOPPING"
WATCHDOG: Final = "WATCHDOG"
STATUS: Final = "STATUS"
#: The number of open sessions, 1 while an execution exceeds its time limit, and 1 once the device
#: is lost.
SESSIONS: Final = "X_NEURALD_SESSIONS"
#: What restricts the process: "full", "partial" or "off", and the missing parts.
SANDBOX: Final = "X_NEURALD_SANDBOX"
SANDBOX_MISSING: Final = "X_NEURALD_SANDBOX_MISSING"
HANGING: Final = "X_NEURALD_HANGING"
#: The ids of threads that live as long as the process serves clients, separated by commas.
THREADS: Final = "X_NEURALD_THREADS"
LOST: Final = "X_NEURALD_LOST"
#: How many processes that compiled models have died.
HELPER_DEATHS: Final = "X_NEURALD_HELPER_DEATHS"
#: What the process has done so far, as JSON; see `neurald.service.manager.state.DriverMetrics`.
METRICS: Final = "X_NEURALD_METRICS"


def supervisor_address() -> str | None:
    """Returns the address of the supervisor's socket; None if there is no supervisor.

    The variable is removed from the environment, so that processes that the daemon starts do not
    speak for it.
    """
    return os.environ.pop(SOCKET_VARIABLE, None) or None


def watchdog_interval_s() -> float | None:
    """Returns how often to report to the supervisor; None if it does not ask for it.

    The variables are removed from the environment, since they are for this process.
    """
    text = os.environ.pop(WATCHDOG_VARIABLE, "")
    process = os.environ.pop(WATCHDOG_PROCESS_VARIABLE, "")
    if process not in ("", str(os.getpid())) or not (text.isascii() and text.isdecimal()):
        return None
    # Two reports within the time, as systemd recommends.
    return int(text[:18]) / 2e6 or None


class Notifier:
    """Sends notifications. A daemon creates it before it enters its sandbox.

    Args:
        address: the address of the supervisor's socket; None sends nothing.
    """

    def __init__(self, address: str | None) -> None:
        self._socket: socket.socket | None = None
        if address is None:
            return
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            # A name that begins with @ is in the abstract namespace.
            opened.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        except OSError:
            opened.close()
            return
        self._socket = opened

    def send(self, **values: object) -> None:
        """Sends values. A supervisor that does not read them does not make the daemon wait."""
        if self._socket is None:
            return
        text = "\n".join(f"{name}={value}" for name, value in values.items())
        with contextlib.suppress(OSError):
            self._socket.send(text.encode())

    def close(self) -> None:
        """Closes the socket; nothing is sent any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

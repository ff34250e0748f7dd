"""Why a daemon cannot be reached: nobody listens, the socket is forbidden, its process is stopped, or there is no such host."""

import errno
import os
import socket
import struct
import time
from pathlib import Path

from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.address import Address

_PEER = struct.Struct("3i")  # pid, uid, gid: struct ucred
_NOBODY = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK, errno.ENOTDIR)
_FORBIDDEN = (errno.EACCES, errno.EPERM)


def require_listener(address: Address, deadline_s: float) -> None:
    """Returns if somebody listens at an address, which says nothing about whether he answers.

    Args:
        address: of a daemon.
        deadline_s: by which a connection must be there, on the clock of `time.monotonic()`.

    Raises:
        UnavailableDevice: nobody does, this user may not connect, or the host does not answer; the message says which.
    """
    try:
        if address.path is None:
            left_s = max(0.001, deadline_s - time.monotonic())
            socket.create_connection((address.numeric.host, address.port), left_s).close()
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            # Where the queue of the listener is full it waits for him, and that is told by another one.
            probe.setblocking(False)
            probe.connect(str(address.path))
            require_trusted(probe, str(address))
            _require_running(probe, address)
    except BlockingIOError:
        return
    except socket.gaierror as error:
        raise UnavailableDevice(f"the host of {address} is not known: {error.strerror}") from None
    except TimeoutError:
        raise UnavailableDevice(f"the host of {address} does not answer") from None
    except OSError as error:
        if error.errno in _NOBODY:
            raise UnavailableDevice(
                f"nobody listens at {address}: no driver daemon serves it; "
                f"start one with: neurald driver NAME --listen {address}"
            ) from None
        if error.errno in _FORBIDDEN:
            raise UnavailableDevice(
                f"permission denied: user {os.geteuid()} may not connect to {address}; "
                "a daemon serves its own user and root"
            ) from None
        if error.errno == errno.EPROTOTYPE:
            raise UnavailableDevice(f"what listens at {address} is no driver daemon") from None
        raise UnavailableDevice(f"{address} cannot be reached: {error.strerror or error}") from None


def require_trusted(connection: socket.socket, what: str) -> None:
    """Raises UnavailableDevice if the process that listens at a UNIX socket is another user's, who would see all data.

    Root may use anybody's daemon, as daemons serve root.

    Args:
        connection: to the socket.
        what: names the socket in messages.
    """
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise UnavailableDevice(
            f"what listens at {what} belongs to user {user}; a daemon of your own (user {os.geteuid()}) or of root "
            "is expected"
        )


def _require_running(probe: socket.socket, address: Address) -> None:
    """Raises UnavailableDevice if the process that listens is stopped, so that nobody has to wait to find out."""
    pid, _, _ = _PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return  # it cannot be seen from here
    if state == "T":
        raise UnavailableDevice(
            f"the daemon at {address} does not answer: its process is stopped; kill -CONT {pid} lets it go on"
        )

"""Explains why a daemon cannot be reached.

There may be no listener, a forbidden socket, a stopped process, or an unknown host.
"""

import contextlib
import errno
import grp
import os
import socket
import stat
import time
from pathlib import Path

from neurald.hal.errors import UnavailableDevice
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.address import Address
from neurald.hal.process.files.runtime_directory import machine_directory, machine_user
from neurald.hal.process.peer import described_user, peer_of

_NO_LISTENER = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK, errno.ENOTDIR)
_FORBIDDEN = (errno.EACCES, errno.EPERM)


def require_listener(address: Address, deadline_s: float) -> None:
    """Raises an error unless a process listens at an address; whether it answers is not checked.

    Args:
        address: the address of a daemon.
        deadline_s: the time by which a connection must be open, on the clock of
            `time.monotonic()`.

    Raises:
        UnavailableDevice: there is no listener, this user may not connect, or the host does not
            answer; the message says which.
    """
    try:
        if address.path is None:
            left_s = max(0.001, deadline_s - time.monotonic())
            socket.create_connection((address.numeric.host, address.port), left_s).close()
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            # With a full queue of the listener, connecting would wait. The actual connection will
            # report that.
            probe.setblocking(False)
            probe.connect(str(address.path))
            require_trusted(probe, address.path)
            _require_running(probe, address)
    except BlockingIOError:
        return
    except socket.gaierror as error:
        raise UnavailableDevice(f"the host of {address} is not known: {error.strerror}") from None
    except TimeoutError:
        raise UnavailableDevice(
            f"the host of {address} does not answer; check that it runs and that no firewall is in between"
        ) from None
    except OSError as error:
        if error.errno in _NO_LISTENER:
            raise UnavailableDevice(f"no driver daemon listens at {address}; {_remedy(address)}") from None
        if error.errno in _FORBIDDEN:
            raise UnavailableDevice(
                f"permission denied: {described_user(os.geteuid())} may not connect to {address}; "
                f"{_admitted(address.path)}"
            ) from None
        if error.errno == errno.EPROTOTYPE:
            raise UnavailableDevice(f"the process at {address} is not a driver daemon") from None
        raise UnavailableDevice(f"{address} cannot be reached: {system_reason(error)}") from None


def _remedy(address: Address) -> str:
    if address.path is not None and address.path.parent == machine_directory():
        return "`systemctl status neurald` shows the state of the machine's service"
    return f"start one with: neurald driver NAME --listen {address}"


def _admitted(path: Path | None) -> str:
    """Describes who may connect to a socket."""
    with contextlib.suppress(OSError, KeyError):
        status = path.lstat() if path is not None else None
        if status is not None and status.st_mode & stat.S_IWGRP:
            group = grp.getgrgid(status.st_gid).gr_name
            return f"the members of the group {group} may, if the operator of the driver admits them"
    return "a daemon serves its own user and root"


def require_trusted(connection: socket.socket, path: Path) -> None:
    """Raises UnavailableDevice if the listener at a UNIX socket belongs to another user.

    That user would see all data. Root may use the daemons of all users, as daemons serve root. The
    user of the machine's service is trusted with its sockets.

    Args:
        connection: the connection to the socket.
        path: the path of the socket.
    """
    user = peer_of(connection).user
    if user in (os.geteuid(), 0) or os.geteuid() == 0:
        return
    if path.parent != machine_directory() or user != machine_user():
        raise UnavailableDevice(
            f"the process at {path} belongs to user {user}; a daemon of your own (user {os.geteuid()}) or of "
            "root is expected"
        )


def _require_running(probe: socket.socket, address: Address) -> None:
    """Raises UnavailableDevice at once if the listening process is stopped."""
    require_running(peer_of(probe).process, f"the daemon at {address}")


def require_running(pid: int, server: str) -> None:
    """Raises UnavailableDevice if the process of a server, which the message names, is stopped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return  # the process is not visible
    if state == "T":
        raise UnavailableDevice(
            f"{server} does not answer: its process is stopped; kill -CONT {pid} continues it"
        )


def is_replaced(pid: int, address: Address) -> bool:
    """Returns whether another process than `pid` listens at a daemon's socket by now."""
    if address.path is None:
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        probe.connect(str(address.path))
        return peer_of(probe).process != pid
    return False

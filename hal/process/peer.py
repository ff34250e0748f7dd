"""The process at the other end of a UNIX socket, as the kernel knows it."""

import array
import contextlib
import pwd
import socket
import struct
from typing import Final

from msgspec import Struct

#: `struct ucred`: process, user and group.
CREDENTIALS: Final = struct.Struct("iII")
#: SO_PEERGROUPS has no name in Python. It is the same on x86, Arm and RISC-V.
_SO_PEERGROUPS: Final = 59
#: Python reads at most 1,024 bytes. Of a process in more groups, only the effective one is known.
_MAX_GROUPS: Final = 256


class Peer(Struct, frozen=True, kw_only=True):
    """A process at the time when it connected, or began to listen.

    Attributes:
        process: its id; 0 if it is not visible from here.
        user: its effective user.
        groups: its effective group and its supplementary groups.
    """

    process: int
    user: int
    groups: frozenset[int]


def peer_of(connection: socket.socket) -> Peer:
    """Returns the process at the other end of a connected UNIX socket.

    Raises:
        OSError: the kernel does not tell.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process, user, group = CREDENTIALS.unpack(credentials)
    groups = array.array("I")
    # Sockets whose other end has no such list, and kernels before 4.13, have none to give.
    with contextlib.suppress(OSError):
        groups.frombytes(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MAX_GROUPS))
    return Peer(process=process, user=user, groups=frozenset((group, *groups)))


def described_user(user: int) -> str:
    """Returns a user of this host for messages, with the name if there is one."""
    try:
        return f"user {pwd.getpwuid(user).pw_name} ({user})"
    except KeyError:
        return f"user {user}"

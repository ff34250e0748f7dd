"""One end of the socket of a lane: packets, with at most one descriptor each."""

import array
import contextlib
import os
import socket
from typing import Final

from neurald.hal.lanes.packets import MAX_PACKET_BYTES

_ONE_DESCRIPTOR: Final = socket.CMSG_SPACE(array.array("i").itemsize)


def pair() -> tuple[socket.socket, socket.socket]:
    """Creates the two ends of a lane's socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, packet: bytes, descriptor: int | None = None) -> None:
    """Sends a packet, with a descriptor if one is given.

    Raises:
        OSError: the other end is closed; BlockingIOError, if it does not read.
    """
    if descriptor is None:
        end.send(packet, socket.MSG_NOSIGNAL)
    else:
        socket.send_fds(end, [packet], [descriptor], socket.MSG_NOSIGNAL)


def receive(end: socket.socket) -> tuple[bytes, int | None]:
    """Receives a packet; it is empty at the end.

    The caller closes the descriptor, if one came along.

    Raises:
        OSError: the connection failed; BlockingIOError, if there is no packet now.
    """
    packet, ancillary, flags, _ = end.recvmsg(MAX_PACKET_BYTES, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
    found: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors = array.array("i")
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
            found.extend(descriptors)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(found) > 1:
        for descriptor in found:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        raise ConnectionAbortedError("a packet is too long, or has several descriptors")
    return packet, found[0] if found else None

"""Packets with descriptors on SEQPACKET sockets between processes. Nothing here ever waits for the peer."""

import array
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

_DESCRIPTOR_BYTES = array.array("i").itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """What came in one packet. Its receiver owns the descriptors.

    Attributes:
        data: no bytes at all when the peer has closed its end.
        is_whole: whether nothing of it was cut off.
        lacks_descriptors: whether descriptors were cut off because this process can have no more. The sender is not to blame.
    """

    data: bytes
    descriptors: tuple[int, ...]
    is_whole: bool
    lacks_descriptors: bool = False

    def close_descriptors(self) -> None:
        """Closes the descriptors of a packet that is refused."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def send_packet(connection: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> bool:
    """Whether the packet could be sent without waiting; who does not read what he gets is not served."""
    try:
        if descriptors:
            connection.sendmsg([data], rights(descriptors), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        else:
            connection.send(data, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True


def rights(descriptors: Sequence[int]) -> "list[tuple[int, int, array.array[int]]]":
    """Ancillary data that gives descriptors to the peer."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def receive_packet(connection: socket.socket, size_bytes: int, descriptors: int) -> Packet:
    """The next packet, of which as many bytes and descriptors are expected at the most.

    Raises:
        BlockingIOError: there is none.
        OSError: the connection broke.
    """
    found = array.array("i")
    # Room for one more: what did not fit would be dropped without a trace that all kernels leave.
    room = socket.CMSG_SPACE((descriptors + 1) * _DESCRIPTOR_BYTES)
    data, ancillary, flags, _ = connection.recvmsg(
        size_bytes, room, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    )
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % _DESCRIPTOR_BYTES])
    is_whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    # What was sent beyond the room fills it first.
    lacks_descriptors = bool(flags & socket.MSG_CTRUNC) and len(found) <= descriptors
    return Packet(data=data, descriptors=tuple(found), is_whole=is_whole, lacks_descriptors=lacks_descriptors)


def shut_down(connection: socket.socket) -> None:
    """Ends a connection for both ends, whoever waits for it; it is closed later."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

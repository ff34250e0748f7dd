"""Packets with descriptors on SEQPACKET sockets. No function here waits for the peer."""

import array
import contextlib
import os
import socket
from collections.abc import Sequence

from msgspec import Struct

_DESCRIPTOR_BYTES = array.array("i").itemsize
# Plain numbers: combining flags takes longer than a system call.
_SEND = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
_RECEIVE = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_TRUNCATED, _DESCRIPTORS_TRUNCATED = int(socket.MSG_TRUNC), int(socket.MSG_CTRUNC)


class Packet(Struct, frozen=True, kw_only=True):
    """A received packet. The receiver owns the descriptors.

    Attributes:
        data: empty if the peer has closed its end.
        descriptors: the descriptors that came with it.
        is_whole: whether nothing of it was truncated.
        lacks_descriptors: whether descriptors were dropped because this process has reached its
            limit. The sender is not to blame.
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
    """Sends a packet without waiting; returns False if that fails or the peer does not read."""
    try:
        if descriptors:
            connection.sendmsg([data], rights(descriptors), _SEND)
        else:
            connection.send(data, _SEND)
    except OSError:
        return False
    return True


def rights(descriptors: Sequence[int]) -> "list[tuple[int, int, array.array[int]]]":
    """Returns the ancillary data that passes descriptors to the peer."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def receive_packet(connection: socket.socket, size_bytes: int, descriptors: int) -> Packet:
    """Receives the next packet without waiting.

    Args:
        connection: a SEQPACKET socket.
        size_bytes: how many bytes are expected at most.
        descriptors: how many descriptors are expected at most.

    Raises:
        BlockingIOError: there is no packet.
        OSError: the connection broke.
    """
    received = array.array("i")
    # Space for one more: not all kernels report that surplus descriptors were dropped.
    room = socket.CMSG_SPACE((descriptors + 1) * _DESCRIPTOR_BYTES)
    data, ancillary, flags, _ = connection.recvmsg(size_bytes, room, _RECEIVE)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.frombytes(content[: len(content) - len(content) % _DESCRIPTOR_BYTES])
    is_whole = not flags & (_TRUNCATED | _DESCRIPTORS_TRUNCATED)
    # Surplus descriptors would have filled the space.
    lacks_descriptors = bool(flags & _DESCRIPTORS_TRUNCATED) and len(received) <= descriptors
    return Packet(
        data=data, descriptors=tuple(received), is_whole=is_whole, lacks_descriptors=lacks_descriptors
    )


def shut_down(connection: socket.socket) -> None:
    """Ends a connection for both ends, which wakes all waiting threads; it is closed later."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

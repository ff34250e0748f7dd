"""Packets with descriptors on SEQPACKET sockets. No function here waits for the peer.

Every application that compiles imports this module, so it uses the extension module of `socket`:
the tables of constants in the latter take a third of a MiB.
"""

import _socket
import array
import contextlib
import os
from collections.abc import Sequence

from msgspec import Struct

_DESCRIPTOR_BYTES = array.array("i").itemsize
_SEND = _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT
_RECEIVE = _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT
_TRUNCATED, _DESCRIPTORS_TRUNCATED = _socket.MSG_TRUNC, _socket.MSG_CTRUNC


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


def send_packet(connection: _socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> bool:
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
    return [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))]


def receive_packet(connection: _socket.socket, size_bytes: int, descriptors: int) -> Packet:
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
    room = _socket.CMSG_SPACE((descriptors + 1) * _DESCRIPTOR_BYTES)
    data, ancillary, flags, _ = connection.recvmsg(size_bytes, room, _RECEIVE)
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            received.frombytes(content[: len(content) - len(content) % _DESCRIPTOR_BYTES])
    is_whole = not flags & (_TRUNCATED | _DESCRIPTORS_TRUNCATED)
    # Surplus descriptors would have filled the space.
    lacks_descriptors = bool(flags & _DESCRIPTORS_TRUNCATED) and len(received) <= descriptors
    return Packet(
        data=data, descriptors=tuple(received), is_whole=is_whole, lacks_descriptors=lacks_descriptors
    )


def shut_down(connection: _socket.socket) -> None:
    """Ends a connection for both ends, which wakes all waiting threads; it is closed later."""
    with contextlib.suppress(OSError):
        connection.shutdown(_socket.SHUT_RDWR)

"""What a daemon and the process that compiles for it say to each other about one model.

Both ends of a job have a SEQPACKET socket. What is told goes in sealed memory, so that it may have any size:

    daemon -> child:     one memory with a `Job`, followed by the memories that the model's constants lie in
    child -> daemon:     one memory with an `Outcome`, followed by those of the artifact that have any bytes
    parent -> daemon:    how the child has ended, where it has told nothing before

A daemon that closes its end wants no answer any more.
"""

import os
import socket
import struct
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.rpc.transport.packet import receive_packet, rights

#: The number of memories that are still to come, with this packet's, and the size of the first one; or how a child ended.
_MEMORIES = struct.Struct("<BII")
_MEMORIES_KIND = 1
_END_KIND = 2
#: The kernel takes 253 with one packet.
_DESCRIPTORS = 200
_PACKET_BYTES = 8192
#: How long the other end may take to read or send what it does not compute for.
EXCHANGE_S = 30.0

_T = TypeVar("_T")


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A model to compile.

    Attributes:
        model: in wire form; its pools are the memories of these sizes that come with it.
        shapes: of inputs by operand; None: the model leaves none open.
        options: in wire form.
        device_version: of the daemon's device.
        compile_bytes, compile_s: see `neurald.hal.accounting.limits.Limits`.
        log_level: below which nobody wants to know what is logged.
    """

    model: bytes
    pools: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] | None
    options: bytes
    device_version: str
    compile_bytes: int
    compile_s: int
    log_level: int


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What came of a job.

    Attributes:
        code: 0, or that of an error.
        text: of the error.
        note: see `neurald.hal.compiling.contract.Compiled`.
        model, data: the sizes of the artifact's memories; None where there is no artifact.
        log: what was logged: name of the logger, level and text.
    """

    code: int = 0
    text: str = ""
    note: str = ""
    model: tuple[int, ...] | None = None
    data: tuple[int, ...] = ()
    log: tuple[tuple[str, int, str], ...] = ()


class End(msgspec.Struct, frozen=True, array_like=True):
    """How a child has ended that had told nothing.

    Attributes:
        signal: that ended it; 0 if none did.
        said: the last of what it wrote to its standard error.
    """

    signal: int
    said: str


def send_told(connection: socket.socket, told: msgspec.Struct, memories: Sequence[Memory]) -> None:
    """Sends a `Job` or an `Outcome`, and the memories that have any bytes.

    Raises:
        OSError: the other end is gone, or does not read.
        OutOfMemory: there is no memory for it.
    """
    head = SharedMemory.constant(memoryview(msgspec.msgpack.encode(told)), "neurald compile job")
    sent = [head, *(shareable(memory) for memory in memories if memory.size)]
    connection.settimeout(EXCHANGE_S)
    for start in range(0, len(sent), _DESCRIPTORS):
        part = sent[start : start + _DESCRIPTORS]
        packet = _MEMORIES.pack(_MEMORIES_KIND, len(sent) - start, head.size)
        connection.sendmsg([packet], rights([memory.fd for memory in part]), socket.MSG_NOSIGNAL)


def shareable(memory: Memory) -> SharedMemory:
    """The same bytes in memory that another process can map, and nobody can change: a copy where its descriptor is closed."""
    if isinstance(memory, SharedMemory) and memory.readonly and not memory.is_closed:
        return memory
    return SharedMemory.constant(memory.view(), "neurald compile job")


def send_end(connection: socket.socket, end: End) -> None:
    """Sends how a child has ended. Whoever does not want to know it is not told."""
    try:
        packet = bytes([_END_KIND]) + msgspec.msgpack.encode(end)
        connection.send(packet, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError:
        return


def receive_told(connection: socket.socket, kind: type[_T]) -> tuple[_T, list[int]] | End | None:
    """What `send_told` sent, and the descriptors of the memories that came with it; or what `send_end` sent.

    Is called when there is something to read. The caller owns the descriptors.

    Returns:
        None: the other end is closed.

    Raises:
        OSError: the connection broke, or the rest does not come.
        BadData: that is nothing of the kind.
    """
    descriptors: list[int] = []
    try:
        count, size = 1, 0
        connection.settimeout(EXCHANGE_S)
        while len(descriptors) < count:
            if descriptors:
                _await(connection)
            packet = receive_packet(connection, _PACKET_BYTES, _DESCRIPTORS)
            descriptors += packet.descriptors
            if not packet.data:
                return None
            if packet.data[0] == _END_KIND and not descriptors:
                return _decoded(packet.data[1:], End)
            if not packet.is_whole or len(packet.data) != _MEMORIES.size or not packet.descriptors:
                raise BadData("a packet that a compilation cannot take")
            if len(packet.descriptors) == len(descriptors):
                _, count, size = _MEMORIES.unpack(packet.data)
        head = SharedMemory.received(descriptors.pop(0), size, constant=True)
        told = _decoded(head.view(), kind)
        return told, [descriptors.pop(0) for _ in range(len(descriptors))]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def received_memories(descriptors: list[int], sizes: Sequence[int]) -> list[SharedMemory]:
    """The memories of descriptors that `receive_told` gave, which are taken over; those of no bytes are not among them.

    Raises:
        BadData: they are not of these sizes.
        OutOfMemory: there is no room for them.
    """
    try:
        if len(descriptors) != len(sizes):
            raise BadData(f"{len(descriptors)} memories of a compilation; {len(sizes)} are expected")
        return [SharedMemory.received(descriptors.pop(0), size, constant=True) for size in sizes]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def over_memory(limit_bytes: int) -> ResourceExhaustedPersistent:
    """The error for a compilation that takes too much memory."""
    return ResourceExhaustedPersistent(
        f"compiling the model takes more than the {limit_bytes} bytes of memory that it may (compile_bytes)"
    )


def over_time(limit_s: int) -> ResourceExhaustedPersistent:
    """The error for a compilation that takes too much time."""
    return ResourceExhaustedPersistent(
        f"compiling the model takes longer than the {limit_s} s that it may (compile_s)"
    )


def _await(connection: socket.socket) -> None:
    """Waits until there is something to read."""
    connection.recv(1, socket.MSG_PEEK)


def _decoded(data: bytes | memoryview, kind: type[_T]) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise BadData(f"that is no {kind.__name__} of a compilation: {error}") from None

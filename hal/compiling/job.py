"""The messages between a daemon or an application, the owner, and a process that compiles for it.

Each end of a job has a SEQPACKET socket. Messages are sent in sealed memory, so that they may have
any size:

    owner -> child:      one memory with a `CompileJob`, and the memories of the model's constants
    child -> owner:      one memory with a `CompileReply`, and the artifact's non-empty memories
    child -> owner:      before that, any number of `CompileProgress`
    parent -> owner:     a `ProcessExit`, if the child ended without a reply

An owner that closes its end no longer wants an answer. Jobs that an application leaves when it
exits have no answer: they say where the result is kept (`Keep`).
"""

import _socket
import os
import resource
import struct
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.store import CacheLocation
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import BadData, ResourceExhaustedPersistent, ResourceExhaustedTransient
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.transport.packet import receive_packet, rights

#: The head of a packet: its kind, the number of memories from this packet on, and the size of the
#: first memory.
_MEMORIES = struct.Struct("<BII")
_MEMORIES_KIND = 1
_EXIT_KIND = 2
_PROGRESS_KIND = 3
#: Maximum number of descriptors in one packet; the kernel's limit is 253.
_MAX_DESCRIPTORS = 200
_PACKET_BYTES = 8192
#: The packets by which a process gets the socket of a job: one that is wanted now, and one that is
#: done when the process that sends it has exited.
NOW = b"j"
LEFT = b"l"
#: How long the other end may take to read or send a message, apart from compiling.
EXCHANGE_S = 30.0
#: How much is kept of a log record, and of what a process has written to its standard error.
MAX_CHARACTERS = 2000

_T = TypeVar("_T")


class LocalModel(msgspec.Struct, frozen=True, array_like=True):
    """A model of the process that sends the job, without its constants and variables.

    It is several times as fast to encode and decode as a message of the wire protocol, and needs
    nothing of protobuf. Types of vendor extensions have other numbers in each process, so it must
    not contain any.
    """

    main: Subgraph
    referenced: tuple[Subgraph, ...]
    relaxed: bool

    @classmethod
    def of(cls, model: Model) -> "LocalModel":
        """Returns the form of a model that can be sent."""
        return cls(main=model.main, referenced=model.referenced, relaxed=model.relaxed)

    def model(self, pools: Sequence[Memory]) -> Model:
        """Returns the model, given the memories of its constants."""
        return Model(main=self.main, referenced=self.referenced, pools=tuple(pools), relaxed=self.relaxed)


class Keep(msgspec.Struct, frozen=True):
    """Names the place in the shared cache where the result of a job is kept.

    Attributes:
        parts: the parts of its key.
        model: short description of the model.
        shapes: sets of shapes of the inputs that the model leaves open, by operand.
    """

    parts: KeyParts
    model: str
    shapes: tuple[dict[int, tuple[int, ...]], ...] = ()


class CompileJob(msgspec.Struct, frozen=True, array_like=True):
    """A model to compile, or the code that all models of a device need.

    Attributes:
        model: encoded as in messages of the wire protocol, or a model of this process; None for the
            code that all models need.
        pools: sizes of the memories of its constants, which follow.
        shapes: the shapes of inputs that the model leaves open, by operand; None if it leaves none
            open.
        options: encoded as in messages of the wire protocol; empty for the default options.
        device_version: the device version of the owner's device.
        compile_bytes: see `neurald.hal.accounting.limits.Limits`.
        compile_s: see `neurald.hal.accounting.limits.Limits`.
        is_open: see `neurald.hal.compiling.contract.CompilesApart.compile`.
        shared_cache: the cache of what models share; None for the models of a daemon's clients,
            which must not affect each other.
        log_level: records below this level are not wanted.
        keep: where the result is kept, of a job without an answer.
    """

    model: bytes | LocalModel | None
    pools: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] | None
    options: bytes
    device_version: str
    compile_bytes: int
    compile_s: int
    is_open: bool
    shared_cache: CacheLocation | None
    log_level: int
    keep: Keep | None = None


class CompileReply(msgspec.Struct, frozen=True, array_like=True):
    """The result of a job.

    Attributes:
        code: 0, or the result code of an error.
        text: the text of the error.
        note: see `neurald.hal.device.CompileResult`.
        model: sizes of the artifact's model memories; None without an artifact.
        data: sizes of the artifact's data memories.
        log: log records: name of the logger, level and text.
    """

    code: int = 0
    text: str = ""
    note: str = ""
    model: tuple[int, ...] | None = None
    data: tuple[int, ...] = ()
    log: tuple[tuple[str, int, str], ...] = ()


class ProcessExit(msgspec.Struct, frozen=True, array_like=True):
    """The end of a child that sent no reply.

    Attributes:
        signal: the signal that ended it; 0 if none did.
        stderr: the last of what it wrote to its standard error.
    """

    signal: int
    stderr: str


class CompileProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a job.

    Attributes:
        percent: the percentage of the work that is done.
    """

    percent: int


def send_message(connection: _socket.socket, message: msgspec.Struct, memories: Sequence[Memory]) -> None:
    """Sends a `CompileJob` or a `CompileReply`, and the memories that are not empty.

    Raises:
        OSError: the other end is gone, or does not read.
        OutOfMemory: there is no memory for the message.
    """
    head = SharedMemory.constant(memoryview(msgspec.msgpack.encode(message)), "neurald compile job")
    sent = [head, *(shareable(memory) for memory in memories if memory.size)]
    connection.settimeout(EXCHANGE_S)
    for start in range(0, len(sent), _MAX_DESCRIPTORS):
        part = sent[start : start + _MAX_DESCRIPTORS]
        packet = _MEMORIES.pack(_MEMORIES_KIND, len(sent) - start, head.size)
        connection.sendmsg([packet], rights([memory.fd for memory in part]), _socket.MSG_NOSIGNAL)


def shareable(memory: Memory) -> SharedMemory:
    """Returns the same bytes in immutable memory that another process can map, copied if needed."""
    if isinstance(memory, SharedMemory) and memory.readonly and not memory.is_closed:
        return memory
    return SharedMemory.constants([(memory, 0, memory.size)], "neurald compile job")


def last_text(descriptor: int) -> str:
    """Returns the end of a file in memory that has received the standard error of a process."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, MAX_CHARACTERS, max(0, size - MAX_CHARACTERS)).decode("utf-8", "replace")


def send_exit(connection: _socket.socket, status: ProcessExit) -> None:
    """Sends how a child has ended. Errors are ignored: the owner may have closed its end."""
    try:
        packet = bytes([_EXIT_KIND]) + msgspec.msgpack.encode(status)
        connection.send(packet, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
    except OSError:
        return


def send_progress(connection: _socket.socket, percent: int) -> None:
    """Sends a `CompileProgress`. It is dropped if the owner does not read fast enough."""
    try:
        packet = bytes([_PROGRESS_KIND]) + msgspec.msgpack.encode(CompileProgress(percent))
        connection.send(packet, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
    except OSError:
        return


def receive_message(
    connection: _socket.socket, kind: type[_T]
) -> tuple[_T, list[int]] | ProcessExit | CompileProgress | None:
    """Receives what `send_message`, `send_progress` or `send_exit` sent, once it can be read.

    Args:
        connection: this end of the job's socket.
        kind: type of the expected message.

    Returns:
        The message and the descriptors of the memories that follow it, which the caller owns; or a
            `ProcessExit` or `CompileProgress`; None if the other end is closed.

    Raises:
        OSError: the connection broke, or a part of the message did not arrive in time.
        BadData: a packet is not valid.
        ResourceExhaustedTransient: this process may have no more descriptors.
    """
    descriptors: list[int] = []
    try:
        count, size = 1, 0
        connection.settimeout(EXCHANGE_S)
        while len(descriptors) < count:
            if descriptors:
                _wait_readable(connection)
            packet = receive_packet(connection, _PACKET_BYTES, _MAX_DESCRIPTORS)
            descriptors += packet.descriptors
            if not packet.data:
                return None
            if packet.data[0] == _EXIT_KIND and not descriptors:
                return _decoded(packet.data[1:], ProcessExit)
            if packet.data[0] == _PROGRESS_KIND and not descriptors:
                return _decoded(packet.data[1:], CompileProgress)
            if packet.lacks_descriptors:
                raise ResourceExhaustedTransient(
                    "a packet of a compilation cannot be received: the process has reached its limit of descriptors"
                )
            if not packet.is_whole or len(packet.data) != _MEMORIES.size or not packet.descriptors:
                raise BadData("a packet of a compilation is not valid")
            if len(packet.descriptors) == len(descriptors):
                _, count, size = _MEMORIES.unpack(packet.data)
        head = SharedMemory.received(descriptors.pop(0), size, constant=True)
        message = _decoded(head.view(), kind)
        return message, [descriptors.pop(0) for _ in range(len(descriptors))]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def received_memories(descriptors: list[int], sizes: Sequence[int]) -> list[SharedMemory]:
    """Maps the memories of descriptors from `receive_message`, which it takes over.

    Args:
        descriptors: the descriptors of the memories.
        sizes: the sizes of the memories; empty memories are not among them.

    Raises:
        BadData: they have other sizes.
        OutOfMemory: they cannot be mapped.
    """
    try:
        if len(descriptors) != len(sizes):
            raise BadData(f"a compilation sent {len(descriptors)} memories; {len(sizes)} are expected")
        return [SharedMemory.received(descriptors.pop(0), size, constant=True) for size in sizes]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def memory_exceeded(limit_bytes: int, *, is_file: bool = False) -> ResourceExhaustedPersistent:
    """Returns the error for a compilation that needs too much memory.

    A lower limit that this process was started with is named in place of the given one.

    Args:
        limit_bytes: the limit of the compilation.
        is_file: whether a file was too large, to which shared memory counts, too.
    """
    # Shared memory does not count as data, and the artifact exists twice while it is sent.
    own = (("RLIMIT_FSIZE", 1),) if is_file else (("RLIMIT_DATA", 1), ("RLIMIT_AS", 2))
    for name, times in own:
        _, hard_limit = resource.getrlimit(getattr(resource, name))
        if hard_limit != resource.RLIM_INFINITY and hard_limit < times * limit_bytes:
            return ResourceExhaustedPersistent(
                f"compiling the model takes more than the {hard_limit} bytes that the system allows the process "
                f"({name}), less than the compilation's own limit of {limit_bytes} bytes; start the daemon or "
                "application with a higher one"
            )
    return ResourceExhaustedPersistent(
        f"compiling the model takes more than its limit of {limit_bytes} bytes of memory (compile_bytes)"
    )


def time_exceeded(limit_s: int) -> ResourceExhaustedPersistent:
    """Returns the error for a compilation that takes too much time."""
    return ResourceExhaustedPersistent(
        f"compiling the model takes longer than its limit of {limit_s} s (compile_s)"
    )


def _wait_readable(connection: _socket.socket) -> None:
    """Waits until there is something to read, within the timeout of the socket."""
    connection.recv(1, _socket.MSG_PEEK)


def _decoded(data: bytes | memoryview, kind: type[_T]) -> _T:
    try:
        return from_msgpack(data, kind)
    except DECODE_ERRORS as error:
        raise BadData(f"a message of a compilation is not a valid {kind.__name__}: {error}") from None

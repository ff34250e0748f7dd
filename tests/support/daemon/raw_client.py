"""A client that can break every rule: it sends any bytes as messages, and any descriptors.

Unlike `support.daemon.peer` it shares no code with the library's client and only needs an address,
so it can attack daemons in other processes.
"""

import array
import contextlib
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import grpc
from google.protobuf.message import Message

from neurald._proto import device_pb2, types_pb2
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.transport.ring_end import RING_BYTES, RingEnd, RingSide
from neurald.hal.rpc.transport.ring_packet import (
    ANSWER,
    MEMORY,
    MEMORY_HEAD,
    SUBMISSION,
    pack_arguments,
    request_packet,
)
from neurald.hal.rpc.wire.model import model_to_wire

SERVICE = "/neurald.v1.Device/"
CONSTANT, FENCE, RING = 1, 2, 4
#: Seals of a memory: neither its size nor its seals can change.
SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
OPTIONS = device_pb2.PrepareOptions(preference=1, priority=100)  # type: ignore[arg-type]
#: Alignment of arguments in bytes.
STRIDE = 64

_GREETING = b"neurald1"
_REGISTRATION = struct.Struct("<QB")
_ANSWER = struct.Struct("<B16s")
_PACKET_BYTES = 1024
_TIMEOUT_S = 20.0
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Outcome of a call: `OK` and bytes, or the name of another status and its text."""

    status: str
    data: bytes = b""
    text: str = ""

    @property
    def is_ok(self) -> bool:
        """True if the call succeeded."""
        return self.status == "OK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer on the side channel: a result code, and a token or a text."""

    code: int
    token: bytes
    text: str = ""


class RawClient:
    """A separate connection, optionally with a session.

    Args:
        address: of the daemon.
        metadata: sent with every call.
    """

    def __init__(self, address: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.address = Address.parse(address)
        self.metadata = metadata
        # Messages are bytes here, which stubs do not support.
        self.channel: Any = grpc.insecure_channel(self.address.target, _CHANNEL_OPTIONS)
        self.side: socket.socket | None = None
        self._stream: Any = None

    @classmethod
    def opened(cls, address: str) -> Self:
        """Creates a client with a session."""
        client = cls(address)
        try:
            client.open()
        except BaseException:
            client.close()
            raise
        return client

    def open(self) -> None:
        """Opens a session.

        Raises:
            ConnectionRefusedError: the daemon refuses.
        """
        if self.address.path is None:
            self._stream = self.channel.unary_stream(f"{SERVICE}OpenSession")(b"", metadata=self.metadata)
            try:
                session = device_pb2.OpenSessionReply.FromString(next(self._stream)).session
            except grpc.RpcError as error:
                raise ConnectionRefusedError(str(error)) from None
        else:
            self.side = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.side.settimeout(_TIMEOUT_S)
            self.side.connect(str(self.address.memory_path))
            packet = self.side.recv(_PACKET_BYTES)
            if not packet.startswith(_GREETING):
                raise ConnectionRefusedError(f"the daemon greets with {packet!r}")
            answer = _read(packet.removeprefix(_GREETING))
            if answer.code:
                raise ConnectionRefusedError(answer.text)
            session = answer.token
        self.metadata = (*self.metadata, ("neurald-session", session.hex()))

    # Calls

    def begin(self, method: str, message: Message | bytes, timeout_s: float = _TIMEOUT_S) -> Any:
        """Starts a call; returns gRPC's future."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        call = self.channel.unary_unary(method if method.startswith("/") else SERVICE + method)
        return call.future(data, metadata=self.metadata, timeout=timeout_s)

    def call(self, method: str, message: Message | bytes = b"", timeout_s: float = _TIMEOUT_S) -> Reply:
        """Calls a method with any bytes as the message."""
        return reply_of(self.begin(method, message, timeout_s))

    # The side channel

    def send(self, data: bytes, *descriptors: int) -> None:
        """Sends one packet of any content."""
        assert self.side is not None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self.side.sendmsg([data], rights if descriptors else [])

    def give(self, size: int, flags: int, *descriptors: int) -> Answer:
        """Sends one well-formed packet; returns the answer.

        Raises:
            ConnectionError: the daemon has disconnected this client.
        """
        assert self.side is not None
        self.send(_REGISTRATION.pack(size, flags), *descriptors)
        packet = self.side.recv(_PACKET_BYTES)
        if not packet:
            raise ConnectionResetError("the daemon closed the side channel")
        return _read(packet)

    def token(self, size: int, flags: int, *descriptors: int) -> bytes:
        """Sends one well-formed packet; returns the token in the answer.

        Raises:
            ConnectionError: the daemon refuses the descriptors.
        """
        return _token(self.give(size, flags, *descriptors))

    def give_memory(self, size: int) -> Answer:
        """Gives new memory to the daemon, without keeping a reference; returns the answer."""
        fd = memfd(size)
        try:
            return self.give(size, 0, fd)
        finally:
            os.close(fd)

    def memory(self, size: int) -> bytes:
        """Gives new memory to the daemon; returns its token. Raises as `token` does."""
        return _token(self.give_memory(size))

    # Ordinary calls

    def prepare(self, model: Model, *, timeout_s: float = _TIMEOUT_S) -> int:
        """Prepares a model without validating it; returns the handle."""
        return self.prepared(reply_of(self.begin_prepare(model, timeout_s=timeout_s)))

    def begin_prepare(self, model: Model, *, timeout_s: float = _TIMEOUT_S) -> Any:
        """Starts the preparation of a model; returns gRPC's future."""
        message = device_pb2.PrepareModelRequest(model=self.on_wire(model), options=OPTIONS)
        return self.begin("PrepareModel", message, timeout_s)

    def on_wire(self, model: Model) -> types_pb2.Model:
        """Gives a model's constants to the daemon; returns the model's message."""
        sealed = seal_constants(model)
        pools = [pool for pool in sealed.pools if isinstance(pool, SharedMemory)]
        return model_to_wire(sealed, [self.token(pool.size, CONSTANT, pool.fd) for pool in pools])

    def prepared(self, reply: Reply) -> int:
        """Returns the handle in the reply to a preparation.

        Raises:
            ConnectionRefusedError: the preparation failed.
        """
        if not reply.is_ok:
            raise ConnectionRefusedError(f"{reply.status}: {reply.text}")
        return device_pb2.PrepareModelReply.FromString(reply.data).prepared_model

    def execution(
        self, handle: int, inputs: Iterable[int], outputs: Iterable[int], **options: Any
    ) -> device_pb2.ExecuteRequest:
        """Creates a request in new memory.

        Args:
            handle: of the prepared model.
            inputs, outputs: size of each in bytes.
            options: fields of `ExecuteOptions`.
        """
        request = device_pb2.ExecuteRequest(prepared_model=handle)
        offset = 0
        for arguments, sizes in ((request.request.inputs, inputs), (request.request.outputs, outputs)):
            for size in sizes:
                arguments.add(pool=0, offset=offset, length=size)
                offset += -(-size // STRIDE) * STRIDE
        request.request.pools.add(memory=self.memory(offset))
        request.options.loop_timeout_s = 2.0
        for name, value in options.items():
            setattr(request.options, name, value)
        return request

    def close(self) -> None:
        """Closes the connection, which ends all running calls."""
        if self.side is not None:
            self.side.close()
        if self._stream is not None:
            self._stream.cancel()
        self.channel.close()


class RawBurst:
    """The client side of a burst, with arbitrary submissions.

    Args:
        client: with a session on a UNIX socket.
        handle: of a prepared model.
        inputs, outputs: size of each argument in bytes.
    """

    def __init__(self, client: RawClient, handle: int, inputs: Iterable[int], outputs: Iterable[int]) -> None:
        self._ring_memory = SharedMemory.create(RING_BYTES)
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(_TIMEOUT_S)
        try:
            client.token(0, RING, theirs.fileno(), self._ring_memory.fd)
        finally:
            theirs.close()
        self.ring = RingEnd(self._ring_memory, self.connection, RingSide.CLIENT)
        places: list[list[Argument]] = []
        offset = 0
        for sizes in (inputs, outputs):
            places.append([])
            for size in sizes:
                places[-1].append(Argument(pool=0, offset=offset, length=size))
                offset += -(-size // STRIDE) * STRIDE
        self._memory = SharedMemory.create(offset)
        request = Request(inputs=tuple(places[0]), outputs=tuple(places[1]), pools=())
        self._ask(MEMORY_HEAD.pack(MEMORY, 1, offset, False), self._memory.fd)
        self._ask(request_packet(0, handle, pack_arguments(request, (1,))))

    def _ask(self, packet: bytes, *descriptors: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self.connection.sendmsg([packet], rights if descriptors else [])
        answer = self.connection.recv(1 << 16)
        while answer and answer[0] != ANSWER:
            answer = self.connection.recv(1 << 16)
        if not answer or answer[1]:
            raise ConnectionRefusedError(f"the daemon answers {answer!r}")

    def submit(self, left_s: float, loop_timeout_s: float = 2.0) -> None:
        """Submits an execution without waiting for it."""
        self.ring.put(SUBMISSION.pack(0, False, left_s, loop_timeout_s))

    def is_done_within(self, timeout_s: float) -> bool:
        """Returns True if the daemon has answered, or ended the burst, within the timeout."""
        self.connection.settimeout(timeout_s)
        try:
            while not self.ring.sleep(timeout_s):
                if not self.connection.recv(1 << 16):
                    return True
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        self.ring.take()
        return True

    def close(self) -> None:
        """Ends the burst."""
        self.connection.close()


class Held:
    """An iterator of messages that pauses after the first ones until `let_go` is called."""

    def __init__(self, *first: bytes) -> None:
        self._first = list(first)
        self._is_over = threading.Event()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._first:
            return self._first.pop(0)
        self._is_over.wait()
        raise StopIteration

    def let_go(self) -> None:
        """Ends the iterator."""
        self._is_over.set()


def reply_of(future: Any) -> Reply:
    """Waits for a call; returns its outcome."""
    try:
        return Reply(status="OK", data=future.result())
    except grpc.FutureCancelledError:
        return Reply(status="CANCELLED")
    except grpc.RpcError as error:
        return Reply(status=error.code().name, text=error.details() or "")


def memfd(size: int, seals: int = SIZE_SEALS) -> int:
    """Creates a sealed memfd, which may be sparse."""
    fd = os.memfd_create("raw", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(fd)
        raise
    return fd


def closed(*clients: RawClient) -> None:
    """Context manager that closes clients in any state."""
    for client in clients:
        with contextlib.suppress(OSError, ValueError):
            client.close()


def _token(answer: Answer) -> bytes:
    if answer.code:
        raise ConnectionRefusedError(answer.text)
    return answer.token


def _read(packet: bytes) -> Answer:
    code, token = _ANSWER.unpack_from(packet)
    return Answer(code=code, token=token, text=packet[_ANSWER.size :].decode("utf-8", "replace"))

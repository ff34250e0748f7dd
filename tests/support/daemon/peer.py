"""A client that sends arbitrary messages of the wire contract."""

import threading
from typing import Any

import grpc
import numpy as np
from support.models.addition import addition

from neurald._proto import device_pb2, types_pb2
from neurald._proto.device_pb2_grpc import DeviceStub
from neurald.hal.admission.sessions.session import Session
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.access_token import client_token, token_metadata
from neurald.hal.rpc.transport.status import SESSION_KEY, error_from
from neurald.hal.rpc.wire.model import model_to_wire

CONSTANT = np.arange(6, dtype=np.float32).reshape(2, 3)
MODEL = addition(CONSTANT)
OPTIONS = device_pb2.PrepareOptions(preference=1, priority=100)  # type: ignore[arg-type]


class Peer:
    """A client that sends arbitrary messages of the wire contract, optionally with a session."""

    def __init__(self, server: DeviceServer) -> None:
        address = server.address
        # A separate connection, so that peers do not share streams.
        self._channel = grpc.insecure_channel(
            address.numeric.target, (("grpc.use_local_subchannel_pool", 1),)
        )
        self.access = token_metadata(client_token(address))
        self.stub: Any = DeviceStub(self._channel)  # type: ignore[no-untyped-call]
        self.side: ChannelClient | None = None
        if address.path is not None:
            self.side = ChannelClient.connect(address.memory_path, 5.0)
            session = self.side.session
        else:
            self._stream = self.stub.OpenSession(device_pb2.OpenSessionRequest(), metadata=self.access)
            session = next(self._stream).session
        self.metadata = (*self.access, (SESSION_KEY, session.hex()))

    def call(self, method: str, message: Any) -> Any:
        try:
            return getattr(self.stub, method)(message, metadata=self.metadata, timeout=20)
        except grpc.RpcError as failure:
            raise error_from(failure, "the daemon") from None

    def raw(self, method: str, data: bytes) -> grpc.StatusCode:
        """Calls a method with these bytes as the message; returns the status."""
        try:
            call: Any = self._channel.unary_unary(f"/{SERVICE}/{method}")
            call(data, metadata=self.metadata, timeout=20)
        except grpc.RpcError as failure:
            return failure.code()
        return grpc.StatusCode.OK

    def memory(self, content: bytes, *, constant: bool = False) -> bytes:
        """Creates a memory with this content; returns its token."""
        if self.side is None:
            parts = [device_pb2.WriteMemoryRequest(size_bytes=len(content))]
            parts += [device_pb2.WriteMemoryRequest(chunk=content)]
            return bytes(self.call("WriteMemory", iter(parts)).memory)
        if constant:
            return self.side.register(SharedMemory.constant(memoryview(content)))
        memory = SharedMemory.create(len(content))
        memory.view()[:] = content
        return self.side.register(memory)

    def prepare(self) -> int:
        message = model_to_wire(MODEL, [self.memory(CONSTANT.tobytes(), constant=True)])
        reply = self.call("PrepareModel", device_pb2.PrepareModelRequest(model=message, options=OPTIONS))
        return int(reply.prepared_model)

    def close(self) -> None:
        if self.side is not None:
            self.side.close()
        self._channel.close()


def execution(handle: int, *pools: Any, inputs: int = 0, outputs: int = 1, length: int = 24) -> Any:
    """Creates a request whose inputs and outputs each take a whole pool."""
    return device_pb2.ExecuteRequest(
        prepared_model=handle,
        request=types_pb2.Request(
            inputs=[types_pb2.Argument(pool=inputs, length=length)],
            outputs=[types_pb2.Argument(pool=outputs, length=length)],
            pools=pools,
        ),
    )


def pool(token: bytes) -> types_pb2.RequestPool:
    return types_pb2.RequestPool(memory=token)


RESULTS = types_pb2.RequestPool(results_bytes=24)


def read(peer: Peer, token: bytes) -> bytes:
    stream = peer.stub.ReadMemory(device_pb2.ReadMemoryRequest(memory=token), metadata=peer.metadata)
    return b"".join(part.chunk for part in stream)


def session_of(server: DeviceServer) -> Session:
    """Returns the only session of a server."""
    (session,) = server.handler.sessions.all()
    return session


def ring_threads() -> int:
    """Returns the number of threads of this process that serve rings."""
    return sum(thread.name == "neurald ring" for thread in threading.enumerate())

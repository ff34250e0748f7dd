"""Device buffers in a daemon. Their bytes only reach the client if they are copied."""

import weakref
from collections.abc import Container, Sequence

from neurald._proto import device_pb2, types_pb2
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import DeadObject
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import Dimensions
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.wire.model import dimensions_to_wire


class RemoteBuffer(DeviceBuffer):
    """A buffer that a daemon's device has allocated; the last reference releases it."""

    def __init__(self, connection: Connection, token: int) -> None:
        super().__init__()
        self._connection = connection
        self._token = token
        message = device_pb2.ReleaseBufferRequest(buffer=token)
        weakref.finalize(self, connection.call_in_background, "ReleaseBuffer", message).atexit = False

    @property
    def is_lost(self) -> bool:
        """See `DeviceBuffer.is_lost`: the buffer ends with its session."""
        return not self._connection.is_open

    def pool_for(self, connection: Connection) -> types_pb2.RequestPool:
        """Returns the pool of a request through `connection` that refers to this buffer.

        Raises:
            DeadObject: it was allocated through another connection, which is over.
        """
        if connection is not self._connection:
            raise DeadObject(
                "a device buffer belongs to a session with its daemon that is over; allocate another one"
            )
        return types_pb2.RequestPool(buffer=self._token)

    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """See `DeviceBuffer.write`."""
        message = device_pb2.CopyToBufferRequest(
            buffer=self._token, dimensions=dimensions_to_wire(dimensions)
        )
        if self._connection.is_local and not isinstance(source, SharedMemory):
            shared = SharedMemory.create(source.size)
            source.read(shared)
            source = shared
        tokens = self._connection.send_memories((source,))
        message.memory = tokens[0]
        self._connection.call("CopyToBuffer", message, tokens=tokens)

    def read(self, target: Memory) -> None:
        """See `DeviceBuffer.read`."""
        message = device_pb2.CopyFromBufferRequest(buffer=self._token)
        if not self._connection.is_local:
            reply = self._connection.call("CopyFromBuffer", message)
            self._connection.read_memory(reply.result, target)
            return
        shared = target if isinstance(target, SharedMemory) else SharedMemory.create(target.size)
        tokens = self._connection.send_memories((shared,))
        message.memory = tokens[0]
        self._connection.call("CopyFromBuffer", message, tokens=tokens)
        if shared is not target:
            shared.read(target)


def send_pools(
    connection: Connection, pools: Sequence[Memory], results: Container[int], options: ExecuteOptions
) -> tuple[list[types_pb2.RequestPool], list[bytes]]:
    """Sends the pools of a request to a daemon: buffers by token, memories as such.

    Args:
        connection: the connection to the daemon.
        pools: the pools of the request.
        results: indexes of the pools that the daemon must allocate, and whose bytes are read
            afterwards.
        options: the options of the execution, whose deadline and cancellation limit this.

    Returns:
        The pools of the request's message, and the tokens of the memories that were sent.

    Raises:
        DeadObject: the daemon is gone, or a buffer's session is over.
        Error: the daemon refuses a memory.
    """
    named = [
        pool.pool_for(connection)
        if isinstance(pool, RemoteBuffer)
        else types_pb2.RequestPool(results_bytes=pool.size if number in results else None)
        for number, pool in enumerate(pools)
    ]
    sent = [number for number, pool in enumerate(named) if pool.WhichOneof("kind") is None]
    memories = (pools[number] for number in sent)
    tokens = connection.send_memories(memories, options.deadline_s, options.cancellation)
    for number, token in zip(sent, tokens, strict=True):
        named[number].memory = token
    return named, tokens

"""Transfers memories between a client and a daemon."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import grpc

from neurald._proto import device_pb2
from neurald.hal.errors import BadData, Cancelled, OpFailed
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.rpc.client.calls import answer_silence
from neurald.hal.rpc.client.calls.background_calls import BackgroundQueue
from neurald.hal.rpc.client.calls.call_start import start_call
from neurald.hal.rpc.client.calls.client_calls import ClientCalls, call_timeout_s, cancelling
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.transport.data_chunks import Packer
from neurald.hal.rpc.transport.status import CHUNK_BYTES
from neurald.hal.sync.cancellation import Cancellation

#: Memory is sent in pieces of this size: a daemon keeps a buffer for as much as a connection
#: receives at once.
_PART_BYTES: Final = CHUNK_BYTES // 4


class MemoryTransfer:
    """Sends memories to a daemon, and copies memories of the daemon. Thread-safe.

    Memories are named by tokens, each for one call.

    Args:
        calls: makes the calls of the session.
        stub: the daemon's methods.
        side_channel: shares memory with a daemon on this host; None for one on another host.
        background_calls: takes calls whose reply is ignored.
        packs: whether the daemon takes chunks that may be compressed.
    """

    def __init__(
        self,
        calls: ClientCalls,
        stub: Any,
        side_channel: ChannelClient | None,
        background_calls: BackgroundQueue,
        *,
        packs: bool,
    ) -> None:
        self._calls = calls
        self._stub = stub
        self._side_channel = side_channel
        self._packs = packs
        self._background_calls = background_calls

    def send(
        self,
        memories: Iterable[Memory],
        bytes_per_s: float,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[bytes]:
        """Sends memories to the daemon, without a copy if possible; returns tokens for one call.

        Args:
            memories: the memories.
            bytes_per_s: the speed of the link; 0 if it was not measured.
            deadline_s: the deadline on the clock of `time.monotonic()`.
            cancellation: ends this.

        Raises:
            Cancelled: `cancellation` was cancelled before the daemon had all memories.
            DeadObject: the daemon is gone.
            Error: the daemon refuses a memory.
        """
        tokens: list[bytes] = []
        try:
            for memory in memories:
                self._send_one(memory, tokens, bytes_per_s, deadline_s, cancellation)
        except BaseException:  # a signal handler may raise any
            self.release(tokens)
            raise
        return tokens

    def _send_one(
        self,
        memory: Memory,
        tokens: list[bytes],
        bytes_per_s: float,
        deadline_s: float | None,
        cancellation: Cancellation | None,
    ) -> None:
        """Sends a memory to the daemon, and appends its token; see `send`."""
        if self._side_channel is not None and isinstance(memory, SharedMemory):
            with self._calls.failures():
                tokens.append(self._side_channel.register(memory, deadline_s, cancellation))
            self.release(self._side_channel.take_unused())
            return

        packer = Packer(bytes_per_s)

        def parts() -> Iterator[device_pb2.WriteMemoryRequest]:
            yield device_pb2.WriteMemoryRequest(size_bytes=memory.size)
            for offset in range(0, memory.size, _PART_BYTES):
                chunk = memory.view(offset, min(_PART_BYTES, memory.size - offset))
                yield (
                    device_pb2.WriteMemoryRequest(packed=packer.pack(chunk).message)
                    if self._packs
                    else device_pb2.WriteMemoryRequest(chunk=chunk.tobytes())
                )

        try:
            with self._calls.failures():
                reply = self._calls.invoke(
                    "WriteMemory",
                    self._stub.WriteMemory,
                    parts(),
                    call_timeout_s(deadline_s),
                    self._calls.metadata,
                    cancellation,
                )
        except grpc.FutureCancelledError:
            raise Cancelled("the execution was cancelled while its memory was sent") from None
        self._calls.require_answer("WriteMemory", reply)
        tokens.append(bytes(reply.memory))

    def read(
        self,
        token: bytes,
        target: Memory,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Copies a memory of the daemon to one of the same size.

        Args:
            token: the token of the daemon's memory.
            target: the memory to fill.
            deadline_s: the deadline on the clock of `time.monotonic()`.
            cancellation: ends this.

        Raises:
            Cancelled: `cancellation` was cancelled before all bytes arrived.
            DeadObject: the daemon is gone.
            BadData: the daemon sent more bytes, or none in a part.
            OpFailed: the daemon sent fewer bytes, or nothing for long.
            Error: the daemon's error.
        """
        message = device_pb2.ReadMemoryRequest(memory=token)
        offset = 0
        try:
            with self._calls.failures():
                timeout_s, metadata = call_timeout_s(deadline_s), self._calls.metadata
                stream = start_call(
                    partial(self._stub.ReadMemory, message, timeout=timeout_s, metadata=metadata)
                )
                with cancelling(stream, cancellation):
                    for part in answer_silence.rest_of_answer(stream):
                        if not part.chunk and target.size:
                            raise BadData(
                                f"the daemon at {self._calls.host} sent a part of a memory without bytes"
                            )
                        target.view(offset, len(part.chunk))[:] = part.chunk
                        offset += len(part.chunk)
        except grpc.FutureCancelledError:
            self.release((token,))
            raise Cancelled("the execution was cancelled while its results were received") from None
        except BaseException:
            self.release((token,))
            raise
        if offset != target.size:
            raise OpFailed(
                f"the daemon at {self._calls.host} sent {offset} bytes of a memory; {target.size} are expected"
            )

    def release(self, tokens: Sequence[bytes]) -> None:
        """Makes the daemon release memories, in the background."""
        if tokens:
            message = device_pb2.ReleaseMemoryRequest(memories=tokens)
            self._background_calls.put(("ReleaseMemory", message))

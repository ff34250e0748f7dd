"""A client's connection to a daemon: one session, and its calls."""

import contextlib
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from neurald._proto import device_pb2
from neurald._proto.device_pb2_grpc import DeviceStub
from neurald.hal.errors import (
    BadState,
    Cancelled,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    UnavailableDevice,
)
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.process.activation import activate
from neurald.hal.process.address import Address
from neurald.hal.process.files.runtime_directory import in_machine_directory
from neurald.hal.process.fork import keep_in_children, require_grpc
from neurald.hal.process.threads.checked_thread import CheckedThread, CheckedTimer
from neurald.hal.rpc.client.calls import answer_silence
from neurald.hal.rpc.client.calls.background_calls import (
    BACKGROUND_TIMEOUT_S,
    NO_CALL,
    BackgroundQueue,
    run_background_calls,
)
from neurald.hal.rpc.client.calls.call_start import start_call
from neurald.hal.rpc.client.calls.carried_answer import CarriedAnswer
from neurald.hal.rpc.client.calls.client_calls import ClientCalls, call_timeout_s
from neurald.hal.rpc.client.calls.kept_stream import CANCELLED_UNDER_WAY, KeptStream
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.client.connection_life import ConnectionLife
from neurald.hal.rpc.client.memory_transfer import MemoryTransfer
from neurald.hal.rpc.client.rings.ring_pool import RingPool
from neurald.hal.rpc.transport.access_token import client_token, token_metadata
from neurald.hal.rpc.transport.data_chunks import Packer, part_bytes
from neurald.hal.rpc.transport.data_message import encode_in_parts
from neurald.hal.rpc.transport.status import (
    CHUNK_BYTES,
    CLIENT_OPTIONS,
    ONE_REPLY,
    SESSION_KEY,
)
from neurald.hal.rpc.transport.tls_credentials import channel_credentials
from neurald.hal.rpc.transport.tls_files import TlsContent
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

_SERVICE: Final = f"/{device_pb2.DESCRIPTOR.services_by_name['Device'].full_name}"
_EXECUTE_WITH_DATA: Final = f"{_SERVICE}/ExecuteWithData"
_EXECUTE_EACH: Final = f"{_SERVICE}/ExecuteEach"
#: How long a live daemon may take to open a session. A stopped one is noticed sooner.
CONNECT_TIMEOUT_S = 10.0


class Connection:
    """One session with a daemon, which ends with this object. Thread-safe.

    Once the daemon is gone, every call raises DeadObject, even if another daemon serves the
    address: it does not know the session.

    Args:
        address: the address of the daemon.
        deadline_s: the time by which the session must be open, on the clock of
            `time.monotonic()`.
        token_file: see `client_token`; not used with `tls`.
        tls: the client's certificate and key, and the authorities that it trusts; None without TLS.

    Attributes:
        description: the daemon's description of its device.
        life: whether the daemon lives.
        rings: run executions on a daemon of this host.
        bytes_per_s: the speed of the link; 0 if it was not measured.

    Raises:
        UnavailableDevice, DeadObject: there is no daemon.
        MissedDeadlineTransient: the daemon lives, but is too busy to answer in time.
        Error: the daemon refuses a session.
    """

    def __init__(
        self,
        address: Address,
        deadline_s: float | None = None,
        token_file: Path | None = None,
        tls: TlsContent | None = None,
    ) -> None:
        require_grpc()
        limit_s = time.monotonic() + CONNECT_TIMEOUT_S
        limit_s = limit_s if deadline_s is None else min(limit_s, deadline_s)
        activate(address, limit_s)
        token = _token(address, token_file, tls)
        self._access = token_metadata(token)
        self._address = address
        self.bytes_per_s = 0.0
        self._side_channel: ChannelClient | None = None
        self._stream: Any = None
        self.life = life = ConnectionLife(f"the daemon at {address}")
        self._calls = ClientCalls(address, life)
        # The thread must not refer to this object, since it waits for the end of this object.
        self._background_calls = BackgroundQueue()
        self.rings = RingPool(self)
        with contextlib.ExitStack() as cleanup:
            channel = _channel(address, tls)
            cleanup.callback(channel.close)
            self._open(channel, cleanup, limit_s, has_token=token is not None)
            # gRPC ends waiting calls by itself, except those of a daemon that ended the session.
            life.call_at_end(partial(self._background_calls.put, None))
            thread = CheckedThread(
                target=run_background_calls,
                args=(
                    self._background_calls,
                    self._stub,
                    self._calls.metadata,
                    cleanup.pop_all(),
                    life,
                    self._calls.pending,
                    self.rings,
                ),
                name=f"neurald connection to {address}",
                daemon=True,
            )
        thread.start()
        self._thread = thread
        self._end = weakref.finalize(self, self._background_calls.put, None)
        self._end.atexit = False
        keep_in_children(self)  # for the objects of gRPC; in a child the connection is over
        if self._side_channel is not None and thread.native_id is not None:
            self._side_channel.end_with(thread.native_id, limit_s)

    def _open(
        self, channel: grpc.Channel, cleanup: contextlib.ExitStack, limit_s: float, *, has_token: bool
    ) -> None:
        """Opens the session, and watches it.

        Args:
            channel: the channel to the daemon.
            cleanup: ends the session.
            limit_s: the time by which it must be open, on the clock of
                `time.monotonic()`.
            has_token: whether calls have a token. Without one a daemon may still admit its users,
                whom it recognizes by the side channel.
        """
        self._stub: Any = DeviceStub(channel)  # type: ignore[no-untyped-call]
        # A stream of one message is a message, which needs no thread here.
        self._execute_at_once: Any = channel.unary_unary(_EXECUTE_WITH_DATA)
        self._execute_in_parts: Any = channel.stream_stream(_EXECUTE_WITH_DATA)
        execute_each: Any = channel.stream_stream(_EXECUTE_EACH)
        # gRPC finds out whether the daemon answers, before the side channel waits for its
        # greeting. A refusal is an answer as well.
        description: device_pb2.DescribeReply | None = None
        try:
            description = self._first_call(limit_s)
        except UnavailableDevice:
            if has_token or self._address.path is None:
                raise
        if self._address.path is None:
            session = self._open_session(cleanup, limit_s)
        else:
            left_s = max(0.001, limit_s - time.monotonic())
            self._side_channel = ChannelClient.connect(self._address.memory_path, left_s)
            cleanup.callback(self._side_channel.close)
            self.life.call_at_end(self._side_channel.shut_down)
            session = self._side_channel.session
        self._calls.metadata = (*self._access, (SESSION_KEY, session.hex()))
        self._kept = KeptStream(partial(execute_each, metadata=self._calls.metadata), self.host)
        cleanup.callback(self._kept.close)
        self.description = self._first_call(limit_s) if description is None else description
        self.rings.takes_ongoing_requests = self.description.takes_ongoing_requests
        self._calls.is_local = self.is_local
        self._transfer = MemoryTransfer(
            self._calls, self._stub, self._side_channel, self._background_calls, packs=self.carries_data
        )
        watch = start_call(
            partial(self._stub.Watch, device_pb2.WatchRequest(), metadata=self._calls.metadata)
        )
        cleanup.callback(watch.cancel)
        self.life.watch(watch)

    def _first_call(self, limit_s: float) -> device_pb2.DescribeReply:
        with self._calls.failures("Describe"):
            message = device_pb2.DescribeRequest()
            metadata = self._calls.metadata or self._access
            reply: device_pb2.DescribeReply = self._stub.Describe(
                message, timeout=call_timeout_s(limit_s), metadata=metadata
            )
        self._calls.require_answer("Describe", reply)
        return reply

    def _open_session(self, cleanup: contextlib.ExitStack, end_s: float) -> bytes:
        stream = self._stream = start_call(
            partial(self._stub.OpenSession, device_pb2.OpenSessionRequest(), metadata=self._access)
        )
        cleanup.callback(stream.cancel)
        # The stream itself has no time limit, since it lasts as long as the session.
        timer = CheckedTimer(max(0.0, end_s - time.monotonic()), stream.cancel)
        timer.daemon = True
        timer.start()
        try:
            with self._calls.failures():
                reply = next(stream, None)
        finally:
            timer.cancel()
        if reply is None:
            raise DeadObject(f"the daemon at {self._address} did not open a session")
        return bytes(reply.session)

    @property
    def is_local(self) -> bool:
        """True if memory can be shared with the daemon."""
        return self._side_channel is not None

    @property
    def host(self) -> str:
        """The place of the daemon, for messages."""
        return self._calls.host

    @property
    def peer(self) -> int:
        """The id of the daemon's process; 0 if it is on another host, or not known."""
        return 0 if self._side_channel is None else self._side_channel.peer

    @property
    def is_open(self) -> bool:
        """True if neither side has ended the session, as far as is known here."""
        if self._calls.is_closed or self.life.is_over:
            return False
        return (
            self._side_channel.is_open if self._side_channel is not None else bool(self._stream.is_active())
        )

    @property
    def is_closed(self) -> bool:
        """True if this side has closed the connection."""
        return self._calls.is_closed

    def call(
        self,
        method: str,
        message: Message,
        deadline_s: float | None = None,
        tokens: Sequence[bytes] = (),
        cancellation: Cancellation | None = None,
    ) -> Any:
        """Makes a call and returns its reply.

        Args:
            method: name of the call in the contract.
            message: the request.
            deadline_s: the deadline on the clock of `time.monotonic()`.
            tokens: the tokens of memories that the message refers to, which are released if the
                call fails.
            cancellation: ends the call, here at once, and in the daemon as soon as possible.

        Raises:
            Cancelled: `cancellation` was cancelled before the reply arrived.
            DeadObject: the daemon is gone.
            OpFailed: the daemon does not answer a call that needs no work, or ends it without an
                answer.
            Error: the daemon's error.
        """
        silence_s = answer_silence.limit_of(method) if deadline_s is None else None
        limit_s = call_timeout_s(deadline_s) if silence_s is None else silence_s
        try:
            with self._calls.failures(method):
                self._calls.require_sendable(message)
                stub = getattr(self._stub, method)
                reply = self._calls.invoke(method, stub, message, limit_s, self._calls.metadata, cancellation)
            self._calls.require_answer(method, reply)
        except grpc.FutureCancelledError:
            self._transfer.release(tokens)
            raise Cancelled(f"the execution was cancelled while {method} was under way") from None
        except Error as error:
            self._transfer.release(tokens)
            if silence_s is not None and isinstance(error, MissedDeadlineTransient):
                raise OpFailed(
                    f"the daemon at {self._address} has not answered {method} in {limit_s:g} s"
                ) from None
            raise
        except BaseException:  # that of a signal handler
            self._transfer.release(tokens)
            raise
        return reply

    @property
    def carries_data(self) -> bool:
        """True if the daemon is on another host, and executions carry their data."""
        return self._side_channel is None and self.description.carries_data

    def execute_with_data(
        self,
        request: device_pb2.ExecuteRequest,
        contents: Sequence[Memory],
        results: Sequence[Memory],
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> device_pb2.ExecuteReply:
        """Executes a request in one round trip.

        Args:
            request: the request to execute.
            contents: the contents of its pools with `content_bytes`, in order.
            results: the results of its pools with `results_bytes`, in order; they are written if
                outputs fit.
            deadline_s: the deadline on the clock of `time.monotonic()`.
            cancellation: ends the call, here at once, and in the daemon as soon as possible.

        Raises:
            Cancelled: `cancellation` was cancelled before the reply arrived.
            DeadObject: the daemon is gone.
            OpFailed: the daemon's answer is not valid.
            Error: the daemon's error.
        """
        takes_parts, wants_times = self.description.takes_parts, self._kept.wants_times
        part = part_bytes(self.bytes_per_s) if takes_parts else CHUNK_BYTES
        first = device_pb2.ExecuteWithDataRequest(
            request=request, bytes_per_s=self.bytes_per_s, part_bytes=part if takes_parts else None
        )
        if wants_times:
            first.request.wants_times = True
        is_short = all(sum(pool.size for pool in pools) <= part for pools in (contents, results))
        # Device buffers may hold what a second execution would change again.
        may_repeat = len(request.request.pools) == len(contents) + len(results)
        timeout_s = call_timeout_s(deadline_s)

        def messages() -> Iterator[bytes]:
            return encode_in_parts(first, Packer(self.bytes_per_s).chunks(contents, part), part)

        try:
            with self._calls.failures("Execute"):
                self._calls.require_sendable(first)
                if (
                    may_repeat
                    and (is_short or takes_parts)
                    and timeout_s is None
                    # A daemon of an earlier version sends only the times of calls of their own.
                    and (not wants_times or self.description.sends_times)
                ):
                    answer = CarriedAnswer(results, self.host, self._kept.times if wants_times else None)
                    if self._kept.exchange(messages(), answer.take, cancellation):
                        return answer.reply
                answer = CarriedAnswer(results, self.host)
                for data in self._through_own_call(
                    messages(), timeout_s, cancellation, has_one_reply=is_short
                ):
                    answer.take(data)
        except grpc.FutureCancelledError:
            raise Cancelled(CANCELLED_UNDER_WAY) from None
        return answer.reply

    def _through_own_call(
        self,
        messages: Iterator[bytes],
        timeout_s: float | None,
        cancellation: Cancellation | None,
        *,
        has_one_reply: bool,
    ) -> Iterator[bytes]:
        """Executes a request by a call of its own, and yields the replies."""
        method, metadata = "ExecuteWithData", self._calls.metadata
        if not has_one_reply:
            yield from self._calls.replies(
                method, self._execute_in_parts, messages, timeout_s, metadata, cancellation
            )
            return
        (data,) = messages
        stub, metadata = self._execute_at_once, (*metadata, ONE_REPLY)
        reply = self._calls.invoke(method, stub, data, timeout_s, metadata, cancellation)
        if reply is not None:  # otherwise the daemon ended the call without a message
            yield reply

    def call_in_background(self, method: str, message: Message) -> None:
        """Makes a call in another thread, and ignores the reply. Finalizers may call this."""
        self._background_calls.put((method, message))

    def wait_for_releases(self, deadline_s: float | None) -> bool:
        """Waits until the daemon has what this process has released so far, or for some seconds.

        Args:
            deadline_s: the deadline on the clock of `time.monotonic()`.

        Returns:
            False if it had that before.
        """
        return self._background_calls.wait(deadline_s)

    def tidy_soon(self) -> None:
        """Makes the other thread close rings once they are idle."""
        self._background_calls.put(NO_CALL)

    def start_soon(self, work: Callable[[], object]) -> None:
        """Makes the other thread start work, unless the connection ends before.

        Finalizers may call this.
        """
        self._background_calls.put(work)

    def send_fence(self, fence: Fence) -> bytes:
        """Sends a fence to a daemon on this host; returns a token for one call.

        Raises:
            DeadObject: the daemon is gone.
            Error: the daemon refuses the fence.
        """
        if self._side_channel is None:
            raise OpFailed(f"the daemon at {self._address} has no side channel, which fences need")
        with self._calls.failures():
            return self._side_channel.register_fence(fence)

    def wait_for(self, fence: Fence, deadline_s: float | None) -> None:
        """Waits until a fence that the daemon holds has signalled.

        Raises:
            MissedDeadlineTransient: it has not signalled some time after the deadline.
            DeadObject: the daemon is gone.
        """
        if self._side_channel is None:
            raise OpFailed(f"the daemon at {self._address} has no side channel, which fences need")
        with self._calls.failures():
            if not self._side_channel.wait_for(fence, call_timeout_s(deadline_s)):
                raise MissedDeadlineTransient(f"the daemon at {self._address} has not signalled in time")

    def send_memories(
        self,
        memories: Iterable[Memory],
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[bytes]:
        """Sends memories to the daemon; see `MemoryTransfer.send`."""
        return self._transfer.send(memories, self.bytes_per_s, deadline_s, cancellation)

    def read_memory(
        self,
        token: bytes,
        target: Memory,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Copies a memory of the daemon; see `MemoryTransfer.read`."""
        self._transfer.read(token, target, deadline_s, cancellation)

    def open_ring(
        self,
        connection: socket.socket,
        memory: SharedMemory,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Sends the daemon its end of a ring; see `ChannelClient.open_ring`."""
        if self._side_channel is None:
            raise BadState(
                f"the daemon at {self._address} shares no memory with this process, which a ring needs; "
                "make calls instead"
            )
        with self._calls.failures():
            self._side_channel.open_ring(connection, memory, deadline_s, cancellation)

    def close(self) -> None:
        """Ends the session; calls under way end with DeadObject."""
        self._calls.is_closed = True
        self._end()
        self._thread.join(BACKGROUND_TIMEOUT_S)


def _token(address: Address, token_file: Path | None, tls: TlsContent | None) -> bytes | None:
    """Returns the token for calls to a daemon; None if they need none."""
    # The machine's service keeps its tokens to itself.
    is_of_machine = address.path is not None and in_machine_directory(address.path)
    if tls is not None or (is_of_machine and token_file is None):
        return None
    return client_token(address, token_file)


def _channel(address: Address, tls: TlsContent | None) -> grpc.Channel:
    target = address.numeric.target
    if tls is None:
        return grpc.insecure_channel(target, CLIENT_OPTIONS)
    # The certificate is for the host as the user spells it.
    name = ("grpc.ssl_target_name_override", address.host)
    return grpc.secure_channel(target, channel_credentials(tls), (*CLIENT_OPTIONS, name))

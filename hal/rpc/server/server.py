"""Serves any device over gRPC and, on a UNIX socket, over the side channel.

The calls themselves are in `neurald.hal.rpc.server.handler`. This module decodes messages, finds
sessions and reports errors: an `Error` with its code and text; any other exception is logged with
its traceback, and reported without any detail.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.accounting.pacing import step
from neurald.hal.admission.access import MAX_CONNECTION_SESSIONS, AccessInterceptor
from neurald.hal.admission.message_limits import MAX_AWAITED_MESSAGES, MessageLimitInterceptor
from neurald.hal.admission.message_reader import MessageReader
from neurald.hal.admission.peer_user import peer_user
from neurald.hal.admission.session import Session
from neurald.hal.admission.streams import Stream, StreamLimiter
from neurald.hal.compiling.contract import compiles_apart
from neurald.hal.compiling.pool import CompilePool
from neurald.hal.device import Device
from neurald.hal.errors import (
    BadData,
    BadState,
    DeadObject,
    Error,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedTransient,
    error_for,
)
from neurald.hal.process.address import Address
from neurald.hal.process.fork import require_grpc
from neurald.hal.process.workers import WorkerThreads
from neurald.hal.rpc.server.channel import ChannelServer
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.transport.access_token import create_token, remove_token, token_path
from neurald.hal.rpc.transport.status import CHUNK_BYTES, abort, parse, server_options, set_status, token_of
from neurald.hal.sync.cancellation import Cancellation

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

SERVICE = device_pb2.DESCRIPTOR.services_by_name["Device"].full_name
#: How many calls are served at the same time, and how many more wait for a thread; others are
#: refused. There are more threads than the limits let one user have, so that other users, and
#: status calls, find threads.
_MAX_CALLS = 256
_MAX_WAITING_CALLS = 1024
#: How many streams may be under way in addition; each has a thread.
_MAX_STREAMS = 96
#: How long a stream may stall.
_PATIENCE_S = 10.0
#: How long a stream must have stalled to be cut off for another one, if there are too many.
_GRACE_S = 1.0
#: The time that the threads that serve all clients spend on a byte of memory sent over gRPC.
_BYTE_S = 1e-3 / CHUNK_BYTES
#: The calls that need no session.
_SESSIONLESS_CALLS = ("Describe", "GetCapabilities", "GetStatus", "OpenSession")
#: Part of the name of gRPC's serving thread.
_SERVING_THREAD = "_serve"
#: How long sending replies may take once all work is done.
_FLUSH_S = 1.0
#: How long gRPC may take to stop, including that. It waits forever for calls that it has lost track
#: of.
_STOP_S = 3.0


class DeviceServer:
    """Serves a device at one address.

    Args:
        device: to serve.
        address: to listen at.
        limits: of sessions.
        insecure: serve every client that reaches the address, without a token, even on other hosts,
            although nothing is encrypted.
        driver: creates the same device in other processes, where models are compiled if the device
            implements `CompilesApart`; None compiles in this process.

    Attributes:
        address: where it listens; has the actual port once it has started.
        handler: of the calls.
        grpc: gRPC's server.
        streams: the limiter of streams.

    Raises:
        BadData: other hosts can reach the address, and it is not `insecure`.
        UnavailableDevice: this process was forked from one that has used gRPC.
    """

    def __init__(
        self,
        device: Device,
        address: Address,
        *,
        limits: Limits | None = None,
        insecure: bool = False,
        driver: str | None = None,
    ) -> None:
        if not address.is_loopback and not insecure:
            raise BadData(
                f"{address} can be reached from other hosts, and TLS is not supported yet: "
                "listen on 127.0.0.1, or pass --insecure to serve without encryption"
            )
        require_grpc()
        self.address = address
        limits = limits or Limits()
        self._compilers = (
            CompilePool(driver, device, limits) if driver is not None and compiles_apart(device) else None
        )
        self.handler = DeviceHandler(device, limits, self._compilers)
        self._is_open_to_all = insecure
        self._token: bytes | None = None
        self._gate = AccessInterceptor(self.handler.sessions)
        self.handler.find_access = lambda: self._gate.access
        self._threads = WorkerThreads(_MAX_CALLS + _MAX_STREAMS + MAX_AWAITED_MESSAGES, "neurald call")
        self.grpc = grpc.server(
            cast(ThreadPoolExecutor, self._threads),  # gRPC only calls submit
            options=server_options(),
            maximum_concurrent_rpcs=_MAX_CALLS + _MAX_STREAMS + MAX_AWAITED_MESSAGES + _MAX_WAITING_CALLS,
            interceptors=[self._gate, MessageLimitInterceptor(self._owner, owner_limit=limits.calls)],
        )
        self.streams = StreamLimiter(
            limit=_MAX_STREAMS, owner_limit=limits.calls, patience_s=_PATIENCE_S, grace_s=_GRACE_S
        )
        self._service = _GrpcService(self.handler, self.streams, has_channel=address.path is not None)
        self.grpc.add_generic_rpc_handlers((self._service.handlers(),))
        self._channel: ChannelServer | None = None
        self._serving: tuple[threading.Thread, ...] = ()

    def _owner(self, method: str, context: grpc.ServicerContext) -> Session | None:
        """Returns the session of a call whose message has not arrived; None if it needs none.

        Raises:
            DeadObject: the call needs a session and has none.
        """
        try:
            return self._service.session(context)
        except DeadObject:
            service, _, name = method.removeprefix("/").rpartition("/")
            if service == SERVICE and name not in _SESSIONLESS_CALLS:
                raise
            return None

    @property
    def is_serving(self) -> bool:
        """Whether the threads that accept calls and connections are alive.

        Without them the sockets remain, but no client is served.
        """
        return all(thread.is_alive() for thread in self._serving)

    def start(self) -> None:
        """Binds the address and serves it.

        Raises:
            BadState: the address cannot be bound, for example because it is in use, or the token
                file cannot be created.
        """
        if self.address.path is not None and self.address.path.exists():
            raise BadState(f"{self.address.path} exists; remove it, or listen at another path")
        # gRPC creates its socket with the mode that the umask of the process leaves.
        mask = os.umask(0o177)
        try:
            port = self.grpc.add_insecure_port(self.address.numeric.target)
        except RuntimeError:
            raise BadState(f"{self.address} cannot be bound; another process may listen there") from None
        finally:
            os.umask(mask)
        if self.address.path is None:
            self.address = Address(host=self.address.host, port=port)
            self._service.port = port
        try:
            self._require_token()
        except Error:
            self.stop()
            raise
        if self.address.path is None:
            self._start_grpc()
            return
        try:
            self._channel = ChannelServer(
                self.address.memory_path, self.handler.sessions, self.handler.configure_burst
            )
        except OSError as error:
            self.stop()
            raise BadState(f"{self.address.memory_path} cannot be bound: {error.strerror}") from None
        self._start_grpc()
        self._channel.start()
        self._serving = (*self._serving, self._channel.thread)

    def _require_token(self) -> None:
        """Creates the token before any client is served."""
        if not self._is_open_to_all:
            self._token = create_token(self.address)
            self._gate.require(self._token, token_path(self.address), self.address.path)

    def _start_grpc(self) -> None:
        before = set(threading.enumerate())
        self.grpc.start()
        # gRPC does not expose its serving thread. A memory error in it ends the thread only.
        self._serving = tuple(
            thread
            for thread in threading.enumerate()
            if thread not in before and _SERVING_THREAD in thread.name
        )

    def stop(self) -> None:
        """Ends all sessions and calls, and removes the sockets. `drain` lets calls finish first.

        The files are removed even if something else fails: gRPC needs a thread to stop, which a
        process without memory cannot start.
        """
        with contextlib.ExitStack() as last_first:
            if self.address.path is not None:
                last_first.callback(self.address.path.unlink, missing_ok=True)
            if self._token is not None:
                last_first.callback(remove_token, self.address, self._token)
            last_first.callback(self._threads.shutdown, wait=False)
            last_first.callback(self._stop_grpc)
            if self._compilers is not None:
                last_first.callback(self._compilers.close)
            last_first.callback(self._service.end_sessions)
            if self._channel is not None:
                last_first.callback(self._channel.close)
                self._channel = None

    def _stop_grpc(self) -> None:
        self.grpc.stop(_FLUSH_S).wait(_STOP_S)


class _GrpcService:
    """The gRPC side of the calls."""

    def __init__(self, handler: DeviceHandler, streams: StreamLimiter, *, has_channel: bool) -> None:
        self._handler = handler
        self._streams = streams
        self._has_channel = has_channel
        self._reader = MessageReader()
        #: The actual port, once it is known; 0 on UNIX sockets.
        self.port = 0
        self._ends: dict[Session, Callable[[None], None]] = {}
        self._peers: dict[Session, str] = {}
        self._peers_lock = threading.Lock()
        self._watches: dict[Session, _SessionWatch] = {}
        handler.admission.on_hang = self._tell_end

    def handlers(self) -> grpc.GenericRpcHandler:
        """Returns handlers for all calls of the contract; requests arrive as bytes."""
        handler = self._handler
        unary: dict[str, _CallHandler] = {
            "Describe": lambda message, context: _answer_empty(message, handler.describe),
            "GetCapabilities": lambda message, context: _answer_empty(message, handler.get_capabilities),
            "GetStatus": lambda message, context: _answer_empty(message, handler.get_status),
            "ReleaseMemory": self._in_session(handler.release_memory),
            "GetSupportedOperations": self._limited(handler.get_supported_operations),
            "PrepareModel": lambda message, context: self._limited(
                lambda session, message: handler.prepare_model(session, message, _cancellation(context))
            )(message, context),
            "GetArtifact": self._limited(handler.get_artifact),
            "PrepareModelFromCache": self._limited(handler.prepare_model_from_cache),
            "ReleasePreparedModel": self._in_session(handler.release_prepared_model),
            "Profile": self._limited(handler.profile),
            "Allocate": self._limited(handler.allocate),
            "CopyToBuffer": self._limited(handler.copy_to_buffer),
            "CopyFromBuffer": self._limited(handler.copy_from_buffer),
            "ReleaseBuffer": self._in_session(handler.release_buffer),
            "Execute": lambda message, context: self._limited(
                lambda session, message: handler.execute(session, message, _cancellation(context))
            )(message, context),
            "ExecuteFenced": self._in_session(handler.execute_fenced),
            "GetFencedExecutionInfo": self._in_session(handler.get_fenced_execution_info),
        }
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "OpenSession": grpc.unary_stream_rpc_method_handler(
                _without_thread(self._open_session), None, _encode
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(_without_thread(self._watch), None, _encode),
            "WriteMemory": grpc.stream_unary_rpc_method_handler(self._write_memory, None, _encode),
            "ReadMemory": grpc.unary_stream_rpc_method_handler(self._read_memory, None, _encode),
        }
        contract = device_pb2.DESCRIPTOR.services_by_name["Device"].methods_by_name
        for name, answer in unary.items():
            behaviour = _answering(self._reader, GetMessageClass(contract[name].input_type), answer)
            methods[name] = grpc.unary_unary_rpc_method_handler(behaviour, None, _encode)
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def session(self, context: grpc.ServicerContext) -> Session:
        """Returns the session that a call carries.

        Raises:
            DeadObject: it carries none that is open.
        """
        try:
            token = bytes.fromhex(token_of(context) or "")
        except ValueError:
            token = b""
        if not token:
            raise DeadObject("the call carries no session")
        return self._handler.sessions.find(token)

    def _in_session(self, call: Callable[[Session, Any], Message]) -> "_CallHandler":
        # The session is checked before the message is decoded: calls without a session cost
        # nothing.
        return lambda message, context: call(self.session(context), message())

    def _limited(self, call: Callable[[Session, Any], Message]) -> "_CallHandler":
        """Like `_in_session`, for calls that take long: a session may have only so many of them."""

        def counted(message: Callable[[], Any], context: grpc.ServicerContext) -> Message:
            session = self.session(context)
            with session.call(), self._handler.admission.interpreter.working(session.token):
                return call(session, message())

        return counted

    def _write_memory(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Message:
        def write() -> Message:
            session = self.session(context)
            with (
                self._streams.open(session, context) as stream,
                self._handler.admission.interpreter.working(session.token),
            ):
                return self._handler.write_memory(session, moving(stream))

        def moving(stream: Stream) -> Iterator[device_pb2.WriteMemoryRequest]:
            for part in parts:
                stream.moves(len(part))
                yield parse(device_pb2.WriteMemoryRequest, part)
                step(is_interpreted=True, beside_s=len(part) * _BYTE_S)

        return _run_or_abort(context, write)

    def _read_memory(self, data: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        try:
            session = self.session(context)
            message = parse(device_pb2.ReadMemoryRequest, data)
            with (
                self._streams.open(session, context) as stream,
                self._handler.admission.interpreter.working(session.token),
            ):
                for part in self._handler.read_memory(session, message):
                    yield part
                    size = part.ByteSize()
                    stream.moves(size)
                    step(is_interpreted=True, beside_s=size * _BYTE_S)
        except Exception as error:
            failure = _failure(error)
        else:
            return
        abort(context, failure)

    def _open_session(
        self, data: bytes, context: grpc.ServicerContext, send: Callable[[Message | None], None]
    ) -> None:
        """Opens a session for as long as the call stays open, which needs no thread."""

        def open_session() -> None:
            parse(device_pb2.OpenSessionRequest, data)
            if self._has_channel:
                raise BadState("sessions of a UNIX socket are opened over the side channel")
            session = self._open_counted(context)
            self._ends[session] = send
            if not context.add_callback(lambda: self._end(session)):
                self._end(session)
            with self._streams.open(session, context):
                send(device_pb2.OpenSessionReply(session=session.token))

        _run_or_abort(context, open_session)

    def _open_counted(self, context: grpc.ServicerContext) -> Session:
        """Opens a session; raises ResourceExhaustedTransient if its connection has too many."""
        peer = context.peer()
        with self._peers_lock:
            if tuple(self._peers.values()).count(peer) >= MAX_CONNECTION_SESSIONS:
                raise ResourceExhaustedTransient(
                    f"{MAX_CONNECTION_SESSIONS} sessions of one connection are open, which is the most that it may have"
                )
            session = self._handler.sessions.open(peer_user(peer, self.port))
            self._peers[session] = peer
        return session

    def _end(self, session: Session) -> None:
        self._ends.pop(session, None)
        with self._peers_lock:
            self._peers.pop(session, None)
        self._handler.sessions.close(session)

    def _watch(
        self, data: bytes, context: grpc.ServicerContext, send: Callable[[Message | None], None]
    ) -> None:
        """Keeps the call open, without a thread, until the session or the daemon ends."""

        def watch() -> None:
            parse(device_pb2.WatchRequest, data)
            session = self.session(context)
            watch = _SessionWatch(context, send)
            if self._watches.setdefault(session, watch) is not watch:
                raise BadState("the session is watched already")

            def forget() -> None:
                self._watches.pop(session, None)

            if not context.add_callback(forget):
                forget()

        _run_or_abort(context, watch)

    def _tell_end(self, session: Session, error: Error) -> None:
        """Tells the client of a session that has ended why it has."""
        watch = self._watches.pop(session, None)
        if watch is not None:
            watch.end(error)

    def end_sessions(self) -> None:
        """Ends the sessions that calls hold open; tells all other clients that the daemon stops."""
        for watch in tuple(self._watches.values()):
            watch.end(None)
        for session, send in tuple(self._ends.items()):
            self._end(session)
            send(None)


class _SessionWatch:
    """The call that tells a client about the end of its session."""

    def __init__(self, context: grpc.ServicerContext, send: Callable[[Message | None], None]) -> None:
        self._context = context
        self._send = send

    def end(self, error: Error | None) -> None:
        """Ends the call, with an error, or normally when the daemon stops."""
        if error is not None:
            set_status(self._context, error)
        self._send(None)


def _cancellation(context: grpc.ServicerContext) -> Cancellation:
    """Returns a cancellation that is cancelled once the client no longer waits for the reply."""
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()
    return cancellation


def _encode(message: Message) -> bytes:
    return message.SerializeToString()


def _without_thread(behaviour: Callable[..., None]) -> Callable[..., None]:
    """Makes gRPC pass a function that sends replies, instead of iterating in a thread."""

    def call(*arguments: Any) -> None:
        behaviour(*arguments)

    call.experimental_non_blocking = True  # type: ignore[attr-defined]
    return call


def _run_or_abort(context: grpc.ServicerContext, call: Callable[[], _T]) -> _T:
    """Returns the result of `call`; if it raises, the gRPC call ends with the error for the client.

    Ending the call raises another exception, which gRPC keeps for a while. This happens outside of
    the `except` block: an exception that is kept also keeps the one during which it was raised,
    with its frames and the memory of the call.
    """
    try:
        return call()
    except Exception as error:
        failure = _failure(error)
    return abort(context, failure)


def _failure(error: Exception) -> Error:
    """Returns the error that the client is sent.

    Raises:
        RpcError: it is `error`: the client has gone, and its stream with it.
    """
    if isinstance(error, Error):
        # Not the error itself, which refers to the frames that it passed.
        return error_for(error.code, str(error))
    if isinstance(error, MemoryError):
        return OutOfMemory("the daemon has no memory left for this call")
    if isinstance(error, grpc.RpcError):
        # gRPC expects this very exception, and keeps it.
        raise error.with_traceback(None)
    logger.error("a call failed", exc_info=error)
    return OpFailed("internal error of the daemon; its log has the details")


#: Answers a call; the message is decoded when the function in the first argument is called.
_CallHandler = Callable[[Callable[[], Any], grpc.ServicerContext], Message]


def _answering(
    reader: MessageReader, kind: type[Message], answer: _CallHandler
) -> Callable[[bytes, grpc.ServicerContext], Message]:
    def call(data: bytes, context: grpc.ServicerContext) -> Message:
        with reader.reading(kind, data, context) as message:
            return _run_or_abort(context, lambda: answer(message, context))

    return call


def _answer_empty(message: Callable[[], Any], answer: Callable[[], Message]) -> Message:
    """Decodes a message that has no content, and returns the answer."""
    message()
    return answer()

"""Any device served over gRPC, and on a UNIX socket over the side channel too.

The calls themselves are in `neurald.hal.rpc.server.handler`. Here messages are decoded, sessions found and errors
told: an `Error` with its code and text, anything else with its traceback in the log and without any of it
to the client.
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
#: Calls that are served at the same time; more wait for a free thread, and still more are refused. They are more than the
#: limits let one user have, so that calls of others, and questions, find threads.
_MAX_CALLS = 256
_MAX_WAITING = 1024
#: Streams that may be under way beside all these; each has a thread.
_MAX_STREAMS = 96
#: How long a stream may stand still.
_PATIENCE_S = 10.0
#: How long it must have stood still to give way to others, where there are too many.
_GRACE_S = 1.0
#: What a byte of a memory that comes or goes over gRPC takes of the threads that serve all clients.
_BYTE_S = 1e-3 / CHUNK_BYTES
#: Calls of the contract that need no session.
_FREE = ("Describe", "GetCapabilities", "GetStatus", "OpenSession")
#: By this gRPC's serving thread is told from others that start at the same time.
_SERVING_THREAD = "_serve"
#: How long replies may take to leave once all work is done.
_FLUSH_S = 1.0
#: How long gRPC may take to stop, with that; it waits for ever for calls that it has lost sight of.
_STOP_S = 3.0


class DeviceServer:
    """A device at one address. `address` tells the real port once it has started.

    Args:
        device: what is served.
        address: where.
        limits: what a session may hold.
        insecure: serve anybody who reaches the address, without a token, and hosts beyond this one too, though nothing is
            encrypted.
        driver: that makes the same device in other processes, where its models are compiled if it `CompilesApart`; None: they are
            compiled in this process.

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
                f"{address} can be reached from other hosts, and there is no TLS yet: "
                "listen on 127.0.0.1, or pass --insecure to do without"
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
            cast(ThreadPoolExecutor, self._threads),  # gRPC only submits
            options=server_options(),
            maximum_concurrent_rpcs=_MAX_CALLS + _MAX_STREAMS + MAX_AWAITED_MESSAGES + _MAX_WAITING,
            interceptors=[self._gate, MessageLimitInterceptor(self._owner, owner_limit=limits.calls)],
        )
        self.streams = StreamLimiter(
            limit=_MAX_STREAMS, owner_limit=limits.calls, patience_s=_PATIENCE_S, grace_s=_GRACE_S
        )
        self._transport = _Transport(self.handler, self.streams, has_channel=address.path is not None)
        self.grpc.add_generic_rpc_handlers((self._transport.handlers(),))
        self._channel: ChannelServer | None = None
        self._serving: tuple[threading.Thread, ...] = ()

    def _owner(self, method: str, context: grpc.ServicerContext) -> Session | None:
        """Whose a call is that is about to be received; None for one that carries no session, and needs none.

        Raises:
            DeadObject: it needs one.
        """
        try:
            return self._transport.session(context)
        except DeadObject:
            service, _, name = method.removeprefix("/").rpartition("/")
            if service == SERVICE and name not in _FREE:
                raise
            return None

    @property
    def is_serving(self) -> bool:
        """Whether the threads live that take calls and connections; without them sockets stay and nobody answers."""
        return all(thread.is_alive() for thread in self._serving)

    def start(self) -> None:
        """Binds the address and serves it.

        Raises:
            BadState: the address cannot be bound, because somebody listens there for example, or no token file can be made.
        """
        if self.address.path is not None and self.address.path.exists():
            raise BadState(f"{self.address.path} exists; nothing may be where a socket is to be")
        # gRPC makes its socket with the rights that the process's mask leaves.
        mask = os.umask(0o177)
        try:
            port = self.grpc.add_insecure_port(self.address.numeric.target)
        except RuntimeError:
            raise BadState(f"{self.address} cannot be bound; somebody else may listen there") from None
        finally:
            os.umask(mask)
        if self.address.path is None:
            self.address = Address(host=self.address.host, port=port)
            self._transport.port = port
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
        """Makes the token before anybody is served."""
        if not self._is_open_to_all:
            self._token = create_token(self.address)
            self._gate.require(self._token, token_path(self.address), self.address.path)

    def _start_grpc(self) -> None:
        before = set(threading.enumerate())
        self.grpc.start()
        # gRPC does not say which thread serves; any memory error in it ends it, and nothing else.
        self._serving = tuple(
            thread
            for thread in threading.enumerate()
            if thread not in before and _SERVING_THREAD in thread.name
        )

    def stop(self) -> None:
        """Ends all sessions and calls, and removes the sockets; `handler.admission.drain` first lets calls finish.

        The files go even where something else fails: gRPC stops with a thread, which a process without memory does not get.
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
            last_first.callback(self._transport.end_sessions)
            if self._channel is not None:
                last_first.callback(self._channel.close)
                self._channel = None

    def _stop_grpc(self) -> None:
        self.grpc.stop(_FLUSH_S).wait(_STOP_S)


class _Transport:
    """gRPC's side of the calls."""

    def __init__(self, handler: DeviceHandler, streams: StreamLimiter, *, has_channel: bool) -> None:
        self._handler = handler
        self._streams = streams
        self._has_channel = has_channel
        self._reader = MessageReader()
        #: The real one, once it is known; 0 on UNIX sockets.
        self.port = 0
        self._ends: dict[Session, Callable[[None], None]] = {}
        self._peers: dict[Session, str] = {}
        self._peers_lock = threading.Lock()
        self._watches: dict[Session, _Watch] = {}
        handler.admission.on_hang = self._tell_end

    def handlers(self) -> grpc.GenericRpcHandler:
        """A handler for each call of the contract; requests arrive as bytes and are decoded inside."""
        handler = self._handler
        unary: dict[str, _Answer] = {
            "Describe": lambda message, context: _parsed(message, handler.describe),
            "GetCapabilities": lambda message, context: _parsed(message, handler.get_capabilities),
            "GetStatus": lambda message, context: _parsed(message, handler.get_status),
            "ReleaseMemory": self._in_session(handler.release_memory),
            "GetSupportedOperations": self._at_work(handler.get_supported_operations),
            "PrepareModel": lambda message, context: self._at_work(
                lambda session, message: handler.prepare_model(session, message, _cancellation(context))
            )(message, context),
            "GetArtifact": self._at_work(handler.get_artifact),
            "PrepareModelFromCache": self._at_work(handler.prepare_model_from_cache),
            "ReleasePreparedModel": self._in_session(handler.release_prepared_model),
            "Profile": self._at_work(handler.profile),
            "Allocate": self._at_work(handler.allocate),
            "CopyToBuffer": self._at_work(handler.copy_to_buffer),
            "CopyFromBuffer": self._at_work(handler.copy_from_buffer),
            "ReleaseBuffer": self._in_session(handler.release_buffer),
            "Execute": lambda message, context: self._at_work(
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
        """The session that a call carries.

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

    def _in_session(self, call: Callable[[Session, Any], Message]) -> "_Answer":
        # The session is looked for before the message is parsed: who has none costs nothing.
        return lambda message, context: call(self.session(context), message())

    def _at_work(self, call: Callable[[Session, Any], Message]) -> "_Answer":
        """Like `_in_session`, for calls that take a while: a session may have only so many of them."""

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

        return _told(context, write)

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
        """Opens a session for as long as the call stays open, which needs no thread meanwhile."""

        def open_session() -> None:
            parse(device_pb2.OpenSessionRequest, data)
            if self._has_channel:
                raise BadState("sessions of a UNIX socket are opened over the side socket beside it")
            session = self._open_counted(context)
            self._ends[session] = send
            if not context.add_callback(lambda: self._end(session)):
                self._end(session)
            with self._streams.open(session, context):
                send(device_pb2.OpenSessionReply(session=session.token))

        _told(context, open_session)

    def _open_counted(self, context: grpc.ServicerContext) -> Session:
        """Opens a session; raises ResourceExhaustedTransient if its connection has as many as it may."""
        peer = context.peer()
        with self._peers_lock:
            if tuple(self._peers.values()).count(peer) >= MAX_CONNECTION_SESSIONS:
                raise ResourceExhaustedTransient(
                    f"{MAX_CONNECTION_SESSIONS} sessions of one connection are open; no more may be"
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
        """Stays open, without a thread, until the session or the daemon is over."""

        def watch() -> None:
            parse(device_pb2.WatchRequest, data)
            session = self.session(context)
            watch = _Watch(context, send)
            if self._watches.setdefault(session, watch) is not watch:
                raise BadState("the session is watched already")

            def forget() -> None:
                self._watches.pop(session, None)

            if not context.add_callback(forget):
                forget()

        _told(context, watch)

    def _tell_end(self, session: Session, error: Error) -> None:
        """Tells the client of a session that is over why it is."""
        watch = self._watches.pop(session, None)
        if watch is not None:
            watch.end(error)

    def end_sessions(self) -> None:
        """Ends the sessions that calls hold open, and tells the clients of all others that the daemon stops."""
        for watch in tuple(self._watches.values()):
            watch.end(None)
        for session, send in tuple(self._ends.items()):
            self._end(session)
            send(None)


class _Watch:
    """The call by which a client learns of the end of its session."""

    def __init__(self, context: grpc.ServicerContext, send: Callable[[Message | None], None]) -> None:
        self._context = context
        self._send = send

    def end(self, error: Error | None) -> None:
        """Ends the call, with an error or as one ends when the daemon stops."""
        if error is not None:
            set_status(self._context, error)
        self._send(None)


def _cancellation(context: grpc.ServicerContext) -> Cancellation:
    """Cancelled once nobody waits for the reply any more."""
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()
    return cancellation


def _encode(message: Message) -> bytes:
    return message.SerializeToString()


def _without_thread(behaviour: Callable[..., None]) -> Callable[..., None]:
    """Has gRPC hand over the means to send, in place of iterating in a thread until the stream ends."""

    def call(*arguments: Any) -> None:
        behaviour(*arguments)

    call.experimental_non_blocking = True  # type: ignore[attr-defined]
    return call


def _told(context: grpc.ServicerContext, call: Callable[[], _T]) -> _T:
    """What `call` returns; if it raises, the client is told what it may see, and the gRPC call ends.

    Ending it raises once more, and gRPC keeps that exception for a while. So this happens where the first one is over:
    an exception that is kept keeps the one that it came in, and with that the frames and the memory of the call.
    """
    try:
        return call()
    except Exception as error:
        failure = _failure(error)
    return abort(context, failure)


def _failure(error: Exception) -> Error:
    """The error that the client is told of.

    Raises:
        RpcError: that is `error`: the client has gone, and its stream with it.
    """
    if isinstance(error, Error):
        # Not the error itself, which keeps the frames that it passed.
        return error_for(error.code, str(error))
    if isinstance(error, MemoryError):
        return OutOfMemory("the daemon has no memory left for this call")
    if isinstance(error, grpc.RpcError):
        # gRPC wants this very one, and keeps it.
        raise error.with_traceback(None)
    logger.error("a call failed", exc_info=error)
    return OpFailed("the daemon failed inside; its log tells more")


#: Answers a call; the message is parsed when the answer asks for it.
_Answer = Callable[[Callable[[], Any], grpc.ServicerContext], Message]


def _answering(
    reader: MessageReader, kind: type[Message], answer: _Answer
) -> Callable[[bytes, grpc.ServicerContext], Message]:
    def call(data: bytes, context: grpc.ServicerContext) -> Message:
        with reader.reading(kind, data, context) as message:
            return _told(context, lambda: answer(message, context))

    return call


def _parsed(message: Callable[[], Any], answer: Callable[[], Message]) -> Message:
    """An answer to whoever asks with a message of the right kind, which says nothing."""
    message()
    return answer()

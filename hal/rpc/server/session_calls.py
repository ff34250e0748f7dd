"""The calls that open sessions, and those that tell clients about the end of theirs."""

import threading
from collections.abc import Callable

import grpc
from google.protobuf.message import Message

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import certificate_user
from neurald.hal.admission.access.access import MAX_CONNECTION_SESSIONS
from neurald.hal.admission.access.certificates import peer_certificate
from neurald.hal.admission.access.peer_user import peer_user
from neurald.hal.admission.calls.kept_calls import KeptCalls
from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.admission.sessions.session import Session
from neurald.hal.errors import BadState, DeadObject, Error, ResourceExhaustedTransient, UnavailableDevice
from neurald.hal.rpc.server.call_failures import run_or_abort
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.transport.certificate import Certificate
from neurald.hal.rpc.transport.status import parse, set_status, token_of


class SessionCalls:
    """The sessions of clients, as far as gRPC is concerned with them.

    Args:
        handler: the handler of the calls.
        streams: limits streams.
        kept: the calls that clients keep open, which end with their sessions.
        has_channel: whether sessions are opened over the side channel.
    """

    def __init__(
        self, handler: DeviceHandler, streams: StreamLimiter, kept: KeptCalls, *, has_channel: bool
    ) -> None:
        self._handler = handler
        self._streams = streams
        self._kept = kept
        self._has_channel = has_channel
        #: The actual port, once it is known; 0 on UNIX sockets.
        self.port = 0
        self._ends: dict[Session, Callable[[None], None]] = {}
        self._peers: dict[Session, str] = {}
        self._certificates: dict[Session, Certificate] = {}
        self._peers_lock = threading.Lock()
        self._watches: dict[Session, _SessionWatch] = {}
        handler.admission.on_hang.append(self._tell_end)

    def find(self, context: grpc.ServicerContext) -> Session:
        """Returns the session that a call carries.

        Raises:
            DeadObject: it carries none that is open.
        """
        try:
            token = bytes.fromhex(token_of(context) or "")
        except ValueError:
            token = b""
        if not token:
            raise DeadObject("the call carries no token of a session; OpenSession returns one")
        return self._handler.sessions.find(token)

    def open_session(
        self, data: bytes, context: grpc.ServicerContext, send: Callable[[Message | None], None]
    ) -> None:
        """Opens a session for as long as the call stays open, which needs no thread."""

        def open_session() -> None:
            parse(device_pb2.OpenSessionRequest, data)
            if self._has_channel:
                raise BadState("sessions of a UNIX socket are opened over the side channel")
            # Its successor may already listen at the same port.
            self._handler.admission.require_open()
            session = self._open_counted(context)
            self._ends[session] = send
            if not context.add_callback(lambda: self._end(session)):
                self._end(session)
            with self._streams.open(session, context):
                send(device_pb2.OpenSessionReply(session=session.token))

        run_or_abort(context, open_session)

    def _open_counted(self, context: grpc.ServicerContext) -> Session:
        """Opens a session; raises ResourceExhaustedTransient if its connection has too many."""
        peer = context.peer()
        with self._peers_lock:
            if tuple(self._peers.values()).count(peer) >= MAX_CONNECTION_SESSIONS:
                raise ResourceExhaustedTransient(
                    f"{MAX_CONNECTION_SESSIONS} sessions of one connection are open, which is the most that it may have"
                )
            certificate = peer_certificate(context)
            user = peer_user(peer, self.port) if certificate is None else certificate_user(certificate.name)
            session = self._handler.sessions.open(user)
            self._peers[session] = peer
            if certificate is not None:
                self._certificates[session] = certificate
        return session

    def _end(self, session: Session) -> None:
        self._ends.pop(session, None)
        with self._peers_lock:
            self._peers.pop(session, None)
            self._certificates.pop(session, None)
        self._handler.sessions.close(session)
        self._kept.end(session)

    def watch_session(
        self, data: bytes, context: grpc.ServicerContext, send: Callable[[Message | None], None]
    ) -> None:
        """Keeps the call open, without a thread, until the session or the daemon ends."""

        def watch() -> None:
            parse(device_pb2.WatchRequest, data)
            session = self.find(context)
            watch = _SessionWatch(context, send)
            if self._watches.setdefault(session, watch) is not watch:
                raise BadState("the session is watched already; one Watch at a time is expected")
            session.is_watched = True

            def forget() -> None:
                self._watches.pop(session, None)

            if not context.add_callback(forget):
                forget()

        run_or_abort(context, watch)

    def _tell_end(self, session: Session, error: Error) -> None:
        """Tells the client of a session that has ended why it has."""
        watch = self._watches.pop(session, None)
        if watch is not None:
            watch.end(error)
        self._kept.end(session)

    def end_refused(self, refusal: Callable[[Certificate], str]) -> None:
        """Ends the sessions of clients whose certificates are refused, and tells them why.

        Args:
            refusal: returns why a certificate is refused; empty if it is not.
        """
        with self._peers_lock:
            found = tuple(self._certificates.items())
        for session, certificate in found:
            if reason := refusal(certificate):
                send = self._ends.get(session)
                self._tell_end(session, UnavailableDevice(reason))
                self._end(session)
                if send is not None:
                    send(None)

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

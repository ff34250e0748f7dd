"""Serves any device over gRPC and, on a UNIX socket, over the side channel.

The calls themselves are in `neurald.hal.rpc.server.handler`, and their gRPC side is in
`neurald.hal.rpc.server.grpc_service`.
"""

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import grpc

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.access.access import AccessInterceptor
from neurald.hal.admission.access.certificates import CertificateInterceptor
from neurald.hal.admission.access.served_clients import OWN_USER, ServedClients
from neurald.hal.admission.access.sharing import NOBODY_ELSE
from neurald.hal.admission.calls.message_limits import MAX_AWAITED_MESSAGES, MessageLimitInterceptor
from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.admission.sessions.session import Session
from neurald.hal.compiling.contract import compiles_apart
from neurald.hal.compiling.session_pool import SessionPool
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.device import Device
from neurald.hal.errors import (
    BadData,
    BadState,
    DeadObject,
    Error,
)
from neurald.hal.process.address import Address
from neurald.hal.process.files.own_file import OwnFile
from neurald.hal.process.fork import require_grpc
from neurald.hal.process.threads.workers import WorkerThreads
from neurald.hal.rpc.server.channel import ChannelServer
from neurald.hal.rpc.server.grpc_service import MAX_KEPT_CALLS, SERVICE, GrpcService
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.transport.access_token import create_token, remove_token, token_path
from neurald.hal.rpc.transport.certificate import Revocations
from neurald.hal.rpc.transport.status import server_options
from neurald.hal.rpc.transport.tls_credentials import server_credentials
from neurald.hal.rpc.wire.device import Access

#: How many calls are served at the same time, and how many more wait for a thread; others are
#: refused. There are more threads than the limits let one user have, so that other users, and
#: status calls, find threads.
_MAX_CALLS = 256
_MAX_WAITING_CALLS = 1024
#: How many streams may be under way in addition; each has a thread.
_MAX_STREAMS = 96
#: All calls that have a thread.
_MAX_THREADS = _MAX_CALLS + _MAX_STREAMS + MAX_KEPT_CALLS + MAX_AWAITED_MESSAGES
#: How long a stream may stall.
_PATIENCE_S = 10.0
#: How long a stream must have stalled to be cut off for another one, if there are too many.
_GRACE_S = 1.0
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
        device: the device to serve.
        address: the address to listen at.
        limits: the limits of sessions.
        clients: who is served.
        driver: creates the same device in other processes, where models are compiled if the device
            implements `CompilesApart`; None compiles in this process.
        takes_over: whether to replace the sockets of another process at the same path, at once and
            without a gap, when everything else is ready. Clients of the other process keep their
            connections. With TLS, both processes listen at the same port until the other one
            ends.
        watch: knows which models kill the driver; None for one that no process reads.
        beside: another server of the same device, for the same sessions; None for the only one. It
            is stopped after this one.

    Attributes:
        address: where it listens; has the actual port once it has started.
        handler: the handler of the calls.
        grpc: gRPC's server.
        streams: the limiter of streams.

    Raises:
        BadData: see `ServedClients.require_guarded`.
        BadState: the files for TLS cannot be read, or are not valid.
        UnavailableDevice: this process was forked from one that has used gRPC.
    """

    def __init__(
        self,
        device: Device,
        address: Address,
        *,
        limits: Limits | None = None,
        clients: ServedClients = OWN_USER,
        driver: str | None = None,
        takes_over: bool = False,
        watch: CrashWatch | None = None,
        beside: "DeviceServer | None" = None,
    ) -> None:
        clients.require_guarded(address)
        self._sharing, tls = clients.sharing, clients.tls
        require_grpc()
        self._credentials = None if tls is None else server_credentials(tls)
        self._revocations = None if tls is None else Revocations(tls.revoked, tls.authority)
        self.address = address
        limits = limits or Limits()
        self._compilers: SessionPool | None = None
        if beside is None:
            if driver is not None and compiles_apart(device):
                self._compilers = SessionPool(driver, device, limits)
            self.handler = DeviceHandler(device, limits, self._compilers, watch)
        else:
            self.handler = beside.handler
        self._is_open_to_all = clients.insecure
        shares_port = takes_over and tls is not None
        self._staging = _staging_address(address) if takes_over and not shares_port else address
        #: The files of the sockets and of the token, which another process may replace.
        self._own_files: list[OwnFile] = []
        self._token: bytes | None = None
        self._gate = AccessInterceptor(self.handler.sessions)
        self._certificates = None if self._revocations is None else CertificateInterceptor(self._revocations)
        self._threads = WorkerThreads(_MAX_THREADS, "neurald call")
        self._message_limits = MessageLimitInterceptor(self._owner, owner_limit=limits.calls)
        self.grpc = grpc.server(
            cast(ThreadPoolExecutor, self._threads),  # gRPC only calls submit
            options=server_options(is_local=address.is_loopback, shares_port=shares_port),
            maximum_concurrent_rpcs=_MAX_THREADS + _MAX_WAITING_CALLS,
            interceptors=[
                *(() if self._certificates is None else (self._certificates,)),
                self._gate,
                self._message_limits,
            ],
        )
        self.streams = StreamLimiter(
            limit=_MAX_STREAMS, owner_limit=limits.calls, patience_s=_PATIENCE_S, grace_s=_GRACE_S
        )
        self._service = GrpcService(
            self.handler, self.streams, has_channel=address.path is not None, find_access=self._access
        )
        self.grpc.add_generic_rpc_handlers(self._service.handlers())
        self._channel: ChannelServer | None = None
        self._serving: tuple[threading.Thread, ...] = ()

    def _owner(self, method: str, context: grpc.ServicerContext) -> Session | None:
        """Returns the session of a call whose message has not arrived; None if it needs none.

        Raises:
            DeadObject: the call needs a session and has none.
        """
        try:
            return self._service.sessions.find(context)
        except DeadObject:
            service, _, name = method.removeprefix("/").rpartition("/")
            if service == SERVICE and name not in _SESSIONLESS_CALLS:
                raise
            return None

    def _access(self) -> Access:
        if self._credentials is not None:
            return Access.CERTIFICATE
        return self._gate.access if self._sharing == NOBODY_ELSE else Access.LISTED_USERS

    @property
    def is_serving(self) -> bool:
        """True if the threads that accept calls and connections are alive.

        Without them the sockets remain, but no client is served.
        """
        return all(thread.is_alive() for thread in self._serving)

    @property
    def thread_ids(self) -> tuple[int, ...]:
        """The kernel's ids of the threads that accept calls and connections."""
        return tuple(thread.native_id for thread in self._serving if thread.native_id is not None)

    def start(self) -> None:
        """Binds the address and serves it.

        Raises:
            BadState: the address cannot be bound, for example because it is in use, or the token
                file cannot be created.
        """
        bound = self._staging
        if bound.path is not None and bound.path.exists():
            raise BadState(f"{bound.path} exists; remove it, or listen at another path")
        # gRPC creates its socket with the mode that the umask of the process leaves.
        mask = os.umask(0o177)
        try:
            port = (
                self.grpc.add_insecure_port(bound.numeric.target)
                if self._credentials is None
                else self.grpc.add_secure_port(bound.numeric.target, self._credentials)
            )
        except RuntimeError:
            raise BadState(f"{bound} cannot be bound; another process may listen there") from None
        finally:
            os.umask(mask)
        if bound.path is None:
            self.address = self._staging = Address(host=self.address.host, port=port)
            self._service.sessions.port = port
        else:
            if self._sharing != NOBODY_ELSE:
                bound.path.chmod(self._sharing.socket_mode)
            self._own_files.append(OwnFile(bound.path))
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
                self._staging.memory_path,
                self.handler.sessions,
                self.handler.admission.require_open,
                self.handler.open_ring,
                self._sharing,
            )
        except OSError as error:
            self.stop()
            raise BadState(f"{self._staging.memory_path} cannot be bound: {error.strerror}") from None
        self._start_grpc()
        self._channel.start()
        self._serving = (*self._serving, self._channel.thread)
        self._move_to_address()

    def _require_token(self) -> None:
        """Creates the token before any client is served."""
        if not self._is_open_to_all and self._credentials is None:
            self._token = create_token(self._staging)
            self._gate.require(self._token, token_path(self.address), self._staging.path)

    def _move_to_address(self) -> None:
        """Moves the sockets and the token to the address, where they replace those of others.

        Raises:
            BadState: they cannot be moved there.
        """
        if self._staging == self.address:
            return
        source, target = self._staging, self.address
        # The socket that clients connect to first comes last.
        moves = [(source.memory_path, target.memory_path), (cast(Path, source.path), cast(Path, target.path))]
        if self._token is not None:
            moves.insert(0, (token_path(source), token_path(target)))
        try:
            for old, new in moves:
                file = next((each for each in self._own_files if each.path == old), None)
                if file is None:
                    file = OwnFile(old)
                    self._own_files.append(file)
                file.move(new)
        except OSError as error:
            self.stop()
            raise BadState(f"{target} cannot be taken over: {error.strerror}") from None
        if self._token is not None:
            # Moving a socket changes what identifies it.
            self._gate.require(self._token, token_path(target), target.path)

    def _start_grpc(self) -> None:
        before = set(threading.enumerate())
        self.grpc.start()
        # gRPC does not expose its serving thread. A memory error in it ends the thread only.
        self._serving = tuple(
            thread
            for thread in threading.enumerate()
            if thread not in before and _SERVING_THREAD in thread.name
        )

    def check_certificates(self) -> None:
        """Reads the list of revoked certificates again if it has changed.

        The sessions of clients whose certificates are no longer valid end.
        """
        if self._certificates is not None and self._revocations is not None:
            self._revocations.update()
            self._service.sessions.end_refused(self._certificates.refusal)

    def stop(self) -> None:
        """Ends all sessions and calls, and removes the sockets. `drain` lets calls finish first.

        The files are removed even if something else fails: gRPC needs a thread to stop, which a
        process without memory cannot start.
        """
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._remove_sockets)
            if self._token is not None:
                last_first.callback(remove_token, self._staging, self._token)
                last_first.callback(remove_token, self.address, self._token)
            last_first.callback(self._threads.shutdown, wait=False)
            last_first.callback(self._message_limits.close)
            last_first.callback(self.streams.close)
            last_first.callback(self._stop_grpc)
            if self._compilers is not None:
                last_first.callback(self._compilers.close)
            last_first.callback(self._service.sessions.end_sessions)
            if self._channel is not None:
                last_first.callback(self._channel.close)
                self._channel = None
                # Clients learn that the daemon stops before their side channels break.
                last_first.callback(self._service.sessions.end_sessions)

    def _remove_sockets(self) -> None:
        """Removes the files of the sockets, unless another process has replaced them."""
        for file in self._own_files:
            file.remove()

    def _stop_grpc(self) -> None:
        self.grpc.stop(_FLUSH_S).wait(_STOP_S)


def _staging_address(address: Address) -> Address:
    """Returns the address at which a process listens until it takes over another one.

    Raises:
        BadData: the address is not a UNIX socket.
    """
    if address.path is None:
        raise BadData(f"{address} cannot be taken over; only UNIX sockets and ports with TLS can")
    return Address(path=address.path.with_name(f".{os.getpid()}"))

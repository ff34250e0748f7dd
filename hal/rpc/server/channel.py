"""The daemon's end of the side channel; see `neurald.hal.rpc.transport.channel_messages`."""

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from neurald.hal.accounting.account import Reservation
from neurald.hal.admission.access.sharing import NOBODY_ELSE, Sharing
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.errors import (
    BadData,
    Error,
    ResourceExhaustedTransient,
    ResultCode,
    UnavailableDevice,
)
from neurald.hal.process.descriptors import NO_DESCRIPTORS, Acceptor, is_scarce
from neurald.hal.process.peer import peer_of
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.rpc.transport.channel_messages import (
    CONSTANT,
    FENCE,
    GREETING,
    PACKET_BYTES,
    REGISTER,
    RING,
    THREAD,
    write_answer,
)
from neurald.hal.rpc.transport.packet import receive_packet, send_packet
from neurald.hal.sync.fence import Fence

logger = logging.getLogger(__name__)

#: How many memories a session may hold while descriptors are scarce: enough to run its models.
_SCARCE_MEMORIES = 8
#: The kernel's names for descriptors that tell the end of a process or a thread.
_PIDFDS = ("pidfd:", "anon_inode:[pidfd]")


class ChannelServer:
    """Serves the side channel. One thread serves all clients, and no client can make it wait.

    Args:
        path: the path of the socket to bind; nothing exists there yet.
        sessions: opens and closes sessions.
        require_open: raises an error if the daemon opens no more of them.
        open_ring: starts a ring of a session, and takes over two descriptors: of its socket and of
            its memory.
        sharing: which other users are served.
    """

    def __init__(
        self,
        path: Path,
        sessions: Sessions,
        require_open: Callable[[], None],
        open_ring: Callable[[Session, int, int], None],
        sharing: Sharing = NOBODY_ELSE,
    ) -> None:
        self._path = path
        self._require_open = require_open
        self._sharing = sharing
        self._sessions = sessions
        self._open_ring = open_ring
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._wake, self._woken = socket.socketpair()
        try:
            # The file gets this mode, less the umask of the process.
            os.fchmod(self._listener.fileno(), 0o600)
            self._listener.bind(str(path))
            if sharing != NOBODY_ELSE:
                path.chmod(sharing.socket_mode)
            self._listener.listen(128)
        except OSError:
            self._close_all()
            raise
        self._acceptor = Acceptor(self._listener)
        self._warnings = RateLimitedLogger(logger)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: None)
        self._thread = CheckedThread(target=self._run, name="neurald side channel", daemon=True)
        self._is_open = True

    @property
    def thread(self) -> threading.Thread:
        """The thread that serves all clients."""
        return self._thread

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends all sessions that it opened, and removes the socket."""
        self._is_open = False
        self._wake.send(b"!")
        if self._thread.ident is not None:
            self._thread.join()
        for key in tuple(self._selector.get_map().values()):
            if isinstance(key.data, _ChannelPeer):
                self._drop(key.data)
        self._acceptor.close()
        self._close_all()
        self._path.unlink(missing_ok=True)

    def _close_all(self) -> None:
        for each in (self._listener, self._wake, self._woken, self._selector):
            each.close()

    def _run(self) -> None:
        while self._is_open:
            for key, _ in self._selector.select():
                handle: Callable[[], None] = key.data
                try:
                    handle()
                except Exception:
                    logger.exception("the side channel failed to serve a client")
                    if isinstance(handle, _ChannelPeer):
                        self._drop(handle)

    def _accept(self) -> None:
        try:
            connection, may_stay = self._acceptor.accept()
        except OSError as error:
            self._warnings.warning("a side channel could not be accepted: %s", error.strerror)
            time.sleep(0.05)  # select would return at once, again and again
            return
        if connection is None:
            return
        connection.setblocking(False)
        if not may_stay:
            self._warnings.warning("a client was refused: the daemon has too few file descriptors left")
            text = "the daemon has no file descriptors left for another client"
            send_packet(
                connection, GREETING + write_answer(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, message=text)
            )
            connection.close()
            return
        try:
            peer = peer_of(connection)
            if refusal := self._sharing.refusal(peer):
                self._warnings.warning("a client was refused: %s", refusal)
                raise UnavailableDevice(refusal)
            # Clients that connected before its successor took over the path may still be waiting.
            self._require_open()
            session = self._sessions.open(peer.user)
        except Error as error:
            send_packet(connection, GREETING + write_answer(error.code, message=str(error)))
            connection.close()
            return
        client = _ChannelPeer(
            connection, session, self._open_ring, self._drop, self._warnings, self._end_with
        )
        self._selector.register(connection, selectors.EVENT_READ, client)
        if not send_packet(connection, GREETING + write_answer(ResultCode.NO_ERROR, session.token)):
            self._drop(client)

    def _end_with(self, client: "_ChannelPeer", pidfd: int) -> None:
        """Makes the session of a client end when a pidfd is readable, and takes the pidfd over."""
        self._selector.register(pidfd, selectors.EVENT_READ, partial(self._drop, client))
        client.pidfd = pidfd

    def _drop(self, client: "_ChannelPeer") -> None:
        if client.is_dropped:
            return  # its connection and its thread end at the same time
        client.is_dropped = True
        self._selector.unregister(client.connection)
        client.connection.close()
        if client.pidfd is not None:
            self._selector.unregister(client.pidfd)
            os.close(client.pidfd)
            client.reservation = None
        self._sessions.close(client.session)


class _ChannelPeer:
    """One client of the side channel; calling it reads one packet."""

    def __init__(
        self,
        connection: socket.socket,
        session: Session,
        open_ring: Callable[[Session, int, int], None],
        drop: Callable[["_ChannelPeer"], None],
        warnings: RateLimitedLogger,
        end_with: Callable[["_ChannelPeer", int], None],
    ) -> None:
        self._warnings = warnings
        self._end_with = end_with
        self.is_dropped = False
        #: The pidfd of a thread with which the session ends, and what it is charged with; None
        #: without one.
        self.pidfd: int | None = None
        self.reservation: Reservation | None = None
        self.connection = connection
        self.session = session
        self._open_ring = open_ring
        self._drop = drop

    def __call__(self) -> None:
        if self.is_dropped:
            return
        try:
            packet = receive_packet(self.connection, PACKET_BYTES, 2)
        except BlockingIOError:
            return
        except OSError:
            self._drop(self)
            return
        if packet.lacks_descriptors:
            packet.close_descriptors()
            if not send_packet(
                self.connection, write_answer(NO_DESCRIPTORS.code, message=str(NO_DESCRIPTORS))
            ):
                self._drop(self)
            return
        size, flags = REGISTER.unpack(packet.data) if len(packet.data) == REGISTER.size else (0, -1)
        if not packet.is_whole or flags < 0 or len(packet.descriptors) != (2 if flags == RING else 1):
            packet.close_descriptors()
            if packet.data:
                self._warnings.warning("a client broke the protocol of the side channel and was disconnected")
            self._drop(self)
            return
        try:
            answer = write_answer(ResultCode.NO_ERROR, self._register(size, flags, *packet.descriptors))
        except Error as error:
            answer = write_answer(error.code, message=str(error))
        if not send_packet(self.connection, answer):
            self._drop(self)

    def _register(self, size: int, flags: int, descriptor: int, ring: int = -1) -> bytes:
        if flags == RING:
            if size:
                os.close(descriptor)
                os.close(ring)
                raise BadData(f"a ring belongs to a session, not to prepared model {size}")
            self._open_ring(self.session, descriptor, ring)
            return b""
        if flags == THREAD and not size:
            self._watch(descriptor)
            return b""
        if flags == FENCE and not size:
            return self.session.fences.add(Fence.received(descriptor))
        if flags & ~CONSTANT:
            os.close(descriptor)
            raise BadData(f"a memory has the flags {flags:#x}, some of which are not known")
        if is_scarce(descriptor) and len(self.session.memories) >= _SCARCE_MEMORIES:
            os.close(descriptor)
            raise ResourceExhaustedTransient(
                f"the daemon has few file descriptors left; until there are more, a session may have "
                f"{_SCARCE_MEMORIES} memories"
            )
        memory = self.session.memories.receive(descriptor, size, constant=bool(flags & CONSTANT))
        return self.session.memories.add(memory)

    def _watch(self, pidfd: int) -> None:
        """Makes the session end with a thread of the client, and takes over its pidfd.

        Raises:
            BadData: it is not a pidfd, or there is one already.
            ResourceExhaustedTransient: the client has too many descriptors.
        """
        try:
            # Waiting for a file of another kind may make this thread wait for the client.
            if not str(Path(f"/proc/self/fd/{pidfd}").readlink()).startswith(_PIDFDS):
                raise BadData("the descriptor for a thread is not a pidfd")
            if self.pidfd is not None:
                raise BadData("the session already ends with another thread; there is one at most")
            if is_scarce(pidfd):
                raise ResourceExhaustedTransient("the daemon has few file descriptors left")
            reservation = self.session.accounts.descriptors.reserve(1, "the thread of a client")
            self._end_with(self, pidfd)
            self.reservation = reservation
        except (Error, OSError) as error:
            os.close(pidfd)
            if isinstance(error, Error):
                raise
            raise BadData(f"the descriptor of a thread cannot be used: {error}") from None

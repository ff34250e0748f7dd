"""The side channel of a UNIX socket: it opens a session and carries memory, which gRPC cannot.

It is a SEQPACKET socket beside the daemon's own, `MEMORY_SUFFIX` appended. Each message is one packet:

    daemon -> client, once:     greeting, then an answer whose token is that of the session
    client -> daemon:           size (u64), flags (u8), and with it exactly one descriptor: of a sealed memfd,
                                or with size 0 and the flag for it of an eventfd; or a prepared model (u64), the
                                flag for a burst of it, and two descriptors: of a socket to the daemon's end
                                of the burst, and of its ring (`neurald.hal.rpc.transport.burst_ring`)
    daemon -> client, to each:  an answer: result code (u8), token (16 bytes), for errors a sentence in UTF-8

The kernel tells the daemon whose process the client is; only its own user and root get a session. The
session lasts as long as the connection. A client that breaks these rules is cut off; a memory that is
refused is not breaking them.
"""

import contextlib
import logging
import os
import select
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from neurald.hal.admission.session import Session, Sessions
from neurald.hal.errors import (
    BadData,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
    ResultCode,
    UnavailableDevice,
    error_for,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.descriptors import NO_DESCRIPTORS, Acceptor, is_scarce
from neurald.hal.process.fork import at_fork, forkable_lock
from neurald.hal.process.seldom import Seldom
from neurald.hal.rpc.client.reach import require_trusted
from neurald.hal.rpc.transport.packet import receive_packet, rights, send_packet, shut_down
from neurald.hal.sync.fence import Fence

logger = logging.getLogger(__name__)

_GREETING = b"neurald1"
_REGISTER = struct.Struct("<QB")
_CONSTANT = 1
_FENCE = 2
_BURST = 4
_ANSWER = struct.Struct("<B16s")
_PACKET_BYTES = 1024
_PEER = struct.Struct("3i")  # pid, uid, gid: struct ucred
#: What a session may hold where descriptors are short: enough to run the models that it has.
_FEW_MEMORIES = 8
#: How long a daemon that lives may take to answer: as long as native code may keep its threads from it.
_ANSWER_TIMEOUT_S = 60.0


def _answer(code: ResultCode, token: bytes = b"", message: str = "") -> bytes:
    text = message.encode("utf-8", "replace")[: _PACKET_BYTES - _ANSWER.size - len(_GREETING)]
    return _ANSWER.pack(code, token) + text


def _read_answer(packet: bytes) -> bytes:
    """The token in an answer; raises the error that it tells instead."""
    if len(packet) < _ANSWER.size:
        raise OpFailed(f"the side socket answered {len(packet)} bytes; at least {_ANSWER.size} are expected")
    number, token = _ANSWER.unpack_from(packet)
    if number == ResultCode.NO_ERROR:
        return bytes(token)
    text = packet[_ANSWER.size :].decode("utf-8", "replace")
    try:
        code = ResultCode(number)
    except ValueError:
        raise OpFailed(f"the side socket answered with result code {number}: {text}") from None
    raise error_for(code, text)


class ChannelServer:
    """The daemon's end. One thread serves all clients, and no client can make it wait.

    Args:
        path: where to bind the socket; nothing is there yet.
        sessions: where sessions are opened and closed.
        configure_burst: starts a burst of a session's prepared model, and takes over two descriptors: of its socket
            and of its ring.
    """

    def __init__(
        self, path: Path, sessions: Sessions, configure_burst: Callable[[Session, int, int, int], None]
    ) -> None:
        self._path = path
        self._sessions = sessions
        self._configure_burst = configure_burst
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._wake, self._woken = socket.socketpair()
        try:
            # The file takes this mode, less the process's mask.
            os.fchmod(self._listener.fileno(), 0o600)
            self._listener.bind(str(path))
            self._listener.listen(128)
        except OSError:
            self._close_all()
            raise
        self._acceptor = Acceptor(self._listener)
        self._warnings = Seldom(logger)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: None)
        self._thread = threading.Thread(target=self._run, name="neurald side channel", daemon=True)
        self._is_open = True

    @property
    def thread(self) -> threading.Thread:
        """What serves all clients, once it has started."""
        return self._thread

    def start(self) -> None:
        """Starts to serve."""
        self._thread.start()

    def close(self) -> None:
        """Ends all sessions that it opened, and removes the socket."""
        self._is_open = False
        self._wake.send(b"!")
        if self._thread.ident is not None:
            self._thread.join()
        for key in tuple(self._selector.get_map().values()):
            if isinstance(key.data, _Client):
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
                    if isinstance(handle, _Client):
                        self._drop(handle)

    def _accept(self) -> None:
        try:
            connection, may_stay = self._acceptor.accept()
        except OSError as error:
            self._warnings.warning("no side channel could be accepted: %s", error.strerror)
            time.sleep(0.05)  # select would come back at once, again and again
            return
        if connection is None:
            return
        connection.setblocking(False)
        if not may_stay:
            self._warnings.warning("a client was turned away: the daemon has too few file descriptors left")
            text = "the daemon has no file descriptors left for another client"
            send_packet(
                connection, _GREETING + _answer(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, message=text)
            )
            connection.close()
            return
        try:
            _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if uid not in (os.geteuid(), 0):
                self._warnings.warning("a client of user %d was turned away", uid)
                connection.close()
                return
            session = self._sessions.open(uid)
        except Error as error:
            send_packet(connection, _GREETING + _answer(error.code, message=str(error)))
            connection.close()
            return
        client = _Client(connection, session, self._configure_burst, self._drop, self._warnings)
        self._selector.register(connection, selectors.EVENT_READ, client)
        if not send_packet(connection, _GREETING + _answer(ResultCode.NO_ERROR, session.token)):
            self._drop(client)

    def _drop(self, client: "_Client") -> None:
        self._selector.unregister(client.connection)
        client.connection.close()
        self._sessions.close(client.session)


class _Client:
    """One connection of the daemon; calling it reads one packet."""

    def __init__(
        self,
        connection: socket.socket,
        session: Session,
        configure_burst: Callable[[Session, int, int, int], None],
        drop: Callable[["_Client"], None],
        warnings: Seldom,
    ) -> None:
        self._warnings = warnings
        self.connection = connection
        self.session = session
        self._configure_burst = configure_burst
        self._drop = drop

    def __call__(self) -> None:
        try:
            packet = receive_packet(self.connection, _PACKET_BYTES, 2)
        except BlockingIOError:
            return
        except OSError:
            self._drop(self)
            return
        if packet.lacks_descriptors:
            packet.close_descriptors()
            if not send_packet(self.connection, _answer(NO_DESCRIPTORS.code, message=str(NO_DESCRIPTORS))):
                self._drop(self)
            return
        size, flags = _REGISTER.unpack(packet.data) if len(packet.data) == _REGISTER.size else (0, -1)
        if not packet.is_whole or flags < 0 or len(packet.descriptors) != (2 if flags == _BURST else 1):
            packet.close_descriptors()
            if packet.data:
                self._warnings.warning("a client broke the rules of the side channel and was cut off")
            self._drop(self)
            return
        try:
            answer = _answer(ResultCode.NO_ERROR, self._register(size, flags, *packet.descriptors))
        except Error as error:
            answer = _answer(error.code, message=str(error))
        if not send_packet(self.connection, answer):
            self._drop(self)

    def _register(self, size: int, flags: int, descriptor: int, ring: int = -1) -> bytes:
        if flags == _BURST:
            self._configure_burst(self.session, size, descriptor, ring)
            return b""
        if flags == _FENCE and not size:
            return self.session.add_fence(Fence.received(descriptor))
        if flags & ~_CONSTANT:
            os.close(descriptor)
            raise BadData(f"memory with the flags {flags:#x}, of which some are not known")
        if is_scarce(descriptor) and self.session.memories >= _FEW_MEMORIES:
            os.close(descriptor)
            raise ResourceExhaustedTransient(
                f"the daemon has few file descriptors left; a session may have {_FEW_MEMORIES} memories until it has more"
            )
        memory = self.session.receive_memory(descriptor, size, constant=bool(flags & _CONSTANT))
        return self.session.add_memory(memory)


class ChannelClient:
    """The client's end; thread-safe. `session` is the token of the session that lasts until `close`."""

    def __init__(self, connection: socket.socket, session: bytes) -> None:
        self._connection = connection
        self._lock = forkable_lock()
        self._late = 0  # answers that somebody gave up waiting for
        self._unused: list[bytes] = []
        self.session = session
        at_fork(self)

    def forked(self) -> None:
        """Closes the child's copy of the socket, so that the session ends with the parent; the parent's stays open."""
        self._connection.close()

    @classmethod
    def connect(cls, path: Path, timeout_s: float) -> Self:
        """Opens a session.

        Raises:
            UnavailableDevice: nobody answers there, not as a daemon does, or it is another user's.
            Error: the daemon refuses.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            require_trusted(connection, str(path))
            packet = connection.recv(_PACKET_BYTES)
            if not packet.startswith(_GREETING):
                raise UnavailableDevice(f"what listens at {path} is no neurald daemon of this version")
            session = _read_answer(packet[len(_GREETING) :])
        except OSError as error:
            connection.close()
            raise UnavailableDevice(f"{path}: {error.strerror or error}") from None
        except Error:
            connection.close()
            raise
        return cls(connection, session)

    def register(self, memory: SharedMemory, deadline_s: float | None = None) -> bytes:
        """Gives a memory to the daemon; returns the token for one call.

        Raises:
            BadState: the memory was closed.
            MissedDeadlineTransient: the daemon has not answered by then.
            DeadObject: the daemon is gone.
            Error: the daemon refuses the memory.
        """
        packet = _REGISTER.pack(memory.size, _CONSTANT if memory.readonly else 0)
        return self._give(packet, memory.fd, deadline_s=deadline_s)

    def register_fence(self, fence: Fence) -> bytes:
        """Gives a fence to the daemon; see `register`."""
        return self._give(_REGISTER.pack(0, _FENCE), fence.fd)

    def configure_burst(self, handle: int, connection: socket.socket, ring: SharedMemory) -> None:
        """Gives the daemon its end of a burst's socket, and the ring.

        Args:
            handle: of a prepared model of the session.
            connection: the daemon's end.
            ring: see `neurald.hal.rpc.transport.burst_ring`.

        Raises:
            DeadObject: the daemon is gone.
            Error: the daemon refuses the burst.
        """
        self._give(_REGISTER.pack(handle, _BURST), connection.fileno(), ring.fd)

    def take_unused(self) -> list[bytes]:
        """Tokens that came after whoever wanted them had given up; they are to be released."""
        with self._lock:
            unused, self._unused = self._unused, []
        return unused

    def _give(self, packet: bytes, *descriptors: int, deadline_s: float | None = None) -> bytes:
        limit = time.monotonic() + _ANSWER_TIMEOUT_S
        end = limit if deadline_s is None else min(limit, deadline_s)
        late = MissedDeadlineTransient("the daemon has not answered on the side channel by the deadline")
        if not self._lock.acquire(timeout=max(0.0, end - time.monotonic())):
            raise late
        try:
            # Answers come in the order of the packets, those first that nobody waits for any more.
            while self._late:
                answer = self._receive(end)
                self._late -= 1
                with contextlib.suppress(Error):
                    self._unused.append(_read_answer(answer))
            self._connection.settimeout(_ANSWER_TIMEOUT_S)
            self._connection.sendmsg([packet], rights(descriptors), socket.MSG_NOSIGNAL)
            self._late += 1
            answer = self._receive(end)
            self._late -= 1
        except TimeoutError:
            if end < limit:
                raise late from None
            self._connection.close()
            raise DeadObject("the daemon does not answer on the side channel") from None
        except OSError as error:
            self._connection.close()
            raise DeadObject(f"the side channel broke: {error}") from None
        finally:
            self._lock.release()
        return _read_answer(answer)

    def _receive(self, end_s: float) -> bytes:
        self._connection.settimeout(max(0.001, end_s - time.monotonic()))
        packet = self._connection.recv(_PACKET_BYTES)
        if not packet:
            raise ConnectionResetError("it was closed")
        return packet

    def wait_for(self, fence: Fence, timeout_s: float | None) -> bool:
        """Whether a fence that the daemon holds signals within the time.

        Raises:
            DeadObject: the daemon is gone, or the channel was closed here.
        """
        poll = select.poll()
        try:
            poll.register(fence.fd, select.POLLIN)
            poll.register(self._connection, select.POLLRDHUP)
            ready = dict(poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))
        except (OSError, ValueError) as error:
            raise DeadObject(f"the side channel is closed: {error}") from None
        if fence.fd in ready:
            return True
        if ready:
            raise DeadObject("the daemon closed the side channel")
        return False

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed the channel."""
        if not self._lock.acquire(blocking=False):
            return True  # somebody waits for an answer
        try:
            poll = select.poll()
            poll.register(self._connection, select.POLLRDHUP)
            return not poll.poll(0)
        except (OSError, ValueError):  # closed here
            return False
        finally:
            self._lock.release()

    def shut_down(self) -> None:
        """Ends the session for whoever waits for an answer or a fence, without waiting for them."""
        shut_down(self._connection)

    def close(self) -> None:
        """Ends the session; a call that waits for an answer gets none."""
        self.shut_down()
        with self._lock:
            self._connection.close()

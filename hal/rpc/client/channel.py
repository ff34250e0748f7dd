"""The client's end of the side channel; see `neurald.hal.rpc.transport.channel_messages`.

Answers have no numbers; they arrive in the order of the packets. A signal handler may raise an
exception between any two calls, also right after a packet was sent, and the next packet would be
taken to have the answer of that one. So whatever must not be lost is done and noted by one call in
C: `extend` of a list that notes the results of `map`.
"""

import contextlib
import math
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from neurald.hal.errors import (
    BadState,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    UnavailableDevice,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.open_file_limit import descriptor_shortage
from neurald.hal.process.fork import at_fork, forkable_lock
from neurald.hal.process.peer import peer_of
from neurald.hal.rpc.client.reach import require_trusted
from neurald.hal.rpc.transport.channel_messages import (
    CONSTANT,
    FENCE,
    GREETING,
    PACKET_BYTES,
    REGISTER,
    RING,
    THREAD,
    read_answer,
)
from neurald.hal.rpc.transport.packet import rights, shut_down
from neurald.hal.sync.cancellation import Cancellation, next_wait_s
from neurald.hal.sync.fence import Fence

#: How long a live daemon may take to answer. Native code may block its threads for that long.
_ANSWER_TIMEOUT_S = 60.0
_WHERE = "before the daemon answered on the side channel"
#: Makes a pidfd that of one thread, since Linux 6.9.
_PIDFD_THREAD = os.O_EXCL


def _late() -> MissedDeadlineTransient:
    return MissedDeadlineTransient("the daemon has not answered on the side channel by the deadline")


class ChannelClient:
    """The client's end of a side channel. Thread-safe.

    Args:
        connection: the connection to the daemon.
        session: token of the session.

    Attributes:
        session: token of the session, which lasts until `close`.
    """

    def __init__(self, connection: socket.socket, session: bytes) -> None:
        self._connection = connection
        self._lock = forkable_lock()
        #: The identity of the thread that waits for an answer; 0 if none does.
        self._holder = 0
        #: The size of each packet that was sent, and the answers to them that have arrived, until a
        #: thread takes its answer.
        self._sent: list[int] = []
        self._answers: list[bytes] = []
        self._unused: list[bytes] = []
        self.session = session
        at_fork(self)

    @property
    def peer(self) -> int:
        """The id of the daemon's process; 0 if the socket is closed."""
        with contextlib.suppress(OSError):
            return peer_of(self._connection).process
        return 0

    def forked(self) -> None:
        """Closes the child's copy of the socket, so that the session ends with the parent."""
        self._holder = 0
        self._connection.close()

    @classmethod
    def connect(cls, path: Path, timeout_s: float) -> Self:
        """Opens a session.

        Raises:
            UnavailableDevice: there is no daemon of this version, it does not answer, or it belongs
                to another user.
            Error: the daemon refuses the session.
        """
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise _unreachable(path, error) from None
        try:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            require_trusted(connection, path)
            packet = connection.recv(PACKET_BYTES)
            if not packet.startswith(GREETING):
                raise UnavailableDevice(f"the process at {path} is not a neurald daemon of this version")
            session = read_answer(packet[len(GREETING) :])
        except OSError as error:
            connection.close()
            raise _unreachable(path, error) from None
        except Error:
            connection.close()
            raise
        return cls(connection, session)

    def register(
        self, memory: SharedMemory, deadline_s: float | None = None, cancellation: Cancellation | None = None
    ) -> bytes:
        """Sends a memory to the daemon; returns a token for one call.

        Args:
            memory: the memory.
            deadline_s: the deadline on the clock of `time.monotonic()`.
            cancellation: ends the wait for the answer.

        Raises:
            BadState: the memory is closed, or a signal handler or a finalizer has interrupted a
                call of the channel.
            MissedDeadlineTransient: the daemon has not answered in time.
            Cancelled: `cancellation` was cancelled before the daemon answered.
            DeadObject: the daemon is gone.
            Error: the daemon refuses the memory.
        """
        packet = REGISTER.pack(memory.size, CONSTANT if memory.readonly else 0)
        return self._send(packet, memory.fd, deadline_s=deadline_s, cancellation=cancellation)

    def register_fence(self, fence: Fence) -> bytes:
        """Sends a fence to the daemon; see `register`."""
        return self._send(REGISTER.pack(0, FENCE), fence.fd)

    def open_ring(
        self,
        connection: socket.socket,
        memory: SharedMemory,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Sends the daemon its end of a ring's socket, and the memory of the ring.

        Args:
            connection: the daemon's end.
            memory: see `neurald.hal.rpc.transport.ring_end`.
            deadline_s, cancellation: see `register`.

        Raises:
            DeadObject: the daemon is gone.
            Error: see `register`; or the daemon refuses the ring.
        """
        packet = REGISTER.pack(0, RING)
        self._send(packet, connection.fileno(), memory.fd, deadline_s=deadline_s, cancellation=cancellation)

    def end_with(self, thread: int, deadline_s: float) -> None:
        """Lets the session end with a thread of this process, if daemon and kernel support that.

        Args:
            thread: the kernel's id of the thread, which lives as long as the session.
            deadline_s: until when to wait for the daemon, on the clock of `time.monotonic()`.
        """
        with contextlib.suppress(OSError, Error):
            pidfd = os.pidfd_open(thread, _PIDFD_THREAD)
            try:
                self._send(REGISTER.pack(0, THREAD), pidfd, deadline_s=deadline_s)
            finally:
                os.close(pidfd)

    def take_unused(self) -> list[bytes]:
        """Returns tokens that arrived after their callers had given up; they must be released."""
        with self._lock:
            unused, self._unused = self._unused, []
        return unused

    def _send(
        self,
        packet: bytes,
        *descriptors: int,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> bytes:
        limit = time.monotonic() + _ANSWER_TIMEOUT_S
        end = limit if deadline_s is None else min(limit, deadline_s)
        thread = threading.get_ident()
        if self._holder == thread:
            raise BadState("the code that was interrupted here waits for an answer on the same side channel")
        is_held: list[bool] = []
        try:
            while True not in is_held:
                wait_s = next_wait_s(end, cancellation, _WHERE)
                is_held.extend(map(self._lock.acquire, (True,), (wait_s,)))
                if True not in is_held and time.monotonic() >= end:
                    raise _late()
            self._holder = thread
            # The answers that no thread has taken arrive first.
            if not self._receive_due(end, cancellation):
                raise self._silence() if end >= limit else _late()
            self._put_aside()
            self._send_packet(packet, descriptors)
            if not self._receive_due(end, cancellation):
                raise self._silence() if end >= limit else _late()
            token = read_answer(self._answers[0])
            self._sent, self._answers = [], []
        finally:
            if True in is_held:
                self._holder = 0
                self._lock.release()
        return token

    def _put_aside(self) -> None:
        """Keeps the tokens of answers that no thread has taken, to be released."""
        for answer in self._answers:
            with contextlib.suppress(Error):
                self._unused.append(read_answer(answer))
        # No call lies between the two.
        self._sent, self._answers = [], []

    def _send_packet(self, packet: bytes, descriptors: Sequence[int]) -> None:
        try:
            self._connection.settimeout(_ANSWER_TIMEOUT_S)
            arguments = ([packet],), (rights(descriptors),), (socket.MSG_NOSIGNAL,)
            self._sent.extend(map(self._connection.sendmsg, *arguments))
        except TimeoutError:
            raise self._silence() from None
        except OSError as error:
            raise self._broken(error) from None

    def _receive_due(self, end_s: float, cancellation: Cancellation | None) -> bool:
        """Receives the answers to all packets; returns False if some are missing at `end_s`."""
        poll = select.poll()
        while len(self._answers) < len(self._sent):
            try:
                poll.register(self._connection, select.POLLIN)
            except (OSError, ValueError) as error:  # closed here
                raise self._broken(error) from None
            # The handler of a signal may raise a TimeoutError here, which is none of the socket.
            if not poll.poll(math.ceil(1000 * next_wait_s(end_s, cancellation, _WHERE))):
                if time.monotonic() >= end_s:
                    return False
                continue
            try:
                self._answers.extend(map(self._connection.recv, (PACKET_BYTES,), (socket.MSG_DONTWAIT,)))
                if not self._answers[-1]:
                    raise ConnectionResetError("the daemon closed it")
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(error) from None
        return True

    def _silence(self) -> DeadObject:
        self._connection.close()
        return DeadObject("the daemon does not answer on the side channel")

    def _broken(self, error: Exception) -> DeadObject:
        self._connection.close()
        return DeadObject(f"the side channel broke: {error}")

    def wait_for(self, fence: Fence, timeout_s: float | None) -> bool:
        """Waits until a fence that the daemon holds has signalled.

        Args:
            fence: the fence.
            timeout_s: how long to wait at most; None for no limit.

        Returns:
            Whether it has signalled.

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
        """True if neither side has closed the channel."""
        is_held: list[bool] = []
        try:
            is_held.extend(map(self._lock.acquire, (False,)))
            if True not in is_held:
                return True  # another thread waits for an answer
            poll = select.poll()
            poll.register(self._connection, select.POLLRDHUP)
            return not poll.poll(0)
        except (OSError, ValueError):  # closed here
            return False
        finally:
            if True in is_held:
                self._lock.release()

    def shut_down(self) -> None:
        """Ends the session for threads that wait for an answer or a fence, without waiting."""
        shut_down(self._connection)

    def close(self) -> None:
        """Ends the session. A thread that waits for an answer gets an error."""
        self.shut_down()
        with self._lock:
            self._connection.close()


def _unreachable(path: Path, error: OSError) -> Error:
    what = f"{path} cannot be connected"
    return descriptor_shortage(what, error) or UnavailableDevice(f"{what}: {error.strerror or error}")

"""The client's end of the side channel; see `neurald.hal.rpc.transport.channel_messages`."""

import contextlib
import select
import socket
import time
from pathlib import Path
from typing import Self

from neurald.hal.errors import (
    DeadObject,
    Error,
    MissedDeadlineTransient,
    UnavailableDevice,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.fork import at_fork, forkable_lock
from neurald.hal.rpc.client.reach import require_trusted
from neurald.hal.rpc.transport.channel_messages import (
    BURST,
    CONSTANT,
    FENCE,
    GREETING,
    PACKET_BYTES,
    REGISTER,
    read_answer,
)
from neurald.hal.rpc.transport.packet import rights, shut_down
from neurald.hal.sync.fence import Fence

#: How long a daemon that lives may take to answer: as long as native code may keep its threads from it.
_ANSWER_TIMEOUT_S = 60.0


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
            packet = connection.recv(PACKET_BYTES)
            if not packet.startswith(GREETING):
                raise UnavailableDevice(f"what listens at {path} is no neurald daemon of this version")
            session = read_answer(packet[len(GREETING) :])
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
        packet = REGISTER.pack(memory.size, CONSTANT if memory.readonly else 0)
        return self._give(packet, memory.fd, deadline_s=deadline_s)

    def register_fence(self, fence: Fence) -> bytes:
        """Gives a fence to the daemon; see `register`."""
        return self._give(REGISTER.pack(0, FENCE), fence.fd)

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
        self._give(REGISTER.pack(handle, BURST), connection.fileno(), ring.fd)

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
                    self._unused.append(read_answer(answer))
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
        return read_answer(answer)

    def _receive(self, end_s: float) -> bytes:
        self._connection.settimeout(max(0.001, end_s - time.monotonic()))
        packet = self._connection.recv(PACKET_BYTES)
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

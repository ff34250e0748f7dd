"""The daemon as seen by the client's end of a ring: requests, answers, and whether it lives."""

import select
import socket
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from google.protobuf.message import Message

from neurald._proto import device_pb2
from neurald.hal.device import ExecuteOptions, Timing
from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    OpFailed,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.fork import at_fork
from neurald.hal.rpc.client.connection_life import ConnectionLife
from neurald.hal.rpc.transport.packet import receive_packet, send_packet, shut_down
from neurald.hal.rpc.transport.ring_end import RING_BYTES, SPIN_S, WAKE, RingEnd, RingSide
from neurald.hal.rpc.transport.ring_packet import (
    ANSWER,
    COMPLETION,
    OUTCOME,
    PACKET_BYTES,
    UNKNOWN_NS,
    RingOutcome,
    read_outcome,
    require_success,
)
from neurald.hal.sync.cancellation import Cancellation, next_wait_s
from neurald.hal.sync.fence import Fence

#: How long a live daemon may take to answer. Native code may block its threads for that long.
_ANSWER_TIMEOUT_S = 60.0
#: How long to wait for the daemon's own error after a deadline or a cancellation.
_SLACK_S = 0.05
#: If the connection is still open this long after its ring has ended, the ring ended alone; and how
#: often that is looked at.
_ALONE_S = 0.5
_LOOK_S = 0.005
_FOREVER_S = float("inf")
_UNKNOWN = Timing()
_ENDED = "the ring has ended"
#: The identities of the rings of this process whose daemons run an execution. Each change is one
#: atomic operation, since a signal handler may make a call.
_under_way: set[int] = set()


class RingConnection(Protocol):
    """The connection that a ring belongs to; see `neurald.hal.rpc.client.connection.Connection`."""

    life: ConnectionLife

    @property
    def is_open(self) -> bool:
        """See `Connection.is_open`."""
        ...

    def open_ring(
        self,
        connection: socket.socket,
        memory: SharedMemory,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        """See `Connection.open_ring`."""
        ...

    def tidy_soon(self) -> None:
        """See `Connection.tidy_soon`."""
        ...

    def start_soon(self, work: Callable[[], object]) -> None:
        """See `Connection.start_soon`."""
        ...

    def call(self, method: str, message: Message, deadline_s: float | None = None) -> Any:
        """See `Connection.call`."""
        ...


class RingPeer:
    """The daemon's end of one ring. Not thread-safe, except `shut_down`.

    Args:
        connection: the connection to the daemon. It owns rings, so it is not kept alive.
        deadline_s, cancellation: see the attributes; they also hold for the start.

    Attributes:
        deadline_s: until when the daemon must answer packets, on the clock of `time.monotonic()`;
            None for some time.
        cancellation: ends the wait for an answer; None if nothing does.

    Raises:
        Cancelled: `cancellation` was cancelled before the daemon had taken the ring.
        DeadObject: the daemon is gone.
        Error: the daemon refuses the ring.
    """

    def __init__(
        self,
        connection: RingConnection,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        self._daemon = weakref.ref(connection)
        self._life = connection.life
        self._outputs = 0
        self.deadline_s, self.cancellation = deadline_s, cancellation
        memory = SharedMemory.working(RING_BYTES, "neurald ring")
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._close = weakref.finalize(self, _release, self.socket, id(self))
        self._close.atexit = False
        with theirs:
            connection.open_ring(theirs, memory, deadline_s, cancellation)
        memory.close()  # only the mapping is needed
        # The ring ends with the connection.
        forget = connection.life.call_at_end(partial(shut_down, self.socket))
        weakref.finalize(self, forget).atexit = False
        self._ring = RingEnd(memory, self.socket, RingSide.CLIENT)
        self._is_asking = False
        self._answer: bytes | None = None
        self._outcome: RingOutcome | None = None
        self._outcome_number = -1
        self._is_over = False
        self._was_shut_down = False
        at_fork(self)

    def forked(self) -> None:
        """Ends the ring in a child, which closes its copy of the socket; the parent's goes on."""
        self._is_over = True
        self._close()

    def shut_down(self) -> None:
        """Ends the ring for the daemon and for a waiting thread. May be called by any thread."""
        self._was_shut_down = True
        shut_down(self.socket)

    def close(self) -> None:
        """Closes the socket, which must no longer be in use."""
        self._is_over = True
        self._close()

    def ask(self, packet: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Sends a packet that the daemon must answer, and waits for the answer.

        Raises:
            MissedDeadlineTransient: `deadline_s` has passed; the ring has ended.
            Cancelled: `cancellation` was cancelled; the ring has ended.
            DeadObject: the daemon is gone.
            OpFailed: the daemon broke the protocol.
            Error: the daemon's refusal.
        """
        answer = None
        end = time.monotonic() + _ANSWER_TIMEOUT_S
        late = _FOREVER_S if self.deadline_s is None else self.deadline_s + _SLACK_S
        try:
            while self._read():  # an answer that is there already would be taken for this one
                pass
            self._answer, self._is_asking = None, True
            self.tell(packet, descriptors)
            while (answer := self._answer) is None:
                now = time.monotonic()
                if now >= late:
                    raise self._over(
                        MissedDeadlineTransient("the deadline passed before the daemon had read the request")
                    )
                if now >= end:
                    raise self._dead("it does not answer")
                try:
                    wait_s = next_wait_s(
                        min(end, late), self.cancellation, "before the daemon had read the request"
                    )
                except Cancelled as error:
                    raise self._over(error) from None
                # No execution is under way. A completion left in the ring would end every sleep at
                # once, and the answer would never be read.
                if self._sleep(wait_s):
                    raise BadData("it completed an execution that was not submitted")
        except BadData as error:
            raise self._broken(error) from None
        finally:
            if answer is None and not self._is_over:
                # A signal has interrupted it. The next packet would be taken to have this answer.
                self._over(DeadObject(_ENDED))
            self._is_asking = False
        require_success(answer)

    def tell(self, packet: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Sends a packet.

        Raises:
            DeadObject: the daemon is gone.
        """
        self.require_open()
        self._ring.announce_packet()
        if not send_packet(self.socket, packet, descriptors):
            room = select.poll()
            room.register(self.socket, select.POLLOUT)
            room.poll(_ANSWER_TIMEOUT_S * 1000)
            if not send_packet(self.socket, packet, descriptors):
                raise self._dead("it does not read its socket")

    def submit(self, submission: bytes, outputs: int) -> None:
        """Makes the daemon run a request; `complete` returns the outcome.

        Args:
            submission: names the request.
            outputs: how many outputs its prepared model has.

        Raises:
            DeadObject: the ring has ended.
        """
        self._put(submission, outputs)

    def _put(self, submission: bytes, outputs: int) -> None:
        self.require_open()
        self._outputs, self._outcome = outputs, None
        _under_way.add(id(self))
        self._ring.put(submission)

    def exchange(
        self, submission: bytes, outputs: int, options: ExecuteOptions
    ) -> tuple[Timing, RingOutcome | None]:
        """Makes the daemon run a request, and waits for its end; see `submit` and `complete`.

        Args:
            submission, outputs: as for `submit`.
            options: the options of the execution.
        """
        self._put(submission, outputs)
        return _required(self._taken(options, _FOREVER_S))

    def repeat_submission(self) -> None:
        """Tells the daemon of the last submission again, see `RingEnd.repeat_put`."""
        self._ring.repeat_put()

    @property
    def has_submission(self) -> bool:
        """True if `submit` has passed a request to the daemon whose completion was not taken."""
        return self._ring.is_answer_due

    @property
    def is_done(self) -> bool:
        """True if `complete` would return at once.

        Raises:
            OpFailed: the daemon broke the protocol.
        """
        try:
            return self._ring.has_entry
        except BadData as error:
            raise self._broken(error) from None

    def is_done_within(self, timeout_s: float) -> bool:
        """Waits until `complete` would return at once, at most `timeout_s` seconds.

        Returns:
            Whether it would.

        Raises:
            DeadObject: the daemon is gone.
            OpFailed: the daemon broke the protocol.
        """
        end = time.monotonic() + timeout_s
        while not self.is_done:
            left_s = end - time.monotonic()
            if left_s <= 0:
                return False
            try:
                self._sleep(left_s)
            except BadData as error:
                raise self._broken(error) from None
        return True

    def cancel(self, number: int) -> None:
        """Asks the daemon to stop an execution, if it is under way. Any thread may call this.

        Args:
            number: the number of its submission.
        """
        self._ring.cancel(number)

    @property
    def submission(self) -> int:
        """The number of the last submission."""
        return self._ring.put_number

    def complete_within(
        self, options: ExecuteOptions, timeout_s: float
    ) -> tuple[Timing, RingOutcome | None] | None:
        """Waits for the end of an execution for a limited time; see `complete`.

        Args:
            options: the options of the execution.
            timeout_s: 0 does not wait at all.

        Returns:
            None if the execution is still under way.
        """
        if not timeout_s > 0:
            has_ended = self.is_done or not self.is_open or _is_stopped(options)
            return self.complete(options) if has_ended else None
        if timeout_s < SPIN_S and not self.is_done_within(timeout_s):
            return None
        return self._completed(options, time.monotonic() + timeout_s)

    def complete(self, options: ExecuteOptions) -> tuple[Timing, RingOutcome | None]:
        """Waits for the end of an execution.

        Returns:
            Its timing, and what is new about the outputs of its request; None if nothing is.

        Raises:
            Cancelled, MissedDeadlineTransient: the execution is still under way; `complete` must be
                called again.
            DeadObject: the daemon is gone.
            OpFailed: the daemon broke the protocol.
        """
        return _required(self._completed(options, _FOREVER_S))

    def _completed(self, options: ExecuteOptions, until_s: float) -> tuple[Timing, RingOutcome | None] | None:
        """Implements `complete`; returns None if the execution is still under way at `until_s`.

        Traces replace this method, `submit` and `exchange`, which does what both do.
        """
        return self._taken(options, until_s)

    def _taken(self, options: ExecuteOptions, until_s: float) -> tuple[Timing, RingOutcome | None] | None:
        try:
            started = time.perf_counter()
            if not self._ring.spin(len(_under_way)) and not self._ended(options, until_s):
                return None
            self._ring.note_wait(time.perf_counter() - started)
            has_outcome, _, *times_ns = COMPLETION.unpack_from(self._ring.take())
            _under_way.discard(id(self))
            timing = _UNKNOWN
            if min(times_ns) != UNKNOWN_NS:
                on_device_ns, in_driver_ns, queued_ns = (None if ns == UNKNOWN_NS else ns for ns in times_ns)
                timing = Timing(on_device_ns=on_device_ns, in_driver_ns=in_driver_ns, queued_ns=queued_ns)
            if not has_outcome:
                return timing, None
            outcome, self._outcome = self._received_outcome(), None
        except BadData as error:
            raise self._broken(error) from None
        return timing, outcome

    def _received_outcome(self) -> RingOutcome:
        """Returns the OUTCOME that the daemon sent before it completed the execution."""
        while self._outcome is None:
            try:
                if not self._read():
                    break
            except DeadObject:
                # An OUTCOME that it sent right before it ended counts.
                if self._outcome is None:
                    raise
        if self._outcome is None:
            raise BadData("it sent no outcome of an execution")
        return self._outcome

    def _ended(self, options: ExecuteOptions, until_s: float) -> bool:
        """Sleeps until an execution has ended, or until `until_s`; returns whether it has."""
        limit = _FOREVER_S if options.deadline_s is None else options.deadline_s + _SLACK_S
        cancellation = options.cancellation
        if cancellation is None:
            return self._sleep_until_ended(limit, until_s, None)
        with cancellation.calling(self._wake):
            return self._sleep_until_ended(limit, until_s, cancellation)

    def _wake(self) -> None:
        """Ends the sleep of the thread that waits, or its next one. Any thread may call this."""
        waker = self._ring.waker
        if waker is not None:
            waker.signal()

    def _sleep_until_ended(self, limit: float, until_s: float, cancellation: Cancellation | None) -> bool:
        next_check = time.monotonic() + _ANSWER_TIMEOUT_S
        is_cancelled = False
        while True:
            if cancellation is not None and not is_cancelled:
                if self._ring.waker is None:
                    self._ring.wake_by(Fence())
                # A cancellation before this has woken nobody.
                if cancellation.is_cancelled:
                    is_cancelled = True
                    self._ring.cancel(self._ring.put_number)
                    limit = min(limit, time.monotonic() + _SLACK_S)
            if self._sleep(min(limit, next_check, until_s) - time.monotonic()):
                return True
            now = time.monotonic()
            if cancellation is not None and cancellation.is_cancelled and not is_cancelled:
                continue
            if now >= limit:
                if is_cancelled:
                    raise Cancelled("the execution was cancelled, but the daemon has not stopped it yet")
                raise MissedDeadlineTransient(
                    "the deadline passed, but the daemon has not stopped the execution yet"
                )
            if now >= until_s:
                return False
            if now >= next_check:
                self._require_answer()
                next_check = time.monotonic() + _ANSWER_TIMEOUT_S

    def _sleep(self, timeout_s: float) -> bool:
        """Sleeps until the completion or a packet arrives; returns whether it is the completion."""
        if self._ring.sleep(timeout_s):
            return True
        waker = self._ring.waker
        if waker is not None and waker.is_signalled:
            # It would end every sleep at once. Whoever signalled it may have done so for an earlier
            # execution, so that whether this one is cancelled is looked at before the next sleep.
            self._ring.wake_by(None)
        self._read()
        return self._ring.has_entry

    def _require_answer(self) -> None:
        """Raises DeadObject if the daemon no longer answers calls during a long execution."""
        deadline_s = time.monotonic() + _ANSWER_TIMEOUT_S
        connection = self._daemon()
        if connection is None:
            raise self._dead("is no longer connected")
        try:
            connection.call("GetStatus", device_pb2.GetStatusRequest(), deadline_s)
        except Error as error:
            raise self._dead(f"it hangs: {error}") from None

    def _read(self) -> bool:
        """Reads the packets that have arrived, up to one that wakes this end.

        Returns:
            Whether there may be more.
        """
        while True:
            try:
                packet = receive_packet(self.socket, PACKET_BYTES, 0)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._dead(str(error)) from None
            packet.close_descriptors()
            if not packet.data:
                raise self._dead("it has ended the ring")
            kind = packet.data[0]
            if kind == WAKE:
                self._ring.note_wake(packet.data)
                return True
            if kind == ANSWER:
                if not self._is_asking or self._answer is not None:
                    raise BadData("it answered what it was not asked")
                self._answer = packet.data
            elif kind == OUTCOME:
                self._outcome = self._next_outcome(packet.data)
            else:
                raise BadData(f"it sent a packet of unknown kind {kind}")

    def _next_outcome(self, packet: bytes) -> RingOutcome:
        """Returns the OUTCOME in a packet, which must be that of the last submission."""
        outcome, number = read_outcome(packet, self._outputs), self._ring.put_number
        # Completions have the numbers of their submissions.
        if outcome.number != number or self._outcome_number == number:
            raise BadData(
                f"it sent an outcome of execution {outcome.number}; the first one of {number} is expected"
            )
        self._outcome_number = number
        return outcome

    def require_open(self) -> None:
        """Raises DeadObject if the ring has ended."""
        if self._is_over:
            raise self._life.death() if self._life.is_over else DeadObject(_ENDED)

    @property
    def is_open(self) -> bool:
        """True if the ring has not ended, as far as is known here."""
        return not self._is_over and not self._life.is_over

    def _broken(self, error: BadData) -> Error:
        return self._over(OpFailed(f"the daemon broke the protocol of the ring: {error}"))

    def _dead(self, otherwise: str) -> Error:
        """Ends the ring; returns an error with the cause if it is known, or else `otherwise`."""
        if self._was_shut_down and not self._life.is_over:
            return self._over(DeadObject(_ENDED))  # it is this side that ended it
        connection, limit_s = self._daemon(), time.monotonic() + _ALONE_S
        while connection is not None and connection.is_open and time.monotonic() < limit_s:
            time.sleep(_LOOK_S)
        is_alone = connection is not None and connection.is_open
        return self._over(self._life.death("Execute", f"is gone: {otherwise}", is_told=not is_alone))

    def _over(self, error: Error) -> Error:
        """Ends the ring and returns `error`."""
        self._is_over = True
        self.shut_down()
        return error


def _required(completed: tuple[Timing, RingOutcome | None] | None) -> tuple[Timing, RingOutcome | None]:
    """Returns the end of an execution for which a thread has waited without a limit.

    Raises:
        OpFailed: the wait has ended before that.
    """
    if completed is None:
        raise OpFailed("the wait for an execution has ended too early")
    return completed


def _release(connection: socket.socket, identity: int) -> None:
    """Releases what a ring holds."""
    connection.close()
    _under_way.discard(identity)


def _is_stopped(options: ExecuteOptions) -> bool:
    """Returns whether an execution must end now, because it is late or was cancelled."""
    deadline_s, cancellation = options.deadline_s, options.cancellation
    is_late = deadline_s is not None and time.monotonic() >= deadline_s + _SLACK_S
    return is_late or (cancellation is not None and cancellation.is_cancelled)

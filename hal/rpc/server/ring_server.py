"""The daemon's end of a ring: a thread runs what the client submits, until either is gone.

A client that breaks the protocol loses its ring, and nothing else. Its requests are validated when
they are sent; an execution names one of them and adds options, which are checked each time. Memory
that the client can write while a kernel runs is used in place only by prepared models that tolerate
it, and copied for all others.
"""

import logging
import math
import os
import socket
import threading
import time
from contextlib import ExitStack
from typing import Final, Self

from neurald.hal.accounting.account import charging
from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.executions.admission_queue import with_queue_time
from neurald.hal.admission.executions.usage import Ticket
from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.admission.sessions.session import Session
from neurald.hal.buffers.staging import Staged, copy, stage
from neurald.hal.crashes.breadcrumbs import ActivitySlot, CrashPhase
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.device import (
    MAX_DURATION_NS,
    MAX_LOOP_TIMEOUT_S,
    ExecuteOptions,
    ExecutionResult,
    PreparedModel,
)
from neurald.hal.errors import (
    THREAD_FAULTS,
    BadData,
    Error,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedTransient,
)
from neurald.hal.execution.native_serving import (
    GIVEN_UP,
    IDLE,
    NEEDS_INSTANCE,
    PYTHON,
)
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.process.descriptors import NO_DESCRIPTORS
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.process.threads.time_slices import AdaptiveSlices
from neurald.hal.rpc.server.failure_log import note_failure
from neurald.hal.rpc.server.native_executions import NativeExecutions
from neurald.hal.rpc.server.received_request import ReceivedRequest, RunCancellation
from neurald.hal.rpc.server.ring_requests import RingRequests
from neurald.hal.rpc.transport.packet import Packet, receive_packet, send_packet, shut_down
from neurald.hal.rpc.transport.ring_end import RING_BYTES, WAKE, RingEnd, RingSide
from neurald.hal.rpc.transport.ring_packet import (
    ANNOUNCED,
    COMPLETION,
    MEMORY,
    ONGOING_REQUEST,
    PACKET_BYTES,
    RELEASE,
    REQUEST,
    SUBMISSION,
    UNKNOWN_NS,
    answer_packet,
    error_packet,
    request_number,
    shapes_packet,
)
from neurald.hal.sync.deadline import deadline_in

logger = logging.getLogger(__name__)
#: Clients can break the protocol as often as they like.
_rings: Final = RateLimitedLogger(logger)


class _ClientGone(Exception):
    """The client closed its end of the ring's socket, or this end was shut down."""


class RingServer:
    """One ring of a session, which runs its prepared models.

    Args:
        session: the session of the client.
        connection: the connection to the client; closed at the end.
        memory: the memory of the ring, `RING_BYTES` bytes.
        admission: the admission of the daemon.
        watch: the watch of the daemon.

    Raises:
        BadData: the connection is not of the kind that a ring needs.
        ResourceExhaustedTransient: the session has too many rings.
    """

    def __init__(
        self,
        session: Session,
        connection: socket.socket,
        memory: SharedMemory,
        admission: Admission,
        watch: CrashWatch,
    ) -> None:
        if connection.family != socket.AF_UNIX or connection.type != socket.SOCK_SEQPACKET:
            raise BadData("the socket of a ring must be a SEQPACKET socket on this host")
        self._session = session
        self._connection = connection
        self._admission = admission
        self._watch = watch
        self._ring = RingEnd(memory, connection, RingSide.DAEMON)
        self._cancellation = RunCancellation(self._ring)
        self._place = admission.turns.place(session.user, session.token)
        self._polling = admission.turns.polling
        self._lock = threading.Lock()
        self._sent = RingRequests(session)
        #: The last request that was refused without an answer, and why.
        self._refused: tuple[int, Error] | None = None
        self._arena: Memory | None = None
        self._last = b""
        #: The stamps so far of the execution under way, if its client wants them.
        self._traced: list[int] | None = None
        self._process = os.getpid()
        self._last_run: tuple[ReceivedRequest, ExecuteOptions] | None = None
        self._activity: ActivitySlot
        self._native = NativeExecutions(session, connection, admission, self._ring, self._cancellation)
        self._handle_in_session = session.add_ring(self)

    @classmethod
    def opened(
        cls, session: Session, connection: int, memory: int, admission: Admission, watch: CrashWatch
    ) -> Self:
        """Creates a ring, and takes over the descriptors of its socket and its memory.

        Args:
            session: the session of the client.
            connection: descriptor of the daemon's end of the socket.
            memory: descriptor of the ring's memory.
            admission: the admission of the daemon.
            watch: the watch of the daemon.

        Raises:
            BadData: a descriptor is of another kind.
            Error: see `RingServer`.
        """
        with ExitStack() as cleanup:
            cleanup.callback(os.close, connection)
            received = SharedMemory.received(memory, RING_BYTES, constant=False)
            try:
                end = socket.socket(fileno=connection)
            except OSError as error:
                raise BadData(f"the connection of a ring is not a socket: {error.strerror}") from None
            cleanup.pop_all()
            cleanup.callback(end.close)
            ring = cls(session, end, received, admission, watch)
            received.close()  # only the mapping is needed
            cleanup.pop_all()
        return ring

    def start(self) -> None:
        """Starts the thread.

        Raises:
            ResourceExhaustedTransient: the process has too many threads, or too little address
                space for one; the ring is over.
        """
        try:
            CheckedThread(target=self._work, name="neurald ring", daemon=True).start()
        except RuntimeError as error:
            self._end()
            raise ResourceExhaustedTransient(f"no thread can be started for a ring: {error}") from None

    def stop(self) -> None:
        """Ends the ring: at once if it is idle, otherwise as soon as the driver stops."""
        with self._lock:
            shut_down(self._connection)
        self._cancellation.cancel()

    def _work(self) -> None:
        with self._watch.thread_slot() as self._activity:
            self._native.activity = self._activity
            self._serve_all()

    def _serve_all(self) -> None:
        """Serves the ring: native code first, then Python what native code has left."""
        slices = AdaptiveSlices()
        try:
            while True:
                reason = self._native.serve(slices)
                if reason == GIVEN_UP:
                    raise _ClientGone  # its session is over
                is_left = reason in (PYTHON, NEEDS_INSTANCE) and self._ring.has_entry
                started = time.perf_counter()
                self._wait(spins=reason != IDLE)
                arrived = time.perf_counter()
                self._ring.note_wait(arrived - started)
                if not is_left and self._native.is_useful:
                    continue
                self._place.take()
                self._serve(needs_instance=reason == NEEDS_INSTANCE)
                self._place.end()
                slices.note_work(time.perf_counter() - arrived)
        except _ClientGone:
            pass
        except Error as error:
            text = "a ring was ended because its client broke the protocol: %s"
            note_event(CountedEvent.BROKEN_PROTOCOL, "ring", _rings.warning, text, error)
        except Exception:
            logger.exception("a ring failed")
        finally:
            self._place.end()
            self._end()

    def _wait(self, *, spins: bool) -> None:
        """Waits for the next submission, and reads the packets that arrive before it."""
        # While others compute, a polling thread would take the interpreter from them.
        if spins and not self._admission.is_busy and self._polling.acquire(False):
            try:
                if self._ring.spin():
                    return
            finally:
                self._polling.release()
        while not self._ring.sleep(None):
            self._place.take()
            self._read_packets()
            self._place.end()

    def _end(self) -> None:
        with self._lock:
            shut_down(self._connection)  # the client may hold a descriptor of this end
            self._connection.close()
        self._session.remove_ring(self._handle_in_session)
        self._native.clear()
        self._sent.clear()
        self._arena = self._last_run = None

    # Packets

    def _read_packets(self) -> bool:
        """Reads the packets that have arrived, up to one that wakes this end.

        Returns:
            Whether there may be more before the next submission.
        """
        while True:
            try:
                packet = receive_packet(self._connection, PACKET_BYTES, 1)
            except BlockingIOError:
                return False
            except OSError:
                raise _ClientGone from None
            if not packet.data:
                packet.close_descriptors()
                raise _ClientGone
            kind = packet.data[0]
            if kind in ANNOUNCED:
                self._ring.note_packet()
            if packet.lacks_descriptors and kind == MEMORY:
                packet.close_descriptors()
                self._send(answer_packet(NO_DESCRIPTORS))
                continue
            if not packet.is_whole or len(packet.descriptors) != (kind == MEMORY):
                packet.close_descriptors()
                raise BadData(
                    f"a packet of kind {kind} has {len(packet.descriptors)} descriptors or is truncated"
                )
            self._handle(kind, packet)
            if kind == WAKE:
                return True
            if kind == ONGOING_REQUEST and not self._ring.has_announced:
                # Its submission is next, unless its client was interrupted before that.
                return False

    def _handle(self, kind: int, packet: Packet) -> None:
        if kind == WAKE:
            self._ring.note_wake(packet.data)
        elif kind == RELEASE:
            for number in self._sent.release(packet.data):
                self._native.forget(number)
            self._forget_last()
        elif kind in (MEMORY, REQUEST):
            answer = answer_packet(None)
            try:
                if kind == MEMORY:
                    self._sent.add_memory(packet)
                else:
                    self._native.forget(self._sent.add_request(packet.data))
                    self._forget_last()
            except Error as error:
                # No variable of this frame refers to the error, which refers to the frame.
                answer = answer_packet(error)
            self._send(answer)
        elif kind == ONGOING_REQUEST:
            number = request_number(packet.data)
            try:
                self._native.forget(self._sent.add_request(packet.data))
            except Error as error:
                self._native.forget(number)
                self._sent.remove_request(number)
                self._refused = number, error.with_traceback(None)
            self._forget_last()
        else:
            raise BadData(f"a packet has unknown kind {kind}")

    def _send(self, packet: bytes) -> None:
        if not send_packet(self._connection, packet):
            raise _ClientGone

    # Executions

    def _serve(self, *, needs_instance: bool) -> None:
        wanted = self._ring.wanted_stamps
        self._traced = [wanted, self._process, time.monotonic_ns()] if wanted else None
        if self._ring.has_announced:
            # The entry may name a request that was sent right before it.
            while self._read_packets():
                pass
        entry = self._ring.take()
        refused, self._refused = self._refused, None
        if refused is not None and refused[0] == SUBMISSION.unpack_from(entry)[0]:
            self._fail(refused[1])
            return
        received, options = self._submitted(entry)
        self._cancellation.begin()
        registered = received.registered()
        if registered is None:
            self._fail(BadData("the prepared model of a request has been released"))
            return
        try:
            self._session.begin_call()
            try:
                has_result = self._admit(received, registered, options)
            finally:
                self._session.end_call()
        except Error as error:
            self._fail(error)
            has_result = False
        if self._last_run is not None and self._last_run[0] is received:
            if has_result:
                self._native.allow(received, registered, self._last, needs_instance=needs_instance)
            else:
                self._native.forget(SUBMISSION.unpack_from(self._last)[0])

    def _admit(self, received: ReceivedRequest, registered: RegisteredModel, options: ExecuteOptions) -> bool:
        """Runs a request once the device can, and replies; returns whether it has a result.

        Raises:
            Error: it was not run, and there was no reply.
        """
        ticket = self._admission.begin_execution(self._session, options, registered.priority, registered.pace)
        try:
            return self._run(received, registered, options, ticket)
        finally:
            # After the reply to the client: a daemon that stops ends rings once nothing is under
            # way.
            self._admission.end_execution(ticket)

    def _run(
        self, received: ReceivedRequest, registered: RegisteredModel, options: ExecuteOptions, ticket: Ticket
    ) -> bool:
        traced = self._traced
        if traced is not None:
            traced.append(time.monotonic_ns())
        try:
            result = with_queue_time(self._execute(received, registered, options), options, ticket)
        except Error as error:
            self._fail(error)
        except MemoryError:
            self._fail(OutOfMemory("the daemon has no memory left for this execution"))
        except THREAD_FAULTS as error:
            logger.error("an execution failed", exc_info=error)
            self._fail(OpFailed("internal error of the daemon; its log has the details"))
        else:
            if traced is not None:
                traced.append(time.monotonic_ns())
            self._complete(received, result)
            return result.is_sufficient
        return False

    def _submitted(self, entry: bytes) -> tuple[ReceivedRequest, ExecuteOptions]:
        if entry == self._last and self._last_run is not None:
            return self._last_run
        number, measure, left_s, loop_timeout_s = SUBMISSION.unpack_from(entry)
        received = self._sent.requests.get(number)
        if received is None:
            raise BadData(f"request {number} is not known")
        if measure not in (0, 1) or math.isnan(left_s) or not loop_timeout_s >= 0:
            raise BadData(
                f"options of an execution are not valid: measure {measure}, {left_s} s left, loop timeout "
                f"{loop_timeout_s} s"
            )
        options = ExecuteOptions(
            measure=bool(measure),
            deadline_s=None if left_s < 0 else deadline_in(left_s),
            loop_timeout_s=min(loop_timeout_s, MAX_LOOP_TIMEOUT_S),
            cancellation=self._cancellation,
        )
        if left_s < 0:
            self._last, self._last_run = entry, (received, options)
        return received, options

    def _forget_last(self) -> None:
        self._last_run = None

    def _execute(
        self, received: ReceivedRequest, registered: RegisteredModel, options: ExecuteOptions
    ) -> ExecutionResult:
        staged = self._staged(received, registered.prepared_model)
        if not received.entry:
            received.entry = registered.crumb.entry(CrashPhase.EXECUTE, self._session.number)
        self._activity.begin(received.entry)
        try:
            with charging(registered.account):
                began_s = time.thread_time()
                result = registered.prepared_model.execute(staged.request, options)
                received.processor_s = time.thread_time() - began_s
        finally:
            self._activity.end()
        if staged.arenas and result.is_sufficient:
            # A client that has given up may use the memory of its outputs otherwise by now.
            self._cancellation.require_not_cancelled("before its outputs were written")
            # Nothing fails from here on: these are the copies for the shapes that are noted next.
            if received.output_copies is None or result.output_shapes != received.shapes:
                received.output_copies = staged.output_copies(received.types, result.output_shapes)
            copy(received.output_copies)
        return result

    def _staged(self, received: ReceivedRequest, prepared_model: PreparedModel) -> Staged:
        """Returns the request to run, with its inputs copied where necessary."""
        staged = received.staged
        if staged is not None and (not staged.arenas or staged.arenas[0] is self._arena):
            copy(staged.input_copies)
            return staged
        tolerant = prepared_model.tolerates_changing_inputs
        received.output_copies = None
        received.staged = stage(
            received.request, is_passthrough=lambda pool: tolerant or pool.readonly, allocate=self._allocate
        )
        return received.staged

    def _allocate(self, size_bytes: int) -> Memory:
        """Returns the arena of the ring; one request uses it at a time."""
        if self._arena is None or self._arena.size < size_bytes:
            self._arena = None
            for number, each in self._sent.requests.items():
                self._native.forget(number)
                each.staged = None  # it uses the old arena
            self._arena = self._session.memories.new(size_bytes)
        return self._arena

    def _fail(self, error: Error) -> None:
        note_failure(error, "an execution")
        self._send(error_packet(self._ring.next_number, error))
        self._ring.put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    def _complete(self, received: ReceivedRequest, result: ExecutionResult) -> None:
        traced = self._traced
        if traced is not None:
            traced.append(time.monotonic_ns())
            self._ring.put_stamps(traced)
        has_new_shapes = result.output_shapes != received.shapes
        if has_new_shapes:
            self._send(shapes_packet(self._ring.next_number, result.output_shapes))
            received.shapes = result.output_shapes
        timing = result.timing
        self._ring.put(
            COMPLETION.pack(
                has_new_shapes,
                0,
                *(
                    UNKNOWN_NS if time_ns is None else min(time_ns, MAX_DURATION_NS)
                    for time_ns in (timing.on_device_ns, timing.in_driver_ns, timing.queued_ns)
                ),
            )
        )

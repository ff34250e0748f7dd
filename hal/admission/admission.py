"""Decides which work a daemon's device takes, and when.

Calls and executions are counted while they are under way. A daemon that is to stop refuses new ones
and waits for the others (`Admission.drain`). The threads that serve them, whatever carried the
call, take turns (`Admission.serving`) until the device's part begins, for which executions wait in
an `AdmissionQueue`. Short ones that native code runs pass a `NativeGate` instead, which also counts
those of the queue: together they are never more than the slots of the device and its guests, apart
from those that take long. An execution that does not end is given up by a watchdog: its slot goes
to others, its session ends, and no new models are taken while it hangs.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.accounting.limits import Limits
from neurald.hal.accounting.pacing import Interpreter
from neurald.hal.admission.executions.admission_queue import AdmissionQueue
from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.admission.executions.native_gate import NativeGate
from neurald.hal.admission.executions.serving_turns import ServingPlace, ServingTurns
from neurald.hal.admission.executions.usage import Ticket
from neurald.hal.admission.executions.watchdog import NativeRuns, Watchdog
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.device import Device, ExecuteOptions, PrepareOptions, executions_at_once
from neurald.hal.errors import (
    TAKES_NO_MORE_WORK,
    DeadObject,
    Error,
    UnavailableDevice,
)
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation

logger = logging.getLogger(__name__)

#: How long results may wait to be read, and clients may take to open their sessions, once a daemon
#: that is to stop has nothing else to do.
_LAST_WAIT_S: Final = 2.0
_DRAIN_POLL_S: Final = 0.05
#: Larger models, those of thousands of operations, are read one at a time.
_LARGE_MODEL_BYTES: Final = 1 << 16


class Admission:
    """Admits calls and executions of many sessions to one device. Thread-safe.

    Args:
        device: the device that executes.
        limits: `execution_s` says how long an execution may take.
        sessions: the sessions of the daemon; the session of a hanging execution is closed.

    Attributes:
        interpreter: paces what clients have the interpreter do.
        turns: the turns of the threads that serve clients.
        gate: the gate of the executions that native code runs.
        weights: the weights of users, whose share is that many times the share of others.
        report: the function that is called when the device has begun to hang.
        on_hang: the functions that are called with a session that ends because its execution hangs,
            and with the error for its client.
        mark_hanging: the function that is called with the identifier of a thread whose execution
            hangs.
    """

    def __init__(self, device: Device, limits: Limits, sessions: Sessions) -> None:
        self.interpreter = Interpreter()
        self.weights: dict[Hashable, float] = dict(limits.weights)
        self.turns = ServingTurns(self.weights)
        self.on_hang: list[Callable[[Session, Error], None]] = []
        self.report: Callable[[], None] = lambda: None
        self.mark_hanging: Callable[[int], None] = lambda thread: None
        self._device = device
        self._sessions = sessions
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._calls = 0
        self._executions, self._busy_s, self._queue_s = 0, 0.0, 0.0
        self._is_draining = False
        slots = executions_at_once(device)
        self.gate = NativeGate(slots, self.weights, guests=slots)
        self._queue = AdmissionQueue(slots, guests=slots, weights=self.weights, rooms=self.gate)
        self._large_models = AdmissionQueue(1, long_s=math.inf, what="large models", weights=self.weights)
        self._watchdog: Watchdog[tuple[Session, Ticket | None]] = Watchdog(
            limits.execution_s, limits.grace_s, self._give_up, self._queue.look
        )

    @property
    def calls(self) -> int:
        """The number of calls and executions that are under way."""
        return self._calls + self.gate.running + self.gate.waiting

    @property
    def waiting(self) -> int:
        """The number of executions that wait in the queue."""
        return self._queue.waiting + self.gate.waiting

    @property
    def executions(self) -> int:
        """The number of executions that have ended."""
        return self._executions + self.gate.executions

    @property
    def busy_s(self) -> float:
        """The time of executions on the device, all together, in seconds."""
        return self._busy_s + self.gate.busy_s

    @property
    def queue_s(self) -> float:
        """The time that executions waited for the device, all together, in seconds."""
        return self._queue_s + self.gate.queue_s

    @property
    def is_busy(self) -> bool:
        """True if the device has anything to do."""
        return self.calls > 0

    @property
    def is_draining(self) -> bool:
        """True if the daemon is about to stop."""
        return self._is_draining

    @property
    def is_hanging(self) -> bool:
        """True if executions that were given up are still under way."""
        return self._watchdog.hanging > 0

    @property
    def is_lost(self) -> bool:
        """True if the device can never be used again by this process; see `KnowsLoss`."""
        return bool(getattr(self._device, "is_lost", False))

    def require_responsive(self) -> None:
        """Raises an error while the device hangs, and once it is lost.

        Raises:
            UnavailableDevice: it hangs, or is lost.
        """
        if self.is_lost:
            raise UnavailableDevice(f"{self._device.name} is lost, and its driver has to start again")
        if self.is_hanging:
            raise UnavailableDevice(f"{self._device.name} hangs: an execution has not ended in time")

    def require_open(self) -> None:
        """Raises an error if the daemon is about to stop.

        Raises:
            DeadObject: it is.
        """
        if self._is_draining:
            raise DeadObject(f"the daemon is about to stop and {TAKES_NO_MORE_WORK}")

    # Calls

    @contextlib.contextmanager
    def serving(self, session: Session) -> Iterator[ServingPlace]:
        """Makes the calling thread work for a session, and waits for its turn first.

        The turn ends where the device's part of the call begins, or an earlier wait.

        Yields:
            The place of the thread, for further turns.
        """
        with self.interpreter.working(session.token), self.turns.turn(session.user, session.token) as place:
            yield place

    @contextlib.contextmanager
    def admit(self, options: PrepareOptions | ExecuteOptions) -> Iterator[None]:
        """Counts a call as under way, unless the daemon is about to stop.

        Raises:
            DeadObject: the daemon is about to stop.
            MissedDeadlinePersistent: the deadline has passed.
        """
        self.turns.end_own()
        self._begin(options)
        try:
            yield
        finally:
            self._end()

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Counts a call as under way, so that `drain` waits for it; it is never refused."""
        self.turns.end_own()
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            self._end()

    @contextlib.contextmanager
    def reading_model(
        self, session: Session, size_bytes: int, cancellation: Cancellation | None
    ) -> Iterator[None]:
        """Reads and checks a model; large ones are read one at a time.

        Reading takes many times the memory of the model itself.

        Args:
            session: the session of the client.
            size_bytes: the size in bytes of the message.
            cancellation: ends the wait; None: the client cannot cancel.

        Raises:
            Cancelled: it was cancelled while it waited.
        """
        if size_bytes <= _LARGE_MODEL_BYTES:
            yield
            return
        self.turns.end_own()
        ticket = self._large_models.acquire(
            Priority.MEDIUM, client=session.token, user=session.user, cancellation=cancellation
        )
        try:
            yield
        finally:
            self._large_models.release(ticket)

    # Executions

    @contextlib.contextmanager
    def execution(
        self,
        session: Session,
        options: ExecuteOptions,
        priority: Priority,
        pace: ExecutionPace | None = None,
    ) -> Iterator[Ticket]:
        """Runs one execution on the device, see `begin_execution`."""
        ticket = self.begin_execution(session, options, priority, pace)
        try:
            yield ticket
        finally:
            self.end_execution(ticket)

    def begin_execution(
        self,
        session: Session,
        options: ExecuteOptions,
        priority: Priority,
        pace: ExecutionPace | None = None,
    ) -> Ticket:
        """Waits until the device can run one more execution; `end_execution` follows.

        The turn of the calling thread ends.

        Args:
            session: the session of the client.
            options: the options for the execution.
            priority: the priority of the execution.
            pace: the pace of the executions of its model; None for one that measures.

        Raises:
            DeadObject: the daemon is about to stop.
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline has passed, or will
                before the execution could end.
            Cancelled: it was cancelled while it waited.
        """
        self._begin(options)
        try:
            ticket = self._queue.acquire(
                priority,
                options.deadline_s,
                client=session.token,
                user=session.user,
                cancellation=options.cancellation,
                before_wait=self.turns.end_own,
                pace=pace,
            )
        except BaseException:
            self._end()
            raise
        finally:
            self.turns.end_own()
        self._watchdog.begin((session, ticket), options.deadline_s)
        ticket.work = self.interpreter.begin(session.token)
        return ticket

    def end_execution(self, ticket: Ticket) -> None:
        """Ends an execution, and lets the next one run."""
        if ticket.work is not None:
            self.interpreter.end(ticket.work)
        if not self._watchdog.end():
            return  # it was given up, and its slot went to others then
        started = ticket.started_at
        if started is not None:
            taken_s = time.monotonic() - started
            ticket.note_end()
            with self._lock:
                self._executions += 1
                self._busy_s += taken_s
                self._queue_s += started - ticket.queued_at
        try:
            self._queue.release(ticket)
        finally:
            self._end()

    @contextlib.contextmanager
    def native_runs(self, session: Session, runs: NativeRuns) -> Iterator[None]:
        """Watches the executions that native code runs for a session in the calling thread."""
        self._watchdog.begin_native((session, None), runs)
        try:
            yield
        finally:
            self._watchdog.end_native()

    def _give_up(self, execution: tuple[Session, Ticket | None], taken_s: float, thread: int) -> None:
        """Gives up an execution that does not end: releases its slot, and ends its session."""
        session, ticket = execution
        self.mark_hanging(thread)
        text = "an execution has not ended within %.1f s; the driver hangs"
        note_event(CountedEvent.HANG, "", logger.error, text, taken_s)
        if ticket is not None:  # the gate has let the next one run
            self._queue.release(ticket)
            self._end()
        for tell in self.on_hang:
            tell(session, DeadObject(f"hangs: an execution has not ended within {taken_s:.1f} s"))
        self._sessions.close(session)
        # The supervisor, which now ends this process, comes last.
        self.report()

    # The end

    def drain(self, timeout_s: float, is_forced: Callable[[], bool]) -> bool:
        """Refuses new work, waits for that under way, and for a moment until its results are read.

        It also waits until new clients watch their sessions. Otherwise they would take the end of
        the daemon for its death.

        Args:
            timeout_s: how long to wait at most.
            is_forced: the function that is called repeatedly; when it returns True the wait ends.

        Returns:
            Whether all work is done.
        """
        end = time.monotonic() + timeout_s
        with self._idle:
            self._is_draining = True
            self.gate.close()
            while self._has_calls() and time.monotonic() < end and not is_forced():
                self._idle.wait(_DRAIN_POLL_S)
            # A client that wants its results reads them at once.
            end = min(end, time.monotonic() + _LAST_WAIT_S)
            while self._has_work() and time.monotonic() < end and not is_forced():
                self._idle.wait(_DRAIN_POLL_S)
            return not self._has_work()

    def _has_calls(self) -> bool:
        return self.calls > 0 or not self.gate.is_empty

    def _has_work(self) -> bool:
        return self._has_calls() or any(
            session.memories.has_unread or session.is_opening for session in self._sessions.all()
        )

    def _begin(self, options: PrepareOptions | ExecuteOptions) -> None:
        options.require_time()
        with self._lock:
            self.require_open()
            self._calls += 1

    def _end(self) -> None:
        with self._lock:
            self._calls -= 1
            if self._is_draining:
                self._idle.notify_all()

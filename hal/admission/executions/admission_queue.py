"""Decides which of the waiting executions a device runs next.

The queue shares the time on the device. Users, who may not trust each other, get equal shares
whatever priorities they claim: the user with the least time so far goes next. An operator may give
a user a weight, by which its time is divided. Among the executions
of one user the highest priority goes first, and among equal priorities the client with the least
time. The priority of a waiting execution rises by one level for every `AGEING_S` in which no
execution of the same client and priority was started, so low priorities make progress however many
high ones there are.

A client that submits its next execution as soon as it has the last result would find its slot taken
by executions that were already waiting. So the slot of an execution that ended stays reserved for
its client for a short time, about as long as that execution took. And an execution that takes long,
or never ends, only delays others of the same client: after `LONG_S` its slot is given to other
clients as well, as long as no more than `MAX_RUNNING_EXECUTIONS` run.

If there are guest slots, a client that has nothing running need not wait for other clients: when
all slots are taken, its first execution gets a guest slot, and the operating system divides the
processors.

An execution with a deadline that it probably cannot keep, after those before it, is refused at
once. A device may take several executions and run one after another, each of which then takes as
long as all of them. So while executions with deadlines wait, it gets one at a time; see `Overlap`.

`Rooms` counts the executions that run; other callers that run executions may share it. An
execution that takes long gives its room back.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, TypeVar

from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.admission.executions.overlap import Overlap
from neurald.hal.admission.executions.rooms import OwnRooms, Rooms
from neurald.hal.admission.executions.usage import MAX_GRACE_S, ClientUsage, PriorityLane, Ticket, UserUsage
from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.model.types import Priority
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.wording import milliseconds

#: An execution that takes longer only delays others of its own client.
LONG_S: Final = 0.25
#: How many executions may run at the same time, long ones included. A user with none running may
#: have one more.
MAX_RUNNING_EXECUTIONS: Final = 16
#: How often a waiting thread checks whether it was cancelled, and whether a slot became free by the
#: passage of time. With more than `_MAX_FAST_POLLERS` waiting threads each checks less often, so
#: that they do not slow down those that compute.
_POLL_S: Final = 0.02
_MAX_FAST_POLLERS: Final = 4
#: Between executions that are shorter, a device that gets one at a time would be idle for too long.
_MIN_ONE_AT_A_TIME_S: Final = 0.002

_S = TypeVar("_S")


def with_queue_time(result: ExecutionResult, options: ExecuteOptions, ticket: Ticket) -> ExecutionResult:
    """Adds the time that an execution waited in the queue to its timing, if that is measured."""
    if not options.measure:
        return result
    return replace(result, timing=result.timing.queued_for(ticket.waited_ns))


class AdmissionQueue:
    """Admits executions to a device, up to its number of slots at the same time. Thread-safe.

    Args:
        slots: how many executions the device runs efficiently at the same time.
        clock: returns seconds, as `time.monotonic` does.
        long_s: an execution that takes longer only delays others of its own client.
        max_running: how many may run at the same time, long ones included. A user with none running
            may have one more.
        guests: how many more may run if each is the only one of its client. Long ones do not count.
        what: names the admitted work in error messages.
        weights: the weights of users, by which the times that they have used are divided; 1 for all
            others.
        rooms: counts what runs; None counts only the executions of the queue.
    """

    def __init__(
        self,
        slots: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        long_s: float = LONG_S,
        max_running: int = MAX_RUNNING_EXECUTIONS,
        guests: int = 0,
        what: str = "executions",
        weights: Mapping[Hashable, float] | None = None,
        rooms: Rooms | None = None,
    ) -> None:
        self._weights = weights or {}
        self._slots = slots
        self._long_s = long_s
        self._max_running = max_running
        self._guests = guests
        self._what = what
        self._rooms = rooms or OwnRooms()
        self._clock = clock
        self._lock = threading.Lock()
        self._users: dict[Hashable, UserUsage] = {}
        self._running: set[Ticket] = set()
        self._waiting = 0
        #: How many of those that wait have a deadline.
        self._limited = 0
        self._overlap = Overlap()
        self._forget_at = 0.0

    @property
    def waiting(self) -> int:
        """The number of executions that wait."""
        return self._waiting

    def acquire(
        self,
        priority: Priority,
        deadline_s: float | None = None,
        *,
        client: Hashable = None,
        user: Hashable = None,
        cancellation: Cancellation | None = None,
        before_wait: Callable[[], object] | None = None,
        pace: ExecutionPace | None = None,
    ) -> Ticket:
        """Waits until the execution may run, and returns its ticket; `release` follows.

        An execution that probably cannot end before its deadline is not begun, and does not even
        wait if those before it take too long. Otherwise, with more work than the device can do, all
        of it would begin too late.

        Args:
            priority: among the executions of the same user.
            deadline_s: until when to wait; None for no limit.
            client: the client to which the execution belongs.
            user: the user to which the client belongs.
            cancellation: ends the wait.
            before_wait: the function that is called if the execution cannot run at once.
            pace: the pace of the executions of its model; None if it is not known.

        Raises:
            MissedDeadlineTransient: the deadline passed while it waited, or the time that it
                has waited or would wait leaves too little for it.
            Cancelled: the execution was cancelled while it waited.
        """
        ticket = self._enqueue(priority, client, user, deadline_s, pace)
        must_wait = ticket.started_at is None

        if must_wait and cancellation is not None:
            cancellation.call_on_cancel(ticket.wake)
        try:
            if must_wait and deadline_s is not None and pace is not None:
                self._require_time(ticket, deadline_s, self._before_s(ticket))
            if before_wait is not None and must_wait:
                before_wait()
            while ticket.started_at is None:
                self._wait(ticket, deadline_s, cancellation)
            if must_wait and deadline_s is not None and self._waiting:
                self._require_time(ticket, deadline_s)
        except BaseException:
            self._leave(ticket)
            raise
        finally:
            if must_wait and cancellation is not None:
                cancellation.forget(ticket.wake)
        return ticket

    def release(self, ticket: Ticket) -> None:
        """Ends an execution and starts the next ones."""
        with self._lock:
            now = self._clock()
            self._end(ticket, now)
            if self._waiting:
                self._start(now)

    def look(self) -> None:
        """Gives back the room of executions that take long by now, and starts what may run then.

        Threads that wait in the queue do that, too; others who share its `Rooms` depend on this.
        """
        with self._lock:
            self._start(self._clock())

    def _enqueue(
        self,
        priority: Priority,
        client: Hashable,
        user: Hashable,
        deadline_s: float | None = None,
        pace: ExecutionPace | None = None,
    ) -> Ticket:
        with self._lock:
            now = self._clock()
            usage_of_client = self._client(client, user, now)
            ticket = Ticket(usage_of_client, priority, now, deadline_s, pace)
            lane = usage_of_client.lanes.get(priority)
            if lane is None:
                lane = usage_of_client.lanes[priority] = PriorityLane(usage_of_client, priority)
            usage_of_client.waiting += 1
            usage_of_client.user.waiting += 1
            self._note_long(now)
            if not self._waiting and self._take_room(ticket, now):
                self._run(ticket, lane, now)
                return ticket
            lane.queue.append(ticket)
            usage_of_client.user.lanes.add(lane, ticket, now)
            self._waiting += 1
            self._limited += deadline_s is not None
            self._start(now)
            if ticket.started_at is None:
                ticket.ready.acquire()
            return ticket

    def _wait(self, ticket: Ticket, deadline_s: float | None, cancellation: Cancellation | None) -> None:
        """Waits for a moment, then checks whether the passage of time has freed a slot."""
        poll_s = _POLL_S * max(1.0, self._waiting / _MAX_FAST_POLLERS)
        expected_s = 0.0 if ticket.pace is None else ticket.pace.expected_s
        left = poll_s if deadline_s is None else min(poll_s, deadline_s - expected_s - time.monotonic())
        if ticket.ready.acquire(timeout=max(0.0, left)) and ticket.started_at is not None:
            return
        if cancellation is not None:
            cancellation.require_not_cancelled(f"while it waited for other {self._what}")
        with self._lock:
            self._start(self._clock())
            if ticket.started_at is not None:
                return
        if deadline_s is not None:
            if time.monotonic() >= deadline_s:
                raise MissedDeadlineTransient(f"the deadline passed while waiting for other {self._what}")
            self._require_time(ticket, deadline_s)

    def _before_s(self, ticket: Ticket) -> float:
        """Returns how long an execution that has come last waits at least for those before it.

        Those that other clients may have begin first do not count.
        """
        with self._lock:
            now = self._clock()
            lane = ticket.client.lanes[ticket.priority]
            running_s = (
                max(0.0, each.pace.mean_s - (now - (each.started_at or now)))
                for each in self._running
                if each.pace is not None
            )
            waiting_s = (each.pace.mean_s for each in lane.queue if each.pace and each is not ticket)
            return (sum(running_s) + sum(waiting_s)) / self._slots_for(ticket)

    def _require_time(self, ticket: Ticket, deadline_s: float, before_s: float = 0.0) -> None:
        """Raises an error if an execution that waits probably cannot end in time.

        Args:
            ticket: the ticket of the execution.
            deadline_s: see `acquire`.
            before_s: how long it has to wait yet.
        """
        pace = ticket.pace
        left_s = deadline_s - time.monotonic()
        if pace is None or left_s >= pace.expected_s + before_s:
            return
        expected_s = pace.expected_s
        pace.refused()
        last = f"and one of this model takes up to {milliseconds(expected_s)}; it was not begun"
        if before_s:
            raise MissedDeadlineTransient(
                f"other {self._what} take {milliseconds(before_s)} more, {milliseconds(max(0.0, left_s))} are "
                f"left, {last}"
            )
        raise MissedDeadlineTransient(
            f"it waited for other {self._what} until {milliseconds(max(0.0, left_s))} were left, {last}"
        )

    def _leave(self, ticket: Ticket) -> None:
        """Removes an execution that waits no longer; if it was admitted meanwhile, it ends."""
        with self._lock:
            now = self._clock()
            if ticket.started_at is not None:
                ticket.pace = None  # it says nothing about the device
                self._end(ticket, now)
            else:
                ticket.client.lanes[ticket.priority].queue.remove(ticket)
                self._unlist(ticket, now)
                ticket.client.waiting -= 1
                ticket.client.user.waiting -= 1
            self._start(now)

    # Choosing the next execution. The lock is held.

    def _client(self, key: Hashable, user_key: Hashable, now: float) -> ClientUsage:
        user = self._users.get(user_key)
        if user is None:
            user = self._users[user_key] = UserUsage(user_key, self._weights.get(user_key, 1.0))
        is_busy = bool(self._running or self._waiting)
        if is_busy and not user.is_active:
            user.catch_up(min((u.used_s(now) for u in self._users.values() if u.is_active), default=0.0))
        client = user.clients.get(key)
        if client is None:
            client = user.clients[key] = ClientUsage(user, key)
        if is_busy and not client.is_active:
            client.catch_up(min((c.used_s(now) for c in user.clients.values() if c.is_active), default=0.0))
        return client

    def _start(self, now: float) -> None:
        """Admits every waiting execution that may run now."""
        self._note_long(now)
        # No client may start one while so many run that have not taken long yet.
        while self._waiting and self._rooms.taken < self._slots + self._guests:
            ticket = self._next(now)
            if ticket is None:
                return
            self._admit(ticket, now)

    def _admit(self, ticket: Ticket, now: float) -> None:
        """Starts the first execution of a lane."""
        lane = ticket.client.lanes[ticket.priority]
        lane.queue.popleft()
        self._unlist(ticket, now)
        self._run(ticket, lane, now)
        ticket.wake()

    def _run(self, ticket: Ticket, lane: PriorityLane, now: float) -> None:
        """Starts an execution that is in no queue, and for which room was taken."""
        lane.served_at = now
        ticket.beside = len(self._running)
        ticket.left = self._left(now) if self._running and ticket.deadline_s is not None else None
        self._running.add(ticket)
        for usage in (ticket.client, ticket.client.user):
            usage.waiting -= 1
            usage.start(now)
        ticket.started_at = now
        ticket.has_room = True

    def _left(self, now: float) -> float | None:
        """Returns how much is left of what runs, in times of one alone; None if that is unknown."""
        left = 0.0
        for ticket in self._running:
            alone_s = 0.0 if ticket.pace is None else ticket.pace.alone_s
            if not alone_s:
                return None
            left += max(0.0, 1.0 - (now - (ticket.started_at or now)) / alone_s)
        return left

    def _end(self, ticket: Ticket, now: float) -> None:
        assert ticket.started_at is not None  # noqa: S101 - only a running execution ends
        client = ticket.client
        if ticket.pace is not None:
            alone_s = ticket.pace.alone_s
            slowdown = (now - ticket.started_at) / alone_s if alone_s else None
            is_late = ticket.deadline_s is not None and time.monotonic() >= ticket.deadline_s
            self._overlap.add(slowdown, ticket.beside, left=ticket.left, is_late=is_late)
        client.note_end(now - ticket.started_at, now)
        client.lanes[ticket.priority].served_at = now
        self._running.discard(ticket)
        if ticket.has_room:
            ticket.has_room = False
            self._rooms.give_back(1)
        for usage in (client, client.user):
            usage.end(ticket.started_at, now)
        if not client.is_active and now >= self._forget_at:
            self._forget(now)

    def _unlist(self, ticket: Ticket, now: float) -> None:
        """Notes that an execution is no longer in the queue of its lane."""
        self._waiting -= 1
        self._limited -= ticket.deadline_s is not None
        client = ticket.client
        client.user.lanes.remove(client.lanes[ticket.priority], ticket, now)

    def _forget(self, now: float) -> None:
        """Removes clients that are gone, now and then, since they may be many."""
        self._forget_at = now + MAX_GRACE_S
        for user in tuple(self._users.values()):
            user.lanes.tidy()
            for client in tuple(user.clients.values()):
                if client.is_over(now):
                    del user.clients[client.key]
            if not user.clients:
                del self._users[user.key]

    def _next(self, now: float) -> Ticket | None:
        """Returns the execution to start next, for which it takes room; None if none may start."""
        users = [user for user in self._users.values() if user.waiting]
        for user in sorted(users, key=lambda user: user.used_s(now)):
            for lane in user.lanes.in_order(now):
                if self._take_room(lane.queue[0], now):
                    return lane.queue[0]
        return None

    def _slots_for(self, ticket: Ticket) -> int:
        """Returns how many executions may run beside this one, itself included, without guests."""
        is_limited = self._limited or ticket.deadline_s is not None
        if not is_limited or not self._overlap.is_serial:
            return self._slots
        pace = ticket.pace
        return 1 if pace is not None and pace.mean_s >= _MIN_ONE_AT_A_TIME_S else self._slots

    def _take_room(self, ticket: Ticket, now: float) -> bool:
        """Takes room for an execution; returns False if it may not run now."""
        client, slots = ticket.client, self._slots_for(ticket)
        if not client.running and self._guests and self._rooms.take(slots + min(self._guests, slots)):
            return True
        running = len(self._running)
        if running >= self._max_running + (0 if client.user.running else len(self._users)):
            return False
        # Others of the same client that take long delay it, though they have no room any more.
        long = sum(ticket.client is client and not ticket.has_room for ticket in self._running)
        return client.running < self._limit(client, now) and self._rooms.take(slots - long)

    def _note_long(self, now: float) -> None:
        """Gives back the room of executions that have taken long."""
        count = 0
        for ticket in self._running:
            if ticket.has_room and now - (ticket.started_at or now) >= self._long_s:
                ticket.has_room = False
                count += 1
        if count:
            self._rooms.give_back(count)

    def _limit(self, client: ClientUsage, now: float) -> int:
        """Returns how many executions of a client may run beside those of others, at least 1."""
        users = {user: {c: c.wanted(now) for c in user.clients.values()} for user in self._users.values()}
        if sum(sum(wanted.values()) for wanted in users.values()) <= self._slots:
            return self._slots
        shares = dict(
            _fair_shares(
                self._slots, [(user, sum(wanted.values()), user.weight) for user, wanted in users.items()]
            )
        )
        own = dict(
            _fair_shares(shares[client.user], [(c, count, 1.0) for c, count in users[client.user].items()])
        )
        return max(1, own[client])


def _fair_shares(slots: int, wanted: list[tuple[_S, int, float]]) -> Iterator[tuple[_S, int]]:
    """Distributes slots among parties by weight as well as possible, to none more than it wants.

    Parties that want least are served first, so that the remainder goes to those that want most.

    Args:
        slots: how many there are.
        wanted: the parties, how many each wants, and its weight.
    """
    total = sum(weight for *_, weight in wanted)
    for party, count, weight in sorted(wanted, key=lambda each: each[1] / each[2]):
        # A little more, so that rounding loses no slot.
        share = min(count, int(slots * weight / total + 1e-9))
        slots -= share
        total -= weight
        yield party, share

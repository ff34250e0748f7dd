"""Turns: which execution a device runs next when more are waiting than it runs at the same time.

What is shared out is time on the device. Users, who may not trust each other, share it evenly, whatever priorities they
claim: who has had least goes next. Between the executions of one user the highest priority goes first, and among equals the
client that has had least. An execution that waits comes a step higher with every `AGEING_S` for which none of its client's
of that priority had a turn, so that low ones are served too however many high ones there are.

A client that comes again as soon as it has its result would find its place taken by those who always wait. So a place is kept
free for a short while for who had it, about as long as its last execution took. And an execution that takes long, or
never ends, keeps only others of its own client from the device: after `LONG_S` its place is lent to others once more, as long as
no more than `MAX_AT_ONCE` run.

Where there are guest places, a client of which nothing runs need not wait for other clients at all: its first execution takes
a guest place if all slots are taken, and the operating system shares the processors out.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from neurald.hal.accounting.pacing import Work
from neurald.hal.device import Device, ExecuteOptions, ExecutionResult
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation

#: A LOW execution goes before MEDIUM ones if none of its client's LOW ones had the device for so long.
AGEING_S: Final = 0.5
#: An execution that takes longer keeps nobody but its own client from the device.
LONG_S: Final = 0.25
#: Executions that run at the same time at most, with long ones; a user of whom none runs may have one beyond that.
MAX_AT_ONCE: Final = 16
#: A place is kept free for a client for so long, and as long as its last execution took, but no longer than that.
_GRACE_S: Final = 2e-3
_MAX_GRACE_S: Final = 0.1
#: How often who waits looks whether it was cancelled, and whether a place has become free by time. Many who wait look
#: less often each: what they do all together must not cost those who run.
_LOOK_S: Final = 0.02
_LOOK_OFTEN: Final = 4

_S = TypeVar("_S")
_RANKS: Final = {priority: rank for rank, priority in enumerate(sorted(Priority))}


class RunsSideBySide(Protocol):
    """What a device can say beside: how many executions it runs at the same time to advantage."""

    @property
    def executions_at_once(self) -> int:
        """At least 1. More that come at the same time wait for their turn, see `Turns`."""
        ...


#: Of a device that does not say.
_EXECUTIONS_AT_ONCE: Final = 4


def executions_at_once(device: Device) -> int:
    """What `RunsSideBySide.executions_at_once` says, and 4 for a device without it."""
    said: int = getattr(device, "executions_at_once", _EXECUTIONS_AT_ONCE)
    return max(1, said)


class _Share:
    """What a user, or a client, has had of the device, and has of it now."""

    __slots__ = ("_used_s", "running", "started_s", "waiting")

    def __init__(self) -> None:
        self._used_s = 0.0
        self.running = 0
        self.waiting = 0
        #: The sum of the times at which what runs was started.
        self.started_s = 0.0

    @property
    def is_active(self) -> bool:
        return self.running + self.waiting > 0

    def had_s(self, now: float) -> float:
        """Time on the device, that of what is still running included."""
        return self._used_s + self.running * now - self.started_s

    def catch_up(self, had_s: float) -> None:
        """What comes anew has no claim to time at which it did not ask."""
        self._used_s = max(self._used_s, had_s)

    def start(self, now: float) -> None:
        self.running += 1
        self.started_s += now

    def end(self, started: float, now: float) -> None:
        self.running -= 1
        self.started_s -= started
        self._used_s += now - started


class _User(_Share):
    """Clients that trust each other."""

    __slots__ = ("clients", "key")

    def __init__(self, key: Hashable) -> None:
        super().__init__()
        self.key = key
        self.clients: dict[Hashable, _Client] = {}


class _Client(_Share):
    """One client, such as a session."""

    __slots__ = ("_grace_until", "_wanted", "flows", "key", "user")

    def __init__(self, user: _User, key: Hashable) -> None:
        super().__init__()
        self.user = user
        self.key = key
        self.flows: dict[Priority, _Flow] = {}
        self._wanted = 0
        self._grace_until = 0.0

    def wanted(self, now: float) -> int:
        """How many executions it wants to have on the device: those that it has, and had a moment ago."""
        active = self.running + self.waiting
        return max(active, self._wanted) if now < self._grace_until else active

    def note_end(self, taken_s: float, now: float) -> None:
        """Keeps the place of an execution that is about to end, while it counts as running."""
        grace_s = min(_GRACE_S + taken_s, _MAX_GRACE_S)
        active = self.running + self.waiting
        # What was wanted once is forgotten little by little.
        self._wanted = max(active, self._wanted - 1) if now < self._grace_until else active
        self._grace_until = now + grace_s

    def is_over(self, now: float) -> bool:
        return not self.is_active and now >= self._grace_until


class _Flow:
    """The executions of one client that have the same priority: first come, first served."""

    __slots__ = ("queue", "rank", "served_at")

    def __init__(self, priority: Priority) -> None:
        self.queue: deque[Turn] = deque()
        self.rank = _RANKS[priority]
        self.served_at = 0.0

    def level(self, now: float) -> int:
        """What decides within a user: the priority, and how long it has waited in vain."""
        return self.rank + int((now - max(self.served_at, self.queue[0].came_at)) / AGEING_S)


class Turn:
    """One execution: it waits, or has the device.

    Attributes:
        work: of the thread that executes it, once it has begun.
    """

    __slots__ = ("came_at", "client", "priority", "ready", "started_at", "work")

    def __init__(self, client: _Client, priority: Priority, now: float) -> None:
        self.client = client
        self.priority = priority
        self.came_at = now
        self.started_at: float | None = None
        self.ready = threading.Lock()
        self.work: Work | None = None

    @property
    def waited_ns(self) -> int:
        """How long it waited for the device."""
        return 0 if self.started_at is None else max(0, int((self.started_at - self.came_at) * 1e9))


def timed(result: ExecutionResult, options: ExecuteOptions, turn: Turn) -> ExecutionResult:
    """Adds the time that an execution waited for its turn to its timing, if that is measured."""
    if not options.measure:
        return result
    return replace(result, timing=result.timing.queued_for(turn.waited_ns))


class Turns:
    """Lets executions run at the same time, as many as there are slots. Thread-safe.

    Args:
        slots: what the device can do at the same time to advantage.
        clock: tells seconds, as `time.monotonic` does.
        long_s: what takes longer keeps nobody but its own client from the device.
        most_at_once: how many run at the same time at most, with long ones; a user of whom none runs may have one beyond that.
        guests: how many more may run, each the only one of its client. Those that take long do not count.
        what: what has turns, for error messages.
    """

    def __init__(
        self,
        slots: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        long_s: float = LONG_S,
        most_at_once: int = MAX_AT_ONCE,
        guests: int = 0,
        what: str = "executions",
    ) -> None:
        self._slots = slots
        self._long_s = long_s
        self._most_at_once = most_at_once
        self._guests = guests
        self._what = what
        self._clock = clock
        self._lock = threading.Lock()
        self._users: dict[Hashable, _User] = {}
        self._running: set[Turn] = set()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._waiting

    def take(
        self,
        priority: Priority,
        deadline_s: float | None = None,
        *,
        client: Hashable = None,
        user: Hashable = None,
        cancellation: Cancellation | None = None,
    ) -> Turn:
        """Returns when the execution has its turn, which lasts until `pass_on`.

        Args:
            priority: among the executions of the same user.
            deadline_s: until when to wait; None for no limit.
            client, user: whose execution it is.
            cancellation: ends the wait.

        Raises:
            MissedDeadlineTransient: the deadline passed before that.
            Cancelled: the execution was cancelled before that.
        """
        turn = self._enqueued(priority, client, user)
        try:
            while turn.started_at is None:
                self._wait(turn, deadline_s, cancellation)
        except BaseException:
            self._leave(turn)
            raise
        return turn

    def pass_on(self, turn: Turn) -> None:
        """Ends a turn: who is to have one next has it now."""
        with self._lock:
            now = self._clock()
            self._end(turn, now)
            if self._waiting:
                self._start(now)

    def _enqueued(self, priority: Priority, client: Hashable, user: Hashable) -> Turn:
        with self._lock:
            now = self._clock()
            known = self._client(client, user, now)
            turn = Turn(known, priority, now)
            flow = known.flows.get(priority)
            if flow is None:
                flow = known.flows[priority] = _Flow(priority)
            flow.queue.append(turn)
            self._waiting += 1
            for share in (known, known.user):
                share.waiting += 1
            if self._waiting == 1:
                if self._may_start(known, now):
                    self._give(turn, now)
            else:
                self._start(now)
            if turn.started_at is None:
                turn.ready.acquire()
            return turn

    def _wait(self, turn: Turn, deadline_s: float | None, cancellation: Cancellation | None) -> None:
        """Waits for a moment, and looks whether time has made room."""
        look_s = _LOOK_S * max(1.0, self._waiting / _LOOK_OFTEN)
        left = look_s if deadline_s is None else min(look_s, deadline_s - time.monotonic())
        if turn.ready.acquire(timeout=max(0.0, left)):
            return
        if cancellation is not None:
            cancellation.require_not_cancelled(f"while other {self._what} had their turn")
        with self._lock:
            self._start(self._clock())
            if turn.started_at is not None:
                return
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise MissedDeadlineTransient(f"the deadline passed while other {self._what} had their turn")

    def _leave(self, turn: Turn) -> None:
        """Takes an execution out that waits no longer; a turn that it got meanwhile goes to the next."""
        with self._lock:
            now = self._clock()
            if turn.started_at is not None:
                self._end(turn, now)
            else:
                turn.client.flows[turn.priority].queue.remove(turn)
                self._no_longer_waits(turn)
            self._start(now)

    # Whose turn it is; the lock is held

    def _client(self, key: Hashable, user_key: Hashable, now: float) -> _Client:
        user = self._users.get(user_key)
        if user is None:
            user = self._users[user_key] = _User(user_key)
        if not user.is_active:
            user.catch_up(min((u.had_s(now) for u in self._users.values() if u.is_active), default=0.0))
        client = user.clients.get(key)
        if client is None:
            client = user.clients[key] = _Client(user, key)
        if not client.is_active:
            client.catch_up(min((c.had_s(now) for c in user.clients.values() if c.is_active), default=0.0))
        return client

    def _start(self, now: float) -> None:
        """Gives turns to those who may have one now."""
        while (turn := self._next(now)) is not None:
            self._give(turn, now)

    def _give(self, turn: Turn, now: float) -> None:
        client = turn.client
        flow = client.flows[turn.priority]
        flow.queue.popleft()
        flow.served_at = now
        self._no_longer_waits(turn)
        self._running.add(turn)
        for share in (client, client.user):
            share.start(now)
        turn.started_at = now
        if turn.ready.locked():
            turn.ready.release()

    def _end(self, turn: Turn, now: float) -> None:
        assert turn.started_at is not None  # noqa: S101 - only what has started ends
        client = turn.client
        client.note_end(now - turn.started_at, now)
        client.flows[turn.priority].served_at = now
        self._running.discard(turn)
        for share in (client, client.user):
            share.end(turn.started_at, now)
        if not client.is_active:
            self._forget(now)

    def _no_longer_waits(self, turn: Turn) -> None:
        self._waiting -= 1
        for share in (turn.client, turn.client.user):
            share.waiting -= 1

    def _forget(self, now: float) -> None:
        """Forgets clients that are gone."""
        for user in tuple(self._users.values()):
            for client in tuple(user.clients.values()):
                if client.is_over(now):
                    del user.clients[client.key]
            if not user.clients:
                del self._users[user.key]

    def _next(self, now: float) -> Turn | None:
        """Whose turn it is; None where nobody waits who may start."""
        users = [user for user in self._users.values() if user.waiting]
        for user in sorted(users, key=lambda user: user.had_s(now)):
            flows = [
                (-flow.level(now), client.had_s(now), flow.queue[0].came_at, flow)
                for client in user.clients.values()
                for flow in client.flows.values()
                if flow.queue
            ]
            for *_, flow in sorted(flows, key=lambda each: each[:3]):
                if self._may_start(flow.queue[0].client, now):
                    return flow.queue[0]
        return None

    def _may_start(self, client: _Client, now: float) -> bool:
        """Whether there is room for one more execution of a client."""
        running = len(self._running)
        if not client.running and self._guests and self._young(now) < self._slots + self._guests:
            return True
        most = self._most_at_once + (0 if client.user.running else len(self._users))
        if running >= most:
            return False
        if running >= self._slots:
            counted = sum(
                1
                for turn in self._running
                if turn.client is client or now - (turn.started_at or now) < self._long_s
            )
            if counted >= self._slots:
                return False
        return client.running < self._limit(client, now)

    def _young(self, now: float) -> int:
        """How many executions run that have not taken long yet."""
        return sum(1 for turn in self._running if now - (turn.started_at or now) < self._long_s)

    def _limit(self, client: _Client, now: float) -> int:
        """How many executions of a client may run, so that there is room for what others want: at least one."""
        users = {user: {c: c.wanted(now) for c in user.clients.values()} for user in self._users.values()}
        if sum(sum(wanted.values()) for wanted in users.values()) <= self._slots:
            return self._slots
        shares = dict(
            _shared_out(self._slots, [(user, sum(wanted.values())) for user, wanted in users.items()])
        )
        own = dict(_shared_out(shares[client.user], list(users[client.user].items())))
        return max(1, own[client])


def _shared_out(slots: int, wanted: list[tuple[_S, int]]) -> Iterator[tuple[_S, int]]:
    """Slots for each of those who want some: as even as can be, and nothing that is wanted is left over.

    Who wants least is served first, so that a rest goes to those who want most.
    """
    for position, (who, count) in enumerate(sorted(wanted, key=lambda each: each[1])):
        share = min(count, slots // (len(wanted) - position))
        slots -= share
        yield who, share

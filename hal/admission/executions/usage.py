"""Accounts of the use of a device: its users, their times, and the executions that wait.

An `AdmissionQueue` keeps these records, and holds its lock while it reads or changes them. Each
execution has a `Ticket`. Users have clients, and a client has a lane of waiting tickets for each
priority.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Final

from neurald.hal.accounting.pacing import PacedWork
from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.model.types import Priority

#: A LOW execution precedes MEDIUM ones once no LOW execution of its client was started for this
#: long.
AGEING_S: Final = 0.5
#: A slot stays reserved for a client for `_GRACE_S` plus the time of its last execution, but no
#: longer than `MAX_GRACE_S`.
_GRACE_S: Final = 2e-3
MAX_GRACE_S: Final = 0.1

_RANKS: Final = {priority: rank for rank, priority in enumerate(sorted(Priority))}


class _Usage:
    """The time that a user or a client has used of the device, and its current executions."""

    __slots__ = ("_used_s", "running", "started_s", "waiting", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self._used_s = 0.0
        self.running = 0
        self.waiting = 0
        #: The sum of the start times of the executions that are running.
        self.started_s = 0.0

    @property
    def is_active(self) -> bool:
        return self.running + self.waiting > 0

    def used_s(self, now: float) -> float:
        """Returns the time used on the device, that of running executions included, by weight."""
        return self._used_s + (self.running * now - self.started_s) / self.weight

    def catch_up(self, used_s: float) -> None:
        """Raises the used time to `used_s`: time before a newcomer asked is not its due."""
        self._used_s = max(self._used_s, used_s)

    def start(self, now: float) -> None:
        self.running += 1
        self.started_s += now

    def end(self, started: float, now: float) -> None:
        self.running -= 1
        self.started_s -= started
        self._used_s += (now - started) / self.weight


class UserUsage(_Usage):
    """The usage of one user, whose clients trust each other.

    Attributes:
        lanes: the lanes of its clients in which executions wait.
    """

    __slots__ = ("clients", "key", "lanes")

    def __init__(self, key: Hashable, weight: float) -> None:
        super().__init__(weight)
        self.key = key
        self.clients: dict[Hashable, ClientUsage] = {}
        self.lanes = WaitingLanes()


class ClientUsage(_Usage):
    """The usage of one client, such as a session."""

    __slots__ = ("_grace_until", "_wanted", "key", "lanes", "user")

    def __init__(self, user: UserUsage, key: Hashable) -> None:
        super().__init__()
        self.user = user
        self.key = key
        self.lanes: dict[Priority, PriorityLane] = {}
        self._wanted = 0
        self._grace_until = 0.0

    def wanted(self, now: float) -> int:
        """Returns how many executions the client has on the device, or had a moment ago."""
        active = self.running + self.waiting
        return max(active, self._wanted) if now < self._grace_until else active

    def note_end(self, taken_s: float, now: float) -> None:
        """Reserves the slot of an execution that is about to end but still counts as running."""
        grace_s = min(_GRACE_S + taken_s, MAX_GRACE_S)
        active = self.running + self.waiting
        # The demand of the past decays one execution at a time.
        self._wanted = max(active, self._wanted - 1) if now < self._grace_until else active
        self._grace_until = now + grace_s

    def is_over(self, now: float) -> bool:
        """Returns whether the client has nothing on the device, and no slot is reserved for it."""
        return not self.is_active and now >= self._grace_until


class PriorityLane:
    """The waiting executions of one client that have the same priority, in order of arrival."""

    __slots__ = ("client", "is_listed", "queue", "rank", "served_at")

    def __init__(self, client: ClientUsage, priority: Priority) -> None:
        self.client = client
        self.queue: deque[Ticket] = deque()
        self.rank = _RANKS[priority]
        self.served_at = 0.0
        self.is_listed = False

    def level(self, now: float) -> int:
        """Returns the effective priority: the rank, raised by the time spent waiting."""
        return self.rank + int((now - max(self.served_at, self.queue[0].queued_at)) / AGEING_S)


class WaitingLanes:
    """The lanes of a user in which executions wait, in the order in which they are served.

    As long as all have the same priority and none has waited long, their order only depends on the
    time that their clients have used, which never decreases. Then a heap has the next one at once.
    """

    __slots__ = ("_arrivals", "_heap", "_number", "_ranks")

    def __init__(self) -> None:
        #: Used time, arrival and a unique number of each lane; its client may have used more since.
        self._heap: list[tuple[float, float, int, PriorityLane]] = []
        self._arrivals: deque[Ticket] = deque()
        self._ranks: dict[int, int] = {}
        self._number = 0

    def add(self, lane: PriorityLane, ticket: "Ticket", now: float) -> None:
        """Adds the last execution of a lane."""
        self._ranks[lane.rank] = self._ranks.get(lane.rank, 0) + 1
        self._arrivals.append(ticket)
        self._list(lane, now)

    def remove(self, lane: PriorityLane, ticket: "Ticket", now: float) -> None:
        """Removes an execution, which is no longer in its lane."""
        left = self._ranks[lane.rank] - 1
        if left:
            self._ranks[lane.rank] = left
        else:
            del self._ranks[lane.rank]
        ticket.waits = False
        while self._arrivals and not self._arrivals[0].waits:
            self._arrivals.popleft()
        self._list(lane, now)

    def _list(self, lane: PriorityLane, now: float) -> None:
        if lane.queue and not lane.is_listed:
            lane.is_listed = True
            self._number += 1
            entry = (lane.client.used_s(now), lane.queue[0].queued_at, self._number, lane)
            heapq.heappush(self._heap, entry)

    def tidy(self) -> None:
        """Drops lanes in which nothing waits, whose clients may be gone."""
        for *_, lane in self._heap:
            lane.is_listed = bool(lane.queue)
        self._heap = [entry for entry in self._heap if entry[-1].is_listed]
        heapq.heapify(self._heap)

    def in_order(self, now: float) -> Iterator[PriorityLane]:
        """Iterates over the lanes.

        Those that are not admitted stay; do not change any meanwhile.
        """
        if len(self._ranks) <= 1 and (not self._arrivals or now < self._arrivals[0].queued_at + AGEING_S):
            yield from self._by_used_time(now)
        else:
            lanes = [
                (-lane.level(now), lane.client.used_s(now), lane.queue[0].queued_at, lane)
                for *_, lane in self._heap
                if lane.queue
            ]
            for *_, lane in sorted(lanes, key=lambda each: each[:3]):
                yield lane

    def _by_used_time(self, now: float) -> Iterator[PriorityLane]:
        heap = self._heap
        seen = []
        try:
            while heap:
                used_s, queued_at, number, lane = heap[0]
                if not lane.queue:
                    heapq.heappop(heap)
                    lane.is_listed = False
                    continue
                found = lane.client.used_s(now), lane.queue[0].queued_at
                if found != (used_s, queued_at):
                    heapq.heapreplace(heap, (*found, number, lane))
                    continue
                seen.append(heapq.heappop(heap))
                yield lane
        finally:
            for entry in seen:
                heapq.heappush(heap, entry)


class Ticket:
    """One execution in the queue: it waits, or runs.

    Attributes:
        waits: whether it is in the queue.
        has_room: whether it is counted among those that run.
        work: the paced work of the thread that runs it, once it has begun.
        pace: the pace of the executions of its model; None if it is not known.
        deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
        beside: how many executions ran when it began.
        left: how much of these was left then, about; None if that is not known.
    """

    __slots__ = (
        "beside",
        "client",
        "deadline_s",
        "has_room",
        "left",
        "pace",
        "priority",
        "queued_at",
        "ready",
        "started_at",
        "waits",
        "work",
    )

    def __init__(
        self,
        client: ClientUsage,
        priority: Priority,
        now: float,
        deadline_s: float | None = None,
        pace: ExecutionPace | None = None,
    ) -> None:
        self.client = client
        self.priority = priority
        self.queued_at = now
        self.started_at: float | None = None
        self.waits = True
        self.has_room = False
        self.ready = threading.Lock()
        self.work: PacedWork | None = None
        self.pace = pace
        self.deadline_s = deadline_s
        self.beside = 0
        self.left: float | None = None

    def wake(self) -> None:
        """Ends the wait of its thread, if it waits; it looks whether it has been started.

        Takes no lock of the queue: a signal handler that cancels the execution may interrupt a
        thread that holds it.
        """
        with suppress(RuntimeError):  # it does not wait
            self.ready.release()

    def note_end(self) -> None:
        """Notes that it has ended, in the pace of its model."""
        pace, started_s = self.pace, self.started_at
        if pace is None or started_s is None:
            return
        now_s = time.monotonic()
        pace.add(now_s - started_s, self.beside, None if self.deadline_s is None else self.deadline_s - now_s)

    @property
    def waited_ns(self) -> int:
        """The time that it waited for the device."""
        return 0 if self.started_at is None else max(0, int((self.started_at - self.queued_at) * 1e9))

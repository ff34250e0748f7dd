"""The admission queue is fair between users and clients, by priority within a user."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from support.devices.fakes import WithoutCacheAndBuffers
from support.models.addition import AddingDevice, addition, request
from support.sweeps import sweep

from neurald.hal.admission.executions.admission_queue import (
    LONG_S,
    MAX_RUNNING_EXECUTIONS,
    AdmissionQueue,
    _fair_shares,
)
from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.admission.executions.rooms import OwnRooms
from neurald.hal.admission.executions.usage import AGEING_S, Ticket
from neurald.hal.device import ExecuteOptions, PrepareOptions, executions_at_once
from neurald.hal.errors import Cancelled, MissedDeadlineTransient
from neurald.hal.model.request import Request
from neurald.hal.model.types import Priority
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.cancellation import Cancellation

LOW, MEDIUM, HIGH = Priority.LOW, Priority.MEDIUM, Priority.HIGH


class Clock:
    """A clock that only moves when it is set.

    Attributes:
        now: the time.
        readers: the threads that have read it since this set was emptied last.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.readers: set[int] = set()

    def __call__(self) -> float:
        self.readers.add(threading.get_ident())
        return self.now


#: The backlogs of the current test.
_backlogs: list["Backlog"] = []


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    while _backlogs:
        _backlogs.pop().close()


class Backlog:
    """Executions that wait, each in a thread, and those that run, on a clock of its own."""

    def __init__(self, slots: int, guests: int = 0, weights: Mapping[Hashable, float] | None = None) -> None:
        self.clock = Clock()
        self.queue = AdmissionQueue(slots, self.clock, guests=guests, weights=weights)
        self.running: dict[str, Ticket] = {}
        self.order: list[str] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._stop = Cancellation()
        _backlogs.append(self)

    def close(self) -> None:
        """Ends the threads that still wait; they would look at the clock all the time."""
        self._stop.cancel()
        for thread in self._threads:
            thread.join()

    def add(
        self,
        name: str,
        priority: Priority = MEDIUM,
        client: Hashable = None,
        user: Hashable = None,
    ) -> None:
        def run() -> None:
            try:
                ticket = self.queue.acquire(priority, client=client, user=user, cancellation=self._stop)
            except Cancelled:
                return
            with self._lock:
                self.running[name] = ticket
                self.order.append(name)

        self.clock.now += 1e-6
        before = self.queue.waiting + len(self.order)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)
        self._until(lambda: self.queue.waiting + len(self.order) == before + 1)

    def end(self, name: str, after_s: float = 0.0) -> None:
        """Ends an execution; those that start now are in `order` when this returns."""
        self.clock.now += after_s
        waiting, started = self.queue.waiting, len(self.order)
        self.queue.release(self.running.pop(name))
        self._until(lambda: self.queue.waiting + len(self.order) == waiting + started)

    def settle(self) -> None:
        """Waits until waiting threads have read the clock, and those then admitted have begun.

        With many of them, each reads it rarely.
        """
        readers = self.clock.readers
        readers.clear()
        self._until(lambda: all(each.ident in readers for each in self._threads if each.is_alive()))
        with self.queue._lock:  # held by a thread that has read the clock until it has acted on it
            pass
        self._until(lambda: self.queue.waiting + len(self.order) == len(self._threads))

    def wait_for(self, name: str) -> None:
        """Waits until an execution has noted that it runs, while the clock stands still."""
        self._until(lambda: name in self.running)

    def work_off(self, each_s: float) -> list[str]:
        """Ends all executions, oldest first; returns the order in which waiting ones started."""
        before = len(self.order)
        while self.running:
            self.end(next(iter(self.running)), each_s)
        return self.order[before:]

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.0005)


def test_weights_of_users() -> None:
    """A user with weight 3 gets three times the executions of others, with any slots."""
    backlog = Backlog(1, weights={"heavy": 3.0})
    backlog.add("first", user="nobody")
    for n in range(12):
        backlog.add(f"heavy {n}", user="heavy", client="heavy")
        backlog.add(f"light {n}", user="light", client="light")
    started = backlog.work_off(0.01)[:12]
    assert 8 <= sum(name.startswith("heavy") for name in started) <= 10
    shares = dict(_fair_shares(8, [("heavy", 12, 3.0), ("light", 12, 1.0)]))
    assert shares == {"heavy": 6, "light": 2}
    assert dict(_fair_shares(8, [("heavy", 2, 3.0), ("light", 12, 1.0)])) == {"heavy": 2, "light": 6}
    assert dict(_fair_shares(3, [(n, 9, 1.0) for n in range(3)])) == dict.fromkeys(range(3), 1)


def test_priorities_order_a_backlog() -> None:
    backlog = Backlog(1)
    backlog.add("first", LOW)
    for n in range(2):
        backlog.add(f"low {n}", LOW)
        backlog.add(f"medium {n}", MEDIUM)
        backlog.add(f"high {n}", HIGH)
    assert backlog.work_off(0.01) == ["high 0", "high 1", "medium 0", "medium 1", "low 0", "low 1"]


def test_a_high_one_overtakes_low_ones_that_take_long() -> None:
    """Only executions without progress age: a long one under way makes none behind it urgent."""
    backlog = Backlog(1)
    backlog.add("first", LOW, "slow")
    for n in range(8):
        backlog.add(f"low {n}", LOW, "slow")
    backlog.add("high", HIGH, "slow")
    assert backlog.work_off(3 * AGEING_S)[0] == "high"


def test_low_priorities_are_not_starved() -> None:
    backlog = Backlog(1)
    backlog.add("high 0", HIGH)
    backlog.add("low", LOW)
    for n in range(1, 40):
        backlog.add(f"high {n}", HIGH)
    order = backlog.work_off(0.1)
    assert 3 <= order.index("low") <= 2 * AGEING_S / 0.1 + 1


def test_clients_of_one_user_take_turns() -> None:
    """A client does not wait for all 46 executions that another one has queued."""
    backlog = Backlog(1)
    for n in range(46):
        backlog.add(f"busy {n}", client="busy")
    for n in range(3):
        backlog.add(f"other {n}", client="other")
    order = backlog.work_off(0.02)
    assert order[0] == "other 0"
    assert all(order.index(f"other {n}") <= 2 * n for n in range(3))
    assert any(name.startswith("busy") for name in order[:4])


def test_a_place_is_kept_for_who_comes_again() -> None:
    """With two slots, a client that runs one execution at a time never waits for 46 others."""
    backlog = Backlog(2)
    backlog.add("other", client="other")
    for n in range(46):
        backlog.add(f"busy {n}", client="busy")
    for turn in range(5):
        running = "other" if turn == 0 else f"other {turn}"
        assert len(backlog.running) == 2
        assert running in backlog.running
        backlog.end(running, 0.02)
        # Nobody takes its place in the moment in which it is away.
        assert len(backlog.running) == 1
        backlog.add(f"other {turn + 1}", client="other")
        backlog.wait_for(f"other {turn + 1}")
        backlog.end(next(iter(backlog.running)), 0.01)
        assert len(backlog.running) == 2
    # Once it stays away, others get its place.
    backlog.end("other 5", 0.01)
    assert len(backlog.running) == 1
    backlog.clock.now += 0.2
    backlog.settle()
    assert len(backlog.running) == 2


def test_users_come_before_priorities() -> None:
    """A user that claims HIGH gets no more than its share beside another user."""
    backlog = Backlog(1)
    backlog.add("greedy", HIGH, "a", 1000)
    for n in range(10):
        backlog.add(f"greedy {n}", HIGH, ("a", n % 5), 1000)
    for n in range(5):
        backlog.add(f"modest {n}", LOW, "b", 1001)
    order = backlog.work_off(0.02)
    assert order[0] == "modest 0"
    assert all(order.index(f"modest {n}") <= 2 * n for n in range(5))
    assert sum(name.startswith("greedy") for name in order[:8]) >= 3


def test_time_is_what_is_shared() -> None:
    """A user whose executions take three times as long gets a third as many of them."""
    backlog = Backlog(1)
    backlog.add("first", user="short")
    for n in range(12):
        backlog.add(f"short {n}", user="short")
        backlog.add(f"long {n}", user="long")
    short = long = 0
    while short + long < 12:
        (name,) = backlog.running
        backlog.end(name, 0.03 if name.startswith("long") else 0.01)
        short, long = (sum(each.startswith(kind) for each in backlog.order) for kind in ("short", "long"))
    assert short >= 2.5 * (long - 1)


def test_endless_executions_keep_only_their_own_client_from_the_device() -> None:
    backlog = Backlog(2)
    for n in range(8):
        backlog.add(f"endless {n}", client="endless")
    backlog.add("other", client="other")
    assert len(backlog.running) == 2
    backlog.clock.now += LONG_S
    backlog.settle()
    assert set(backlog.order) == {"endless 0", "endless 1", "other"}
    for n in range(3):
        backlog.add(f"honest {n}", client="honest")
    # One alone waits no longer than the youngest execution is short.
    backlog.clock.now += LONG_S
    backlog.settle()
    assert "honest 0" in backlog.running
    assert not any(f"endless {n}" in backlog.running for n in range(2, 8))


def test_there_is_an_end_to_what_long_ones_leave_room_for() -> None:
    backlog = Backlog(1)
    for n in range(MAX_RUNNING_EXECUTIONS + 5):
        backlog.add(f"endless {n}", client=n, user="greedy")
        backlog.clock.now += LONG_S
    backlog.settle()
    assert len(backlog.running) == MAX_RUNNING_EXECUTIONS
    backlog.add("honest", user="honest")
    backlog.settle()
    assert "honest" in backlog.running


def test_a_client_of_which_nothing_runs_takes_a_guest_place() -> None:
    """It waits for no executions of other clients, whoever their user is."""
    backlog = Backlog(2, guests=2)
    for n in range(8):
        backlog.add(f"busy {n}", client="busy")
    assert len(backlog.running) == 2
    backlog.add("honest 0", client="honest")
    assert "honest 0" in backlog.running
    # Its second one waits for a slot, like those of others.
    backlog.add("honest 1", client="honest")
    assert "honest 1" not in backlog.running
    backlog.end("honest 0", 0.001)
    assert "honest 1" in backlog.running


def test_guests_that_take_long_leave_room_for_more_of_them() -> None:
    backlog = Backlog(1, guests=1)
    for n in range(MAX_RUNNING_EXECUTIONS + 5):
        backlog.add(f"endless {n}", client=n)
        backlog.clock.now += LONG_S
    backlog.settle()
    assert len(backlog.running) == MAX_RUNNING_EXECUTIONS + 5
    backlog.add("honest", client="honest")
    assert "honest" in backlog.running


@pytest.mark.timed
def test_many_that_wait_do_not_look_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred waiting threads poll about as often together as a few."""
    looks = Counter[int]()
    few, many = 4, 100

    def looks_of(count: int) -> int:
        backlog = Backlog(1)
        starts = backlog.queue._start

        def start(now: float) -> None:
            looks[count] += 1
            starts(now)

        backlog.add("first")
        for n in range(count):
            backlog.add(f"waiting {n}")
        monkeypatch.setattr(backlog.queue, "_start", start)
        time.sleep(0.5)
        monkeypatch.setattr(backlog.queue, "_start", starts)
        backlog.work_off(0.0)
        return looks[count]

    assert looks_of(many) < 4 * looks_of(few)


def test_as_many_run_at_once_as_there_are_slots() -> None:
    several = AdmissionQueue(2)
    tickets = [several.acquire(LOW) for _ in range(2)]
    with pytest.raises(MissedDeadlineTransient):
        several.acquire(HIGH, time.monotonic() + 0.01)
    assert several.waiting == 0
    several.release(tickets[0])
    several.acquire(LOW, time.monotonic())


@sweep("deadline_s", [1e300, float("inf")])
def test_no_deadline_is_too_far_away(deadline_s: float) -> None:
    one = AdmissionQueue(1)
    ticket = one.acquire(LOW)
    threading.Timer(0.03, one.release, [ticket]).start()
    one.release(one.acquire(LOW, deadline_s))


def test_nothing_is_kept_of_clients_that_are_gone() -> None:
    clock = Clock()
    queue = AdmissionQueue(2, clock)
    for n in range(100):
        queue.release(queue.acquire(LOW, client=n, user=n % 7))
        clock.now += 1.0
    assert len(queue._users) <= 2


def test_devices_say_how_many_run_at_once() -> None:
    device = AddingDevice()
    assert executions_at_once(device) == 4
    assert executions_at_once(WithoutCacheAndBuffers()) == 4  # type: ignore[arg-type]
    device.executions_at_once = 5
    assert executions_at_once(device) == 5


def test_a_daemon_takes_turns(tmp_path: Path) -> None:
    device = AddingDevice()
    device.executions_at_once = 1
    first, go_on = threading.Event(), threading.Event()
    order: list[float] = []

    def wait(request: Request, options: ExecuteOptions) -> None:
        argument = request.inputs[0]
        order.append(
            float(np.frombuffer(request.pools[argument.pool or 0].view(argument.offset, 4), np.float32)[0])
        )
        first.set()
        assert go_on.wait(30)

    device.on_execute = wait
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remote = connect(str(server.address))
    model = addition(np.ones(1, np.float32))
    threads = []
    for n, priority in enumerate((LOW, LOW, MEDIUM, HIGH)):
        prepared = remote.prepare_model(model, PrepareOptions(priority=priority))
        values = request(np.array([n], np.float32), np.zeros(1, np.float32))
        threads.append(threading.Thread(target=prepared.execute, args=(values, ExecuteOptions())))
        threads[-1].start()
        assert first.wait(30)
        while server.handler.admission.waiting < n:
            time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
    remote.close()
    server.stop()
    assert order == [0, 3, 2, 1]


@pytest.mark.timed
def test_46_threads_of_one_client_do_not_slow_another(tmp_path: Path) -> None:
    """Two connections to a daemon whose device sleeps hardly slow each other."""
    device = AddingDevice()
    device.executions_at_once = 2
    device.on_execute = lambda request, options: time.sleep(0.02)
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    model = addition(np.ones(1, np.float32))
    busy, other = (connect(str(server.address)) for _ in range(2))
    stop = threading.Event()

    def work(remote: object) -> None:
        while not stop.is_set():
            run(busy_model)

    def run(prepared: object) -> None:
        values = request(np.zeros(1, np.float32), np.zeros(1, np.float32))
        prepared.execute(values, ExecuteOptions())  # type: ignore[attr-defined]

    def taken_s() -> float:
        started = time.monotonic()
        for _ in range(20):
            run(other_model)
        return time.monotonic() - started

    busy_model, other_model = (each.prepare_model(model, PrepareOptions()) for each in (busy, other))
    threads = [threading.Thread(target=work, args=(busy,), daemon=True) for _ in range(46)]
    try:
        alone_s = taken_s()
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        beside_s = taken_s()
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
        for each in (busy, other):
            each.close()
        server.stop()
    # Without a share of its own it takes 24 times as long; this machine may be busy.
    assert beside_s < 2.0 * alone_s


@sweep("seed", range(40))
def test_the_order_of_those_that_wait(seed: int) -> None:
    """The order is that of priorities with ageing, then of used time, then of arrival."""
    chance = random.Random(seed)
    clock = Clock()
    queue = AdmissionQueue(chance.choice((1, 2, 4)), clock, guests=chance.choice((0, 2)))
    priorities = (Priority.MEDIUM,) if seed % 2 else tuple(Priority)
    tickets: list[Ticket] = []
    for _ in range(300):
        clock.now += chance.choice((0.0, 1e-4, 1e-3, 0.3 if chance.random() < 0.1 else 0.0))
        if chance.random() < 0.6 or not tickets:
            client, user = chance.randrange(12), chance.randrange(3)
            tickets.append(queue._enqueue(chance.choice(priorities), (user, client), user))
        else:
            ticket = tickets.pop(chance.randrange(len(tickets)))
            if ticket.started_at is None:
                queue._leave(ticket)
            else:
                queue.release(ticket)
        for usage in queue._users.values():
            lanes = [
                (-lane.level(clock.now), client.used_s(clock.now), lane.queue[0].queued_at, lane.rank)
                for client in usage.clients.values()
                for lane in client.lanes.values()
                if lane.queue
            ]
            found = [
                (-lane.level(clock.now), lane.client.used_s(clock.now), lane.queue[0].queued_at, lane.rank)
                for lane in usage.lanes.in_order(clock.now)
            ]
            assert [each[:3] for each in found] == sorted(each[:3] for each in lanes)
    assert queue.waiting == sum(ticket.started_at is None for ticket in tickets)
    for ticket in tickets:
        if ticket.started_at is None:
            queue._leave(ticket)
        else:
            queue.release(ticket)
    clock.now += 10
    last = queue.acquire(Priority.MEDIUM, client="last")
    queue.release(last)
    clock.now += 10
    queue.release(queue.acquire(Priority.MEDIUM, client="last"))
    assert sum(len(user.lanes._heap) for user in queue._users.values()) <= 1


def test_a_device_that_runs_one_after_another_gets_one_at_a_time_while_deadlines_count() -> None:
    clock = Clock()
    queue, pace = AdmissionQueue(4, clock), ExecutionPace()

    def begun(deadline_s: float | None) -> Ticket:
        return queue._enqueue(MEDIUM, None, None, deadline_s, pace)

    pace.add(0.01)
    for _ in range(8):
        tickets = [begun(None) for _ in range(4)]
        assert all(ticket.started_at is not None for ticket in tickets)
        for ticket in tickets:
            clock.now += 0.01
            queue.release(ticket)
    first, second, third = begun(clock.now + 1.0), begun(clock.now + 1.0), begun(None)
    assert first.started_at is not None
    # One without a deadline does not overtake, and waits as well.
    assert second.started_at is None
    assert third.started_at is None
    queue.release(first)
    assert second.started_at is not None
    # No deadline waits any more.
    assert third.started_at is not None
    queue.release(second)
    queue.release(third)


def test_others_that_share_the_rooms_take_slots() -> None:
    rooms = OwnRooms()
    rooms.taken = 2
    queue = AdmissionQueue(2, rooms=rooms)
    with pytest.raises(MissedDeadlineTransient):
        queue.acquire(Priority.MEDIUM, time.monotonic() + 0.01)
    rooms.taken = 1
    queue.release(queue.acquire(Priority.MEDIUM))
    assert rooms.taken == 1


def test_guests_beside_others_that_share_the_rooms_are_limited() -> None:
    rooms = OwnRooms()
    rooms.taken = 2
    queue = AdmissionQueue(2, guests=2, rooms=rooms)
    tickets = [queue.acquire(Priority.MEDIUM, client=client) for client in "ab"]
    for client in "ac":
        with pytest.raises(MissedDeadlineTransient):
            queue.acquire(Priority.MEDIUM, time.monotonic() + 0.01, client=client)
    for ticket in tickets:
        queue.release(ticket)
    assert rooms.taken == 2


def test_a_long_execution_gives_its_room_to_others_that_share_it() -> None:
    clock, rooms = Clock(), OwnRooms()
    queue = AdmissionQueue(1, clock, rooms=rooms)
    ticket = queue.acquire(Priority.MEDIUM)
    queue.look()
    assert rooms.taken == 1
    clock.now += LONG_S
    queue.look()
    assert rooms.taken == 0
    queue.release(ticket)
    assert rooms.taken == 0

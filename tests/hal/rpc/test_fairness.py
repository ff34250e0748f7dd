"""Clients of one daemon share the turns of the threads that serve them."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.executions import serving_turns
from neurald.hal.admission.executions.serving_turns import ServingPlace, ServingTurns
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.model.request import Request
from neurald.hal.model.types import Priority
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server import session_calls
from neurald.hal.rpc.server.server import DeviceServer

ONES = np.ones(3, np.float32)
THREADS = 16


def call(prepared: Any, number: int) -> None:
    values, result = np.full(3, number, np.float32), np.empty(3, np.float32)
    prepared.execute(request(values, result), ExecuteOptions())
    assert np.array_equal(result, values + 1)


def test_a_client_of_many_threads_delays_another_by_a_turn(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one session waits, another one with many threads gets a single turn."""
    crowded, honest = connect(str(server.address)), connect(str(server.address))
    prepared = [each.prepare_model(addition(ONES), PrepareOptions()) for each in (crowded, honest)]
    take_next = ServingTurns._next
    #: The sessions that waited before each turn that was waited for, and the one that got it.
    given: list[tuple[frozenset[Any], Any]] = []

    def noted(turns: ServingTurns) -> ServingPlace | None:
        waiting = frozenset(session for sessions in turns._users.values() for session in sessions)
        place = take_next(turns)
        if place is not None:
            given.append((waiting, place.session))
        return place

    monkeypatch.setattr(ServingTurns, "_next", noted)
    is_over = threading.Event()

    def crowd() -> None:
        while not is_over.is_set():
            call(prepared[0], 1)

    threads = [threading.Thread(target=crowd) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        end_s = time.monotonic() + 30
        while sum(len(waiting) > 1 for waiting, _ in given) < 20 and time.monotonic() < end_s:
            call(prepared[1], 2)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(30)
        crowded.close()
        honest.close()
    together = 0
    for (waiting, first), (still_waiting, second) in itertools.pairwise(given):
        for session in waiting & still_waiting:
            together += 1
            assert session in (first, second)
    assert together, "both sessions waited at the same time"


@pytest.fixture(params=["rings", "gRPC"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    """A daemon whose clients call in one of the two ways."""
    address = f"unix://{tmp_path}/d.sock" if request.param == "rings" else "127.0.0.1:0"
    server = DeviceServer(device, Address.parse(address))
    server.start()
    yield server
    server.stop()


def test_a_client_of_many_calls_over_grpc_delays_another_by_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_turns, "MAX_TURN_S", 1000.0)
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    clients = [connect(str(server.address)) for _ in range(2)]
    prepared = [client.prepare_model(addition(ONES), PrepareOptions()) for client in clients]
    turns = server.handler.admission.turns
    wait_until(lambda: turns._holder is None)
    order: list[Any] = []
    hold = ServingTurns._hold

    def noted(turns: ServingTurns, place: ServingPlace) -> None:
        hold(turns, place)
        order.append(place.session)

    held = turns.place("another user", "session")
    threads = []
    try:
        held.take()
        monkeypatch.setattr(ServingTurns, "_hold", noted)
        for waiting, model in enumerate((*[prepared[0]] * THREADS, prepared[1]), 1):
            threads.append(threading.Thread(target=call, args=(model, waiting)))
            threads[-1].start()
            wait_until(lambda waiting=waiting: turns.waiting == waiting)  # type: ignore[misc]
        (sessions,) = turns._users.values()
        crowded, honest = sessions
    finally:
        held.end()
        for thread in threads:
            thread.join(30)
        for client in clients:
            client.close()
        server.stop()
    assert order[:2] == [crowded, honest]
    assert order.count(crowded) >= THREADS


def test_an_execution_takes_no_turn(shared: DeviceServer, device: AddingDevice) -> None:
    remote = connect(str(shared.address))
    prepared = remote.prepare_model(addition(ONES), PrepareOptions())
    turns = shared.handler.admission.turns
    started, proceed = threading.Event(), threading.Event()

    def on_execute(*_: Any) -> None:
        started.set()
        assert proceed.wait(30)

    device.on_execute = on_execute
    thread = threading.Thread(target=call, args=(prepared, 1))
    thread.start()
    try:
        assert started.wait(30)
        assert turns._holder is None
    finally:
        proceed.set()
        thread.join(30)
    wait_until(lambda: turns._holder is None)
    remote.close()


def test_a_priority_overtakes_over_grpc() -> None:
    device = AddingDevice()
    device.executions_at_once = 1
    server = DeviceServer(device, Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    low, high = (
        remote.prepare_model(addition(ONES), PrepareOptions(priority=priority))
        for priority in (Priority.LOW, Priority.HIGH)
    )
    admission = server.handler.admission
    order: list[float] = []
    proceed = threading.Event()

    def on_execute(request: Request, _: ExecuteOptions) -> None:
        source = request.inputs[0]
        assert source.pool is not None
        view = request.pools[source.pool].view(source.offset, source.length)
        order.append(float(np.frombuffer(view, np.float32)[0]))
        assert proceed.wait(30)

    device.on_execute = on_execute
    threads = []
    try:
        for waiting, (prepared, number) in enumerate(((low, 1), (low, 2), (low, 3), (high, 4))):
            threads.append(threading.Thread(target=call, args=(prepared, number)))
            threads[-1].start()
            wait_until(lambda waiting=waiting: admission.waiting == waiting and bool(order))  # type: ignore[misc]
    finally:
        proceed.set()
        for thread in threads:
            thread.join(30)
        remote.close()
        server.stop()
    assert order == [1, 4, 2, 3]


def test_users_of_grpc_take_turns_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call over gRPC takes its turn as its user, who has the weight that the operator gave."""
    users = iter((7, 8))
    monkeypatch.setattr(session_calls, "peer_user", lambda peer, port: next(users))
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"), limits=Limits(weights=((7, 3),)))
    server.start()
    hold = ServingTurns._hold
    #: What each turn cost its user.
    costs: dict[Any, set[float]] = {}

    def noted(turns: ServingTurns, place: ServingPlace) -> None:
        hold(turns, place)
        costs.setdefault(place.user, set()).add(turns._had[place.user] - turns._level)

    monkeypatch.setattr(ServingTurns, "_hold", noted)
    clients = [connect(str(server.address)) for _ in range(2)]
    try:
        for client in clients:
            call(client.prepare_model(addition(ONES), PrepareOptions()), 1)
    finally:
        for client in clients:
            client.close()
        server.stop()
    assert costs == {None: {1.0}, 7: {1 / 3}, 8: {1.0}}

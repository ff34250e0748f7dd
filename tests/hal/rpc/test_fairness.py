"""Clients of one daemon share the turns of the threads that serve them."""

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.admission.serving_turns import ServingPlace, ServingTurns
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.rpc.client.device import RemoteDevice, connect
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


def test_an_execution_takes_no_turn(server: DeviceServer, remote: RemoteDevice, device: AddingDevice) -> None:
    prepared = remote.prepare_model(addition(ONES), PrepareOptions())
    turns = server.handler.admission.turns
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

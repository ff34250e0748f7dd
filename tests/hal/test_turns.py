"""Turns: a backlog is worked off by priority, and nobody starves."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.addition import AddingDevice, addition, request

from neurald.hal import turns
from neurald.hal.address import Address
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.remote import connect
from neurald.hal.server import DeviceServer
from neurald.hal.turns import Turns
from neurald.hal.types import Priority, Request


class Backlog:
    """Executions that wait behind one that runs, and the order in which they had their turn."""

    def __init__(self) -> None:
        self.turns = Turns(1)
        self.order: list[str] = []
        self._threads: list[threading.Thread] = []

    def add(self, name: str, priority: Priority) -> None:
        def run() -> None:
            self.turns.take(priority, None)
            self.order.append(name)
            self.turns.pass_on()

        before = self.turns.waiting
        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)
        while self.turns.waiting == before:
            time.sleep(0.001)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)


def test_d06_priorities_order_a_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "AGEING_S", 3600.0)
    backlog = Backlog()
    backlog.turns.take(Priority.LOW, None)
    for n in range(2):
        backlog.add(f"low {n}", Priority.LOW)
        backlog.add(f"medium {n}", Priority.MEDIUM)
        backlog.add(f"high {n}", Priority.HIGH)
    backlog.turns.pass_on()
    backlog.join()
    assert backlog.order == ["high 0", "high 1", "medium 0", "medium 1", "low 0", "low 1"]


def test_d06_low_priorities_are_not_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "AGEING_S", 0.005)
    backlog = Backlog()
    backlog.turns.take(Priority.HIGH, None)
    backlog.add("low", Priority.LOW)
    time.sleep(0.05)
    backlog.add("high", Priority.HIGH)
    backlog.turns.pass_on()
    backlog.join()
    assert backlog.order == ["low", "high"]


def test_as_many_run_at_once_as_there_are_slots() -> None:
    several = Turns(2)
    for _ in range(2):
        several.take(Priority.LOW, None)
    with pytest.raises(MissedDeadlineTransient):
        several.take(Priority.HIGH, time.monotonic() + 0.01)
    assert several.waiting == 0
    several.pass_on()
    several.take(Priority.LOW, time.monotonic())


def test_d06_a_daemon_takes_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.hal.handler._EXECUTIONS_AT_ONCE", 1)
    device = AddingDevice()
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
    for n, priority in enumerate((Priority.LOW, Priority.LOW, Priority.MEDIUM, Priority.HIGH)):
        prepared = remote.prepare_model(model, PrepareOptions(priority=priority))
        values = request(np.array([n], np.float32), np.zeros(1, np.float32))
        threads.append(threading.Thread(target=prepared.execute, args=(values, ExecuteOptions())))
        threads[-1].start()
        assert first.wait(30)
        while server.handler.waiting < n:
            time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
    remote.close()
    server.stop()
    assert order == [0, 3, 2, 1]

"""Pacing: long Python work for one client gives way to other clients, if there are any."""

import contextlib
import threading
from pathlib import Path

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, request
from support.models.hostile import chain

from neurald.hal.accounting import pacing
from neurald.hal.accounting.pacing import FREE_S, MAX_REST_S, SLICE_S, Interpreter, step
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.model.request import Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

_STEP_S = SLICE_S / 4


class Machine:
    """A clock, with the processor time of steps and the rests that were taken."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.used_s = 5.0
        self.rests: list[float] = []
        self.interpreter = Interpreter(lambda: self.now_s, lambda: self.used_s, self.rests.append)

    def work(self, seconds: float, step_s: float = _STEP_S) -> None:
        """Runs steps that take this long together."""
        step()
        for _ in range(round(seconds / step_s)):
            self.used_s += step_s
            step()


def test_work_that_is_alone_does_not_rest() -> None:
    machine = Machine()
    with machine.interpreter.working("only"):
        machine.work(1.0)
    assert not machine.rests


def test_long_work_rests_seven_times_as_long_as_it_works_while_others_are_there() -> None:
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    with machine.interpreter.working("long"):
        machine.work(1.0)
    assert sum(machine.rests) == pytest.approx(7.0, rel=0.02)
    assert max(machine.rests) < 0.1


def test_rests_end_once_the_others_have_gone() -> None:
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    with machine.interpreter.working("long"):
        machine.work(0.01)
        assert machine.rests
        machine.rests.clear()
        machine.now_s += 1.0
        machine.work(0.01)
    assert not machine.rests


def test_short_work_does_not_rest() -> None:
    machine = Machine()
    for _ in range(100):
        for client in ("one", "other"):
            with machine.interpreter.working(client):
                machine.work(FREE_S - 2 * _STEP_S)
        machine.now_s += 8 * FREE_S
    assert not machine.rests


def test_much_short_work_is_as_good_as_long_work() -> None:
    """A client with many threads, or with many short calls, gets no more than others."""
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    for _ in range(100):
        with machine.interpreter.working("many"):
            machine.work(FREE_S / 2 + _STEP_S)
    assert sum(machine.rests) > 0.25


def test_what_is_to_stop_rests_no_longer() -> None:
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    with machine.interpreter.working("cancelled"):
        for _ in range(1000):
            machine.used_s += _STEP_S
            step(stops=lambda: True)
    assert not machine.rests


def test_native_code_does_not_count() -> None:
    """Native code computes without the interpreter, and delays no other client."""
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    with machine.interpreter.working("native"):
        machine.work(1.0, step_s=0.01)
    assert not machine.rests


def test_a_long_step_of_python_counts() -> None:
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    with machine.interpreter.working("parsing"):
        step()
        for _ in range(10):
            machine.used_s += 0.005
            step(is_interpreted=True)
    assert len(machine.rests) == 10 * 2  # each looks once whether it is to stop
    assert sum(machine.rests) == pytest.approx(7 * 10 * 0.005)


def test_what_a_step_takes_of_other_threads_counts() -> None:
    """A part of a memory sent over gRPC occupies the threads that serve all clients."""
    machine = Machine()
    with machine.interpreter.working("honest"):
        pass
    with machine.interpreter.working("writing"):
        for _ in range(100):
            step(is_interpreted=True, beside_s=0.001)
    assert sum(machine.rests) == pytest.approx(0.7, rel=0.05)


def test_what_is_left_is_shared_between_clients_and_not_between_executions() -> None:
    """A client with many endless executions gets no more of the interpreter than one with one."""
    machine = Machine()
    for client, count in (("greedy", 5), ("modest", 1)):
        for _ in range(count):
            machine.interpreter.count(client, 1)
    greedy_s, modest_s = (machine.interpreter.rest_s(client) for client in ("greedy", "modest"))
    assert 5 * SLICE_S / (SLICE_S + greedy_s) == pytest.approx(SLICE_S / (SLICE_S + modest_s))
    machine.interpreter.count("greedy", 10_000)
    assert machine.interpreter.rest_s("greedy") == MAX_REST_S


def test_work_that_is_over_does_not_count_any_more() -> None:
    machine = Machine()
    for client in range(3):
        with machine.interpreter.working(client):
            machine.work(0.1)
    machine.now_s += 1.0
    with machine.interpreter.working("only"):
        machine.rests.clear()
        machine.work(0.1)
    assert not machine.rests


def test_few_clients_are_remembered() -> None:
    machine = Machine()
    for client in range(10_000):
        with machine.interpreter.working(client):
            pass
        machine.now_s += 0.1
    assert len(machine.interpreter._seen_s) < 200


def test_nobody_paces_an_application() -> None:
    step()
    ExecutionLimits(ExecuteOptions()).check("anywhere")


def test_a_daemon_paces_what_it_executes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers that check limits between operations are paced; bursts are executions as well."""
    works: list[object] = []
    monkeypatch.setattr(pacing.PacedWork, "step", lambda work, *_: works.append(work.client))
    device = AddingDevice()

    def execute(request: Request, options: ExecuteOptions) -> None:
        ExecutionLimits(options).check("between operations")

    device.on_execute = execute
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remote = connect(str(server.address))
    try:
        prepared = remote.prepare_model(addition(np.ones(1, np.float32)), PrepareOptions())
        works.clear()  # preparing it was work as well
        bound = request(np.zeros(1, np.float32), np.zeros(1, np.float32))
        prepared.execute(bound, ExecuteOptions())
        burst = prepared.create_burst()
        burst.execute(bound, ExecuteOptions())
        burst.close()
    finally:
        remote.close()
        server.stop()
    assert len(works) == 2
    assert len(set(works)) == 1
    assert None not in works


def test_threads_are_paced_by_themselves() -> None:
    machine = Machine()
    work = machine.interpreter.begin("one")
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(pacing._current.work))
    thread.start()
    thread.join()
    machine.interpreter.end(work)
    assert seen == [None]


def test_work_that_another_thread_ends_leaves_nothing_behind() -> None:
    """A stream whose client has left is cleaned up by any thread that finds it."""
    machine = Machine()
    inner = machine.interpreter.begin("left")
    cleaner = threading.Thread(target=machine.interpreter.end, args=(inner,))
    cleaner.start()
    cleaner.join()
    with machine.interpreter.working("honest"):
        assert pacing._current.work is not None
        assert pacing._current.work.enclosing is None
    assert pacing._current.work is None


def test_a_daemon_paces_reading_and_checking_a_large_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation is a step: none of these loops keeps the interpreter for long."""
    steps: list[object] = []
    monkeypatch.setattr(
        pacing.PacedWork, "step", lambda work, is_interpreted, *_: steps.append(is_interpreted)
    )
    server = DeviceServer(AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remote = connect(str(server.address))
    operations = 200
    try:
        with contextlib.suppress(Error):  # the device only adds
            remote.prepare_model(chain(operations), PrepareOptions())
    finally:
        remote.close()
        server.stop()
    # Operands and operations are read, and then checked: their types, order, signatures and shapes.
    assert len(steps) > 6 * operations
    assert all(steps)

"""Executions that native code runs at the same time: turns of clients, slots, and runners."""

import gc
import os
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from support.daemon.native_calls import (
    LENGTH,
    Caller,
    Gatherer,
    HeldGate,
    Run,
    gather,
    native,
    slow,
    slow_request,
)
from support.models.addition import addition
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, DeadObject, OpFailed
from neurald.hal.model.request import Request
from neurald.hal.model.types import Priority
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server import native_executions
from neurald.hal.rpc.server.native_ring import NativeRing
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.ring_end import STORES_IN_ORDER
from neurald.hal.sync.cancellation import Cancellation

pytestmark = pytest.mark.skipif(not STORES_IN_ORDER, reason="native code serves no rings on this machine")

RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)


@pytest.fixture
def server(native_server: DeviceServer) -> DeviceServer:
    return native_server


def test_rings_run_at_the_same_time(server: DeviceServer, remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones(5000, np.float32)), PrepareOptions())
    callers = [Caller(prepared, 5000) for _ in range(8)]

    def run(caller: Caller) -> None:
        for value in range(200):
            caller.run(value)

    threads = [threading.Thread(target=run, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    admission = server.handler.admission
    assert native(server) > 800
    assert admission.executions == 1600
    assert (admission.gate.running, admission.gate.waiting) == (0, 0)


@pytest.fixture
def held(server: DeviceServer) -> HeldGate:
    return HeldGate(server.handler.admission.gate)


def rings_of_their_own(held: HeldGate, runs: Mapping[str, tuple[PreparedModel, Request]]) -> None:
    """Runs requests until each has a ring that native code serves, apart from those of the others.

    Those that native code serves wait, and keep their rings; Python runs the others on further
    ones.
    """

    def wait() -> bool:
        held.hold()
        threads = [Run(*each) for each in runs.values()]
        wait_until(lambda: held.waiting + sum(not thread.is_alive() for thread in threads) == len(threads))
        all_wait = held.waiting == len(threads)
        held.release()
        for thread in threads:
            thread.join(60)
            assert thread.error is None
        return all_wait

    assert any(wait() for _ in range(2 * len(runs))), "requests share rings"
    held.hold()


def test_the_client_with_the_least_time_is_next(
    server: DeviceServer, remote: RemoteDevice, held: HeldGate
) -> None:
    """The third execution of a client waits for the first one of another, which came later."""
    other = connect(str(server.address))
    try:
        crowd = remote.prepare_model(slow(256), PrepareOptions())
        honest = other.prepare_model(slow(256), PrepareOptions())
        runs = {name: (crowd, slow_request(256)) for name in ("first", "second", "third")}
        runs["honest"] = (honest, slow_request(256))
        rings_of_their_own(held, runs)
        threads = {}
        for number, (name, each) in enumerate(runs.items(), 1):
            threads[name] = Run(*each)
            wait_until(lambda number=number: held.waiting == number)  # type: ignore[misc]
        held.release()
        for thread in threads.values():
            thread.join(60)
            assert thread.error is None
    finally:
        other.close()
    ended = sorted(threads, key=lambda name: threads[name].ended_s)
    assert ended.index("honest") < ended.index("third")


def test_clients_are_charged_with_the_time_of_processors(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More executions than processors wait for each other, for which nobody pays."""
    monkeypatch.setattr(native_executions, "_MAX_NATIVE_S", 1000.0)
    gate, count = server.handler.admission.gate, 3 * (os.cpu_count() or 1)
    gate._number("LIMIT").value = count
    # One takes longer than threads may run before others of the processor have their turn.
    prepared = remote.prepare_model(slow(256, 200), PrepareOptions())
    wanted = [slow_request(256) for _ in range(count)]
    for _ in range(4):
        threads = [Run(prepared, each) for each in wanted]
        for thread in threads:
            thread.join(60)
            assert thread.error is None
    charged_s = sum(share.used_s for share in gate._users.values())
    assert 0 < charged_s < 0.9 * gate.busy_s


def test_rings_and_executions_of_python_share_the_slots(server: DeviceServer, remote: RemoteDevice) -> None:
    """Together they never exceed the slots of the device and its guests, and all of them run."""
    admission = server.handler.admission
    gate = admission.gate
    most = gate._number("MOST").value
    runs = {"python": 0, "native": 0}
    #: How many ran when none of Python began or ended while they were counted.
    found: list[int] = []
    prepared = remote.prepare_model(slow(128, 10), PrepareOptions())
    prepared.execute(slow_request(128), RUN)
    begun_s = time.monotonic()

    def is_over() -> bool:
        """Returns whether all have run for long enough; on a busy machine, some begin late."""
        after_s = time.monotonic() - begun_s
        have_run = bool(found) and min(runs.values()) > 0 and gate.executions > most
        return after_s >= 0.5 and (have_run or after_s >= 60)

    def run_python() -> None:
        session = server.handler.sessions.open()
        while not is_over():
            with admission.execution(session, RUN, Priority.MEDIUM):
                time.sleep(2e-3)
            runs["python"] += 1

    def run_native() -> None:
        wanted = slow_request(128)
        while not is_over():
            prepared.execute(wanted, RUN)
            runs["native"] += 1

    def count() -> None:
        while not is_over():
            before = runs["python"]
            counted = gate.taken
            time.sleep(2e-4)
            if gate.taken == counted and runs["python"] == before:
                found.append(counted)

    threads = [threading.Thread(target=target) for target in (*[run_python, run_native] * 2 * most, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert max(found) <= most
    assert min(runs.values()) > 0
    assert gate.executions > most, "native code has run some"
    wait_until(lambda: gate.taken == 0)  # slots are given back after the replies


@pytest.fixture
def waiting(remote: RemoteDevice, held: HeldGate) -> Callable[[Caller], Run]:
    """Returns a function that begins an execution, which waits until `held.release`."""

    def begin(caller: Caller, options: ExecuteOptions = RUN) -> Run:
        held.hold()
        thread = Run(caller.prepared, caller.request, options)
        wait_until(lambda: held.waiting == 1)
        return thread

    return begin


def runners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "neurald runner"]


def test_a_runner_runs_what_waits(
    server: DeviceServer, remote: RemoteDevice, held: HeldGate, waiting: Callable[[Caller], Run]
) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    caller.run(0)
    for value in range(5):
        caller.values[:] = value
        thread = waiting(caller)
        held.release()
        thread.join(60)
        assert thread.error is None
        assert caller.result.tolist() == [value + 1] * 3
        caller.run(value)
    assert native(server) == 10
    wait_until(lambda: not runners())
    thread = waiting(caller)
    assert runners(), "they come back"
    held.release()
    thread.join(60)
    assert native(server) == 11


def test_without_runners_python_goes_on(
    server: DeviceServer, remote: RemoteDevice, held: HeldGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "neurald runner":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    held.hold()
    for value in range(3):
        caller.run(value)
    assert server.handler.admission.gate.executions == 0
    held.release()
    caller.run(3)
    assert native(server) == 1


def test_what_waits_can_be_cancelled(
    server: DeviceServer, remote: RemoteDevice, held: HeldGate, waiting: Callable[..., Run]
) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    caller.run(0)
    cancellation = Cancellation()
    thread = waiting(caller, ExecuteOptions(cancellation=cancellation))
    cancellation.cancel()
    thread.join(60)
    assert isinstance(thread.error, Cancelled)
    wait_until(lambda: held.waiting == 0)
    held.release()
    caller.run(1)


@pytest.mark.parametrize("gone", ["client", "session", "model"])
def test_what_waits_ends_with_its_client(
    server: DeviceServer,
    remote: RemoteDevice,
    held: HeldGate,
    waiting: Callable[[Caller], Run],
    gone: str,
    ring_count: Callable[[], int],
) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    caller.run(0)
    thread = waiting(caller)
    executions = server.handler.admission.gate.executions
    (session,) = server.handler.sessions.all()
    if gone == "client":
        remote.close()
    elif gone == "session":
        server.handler.sessions.close(session)
    else:
        (number,) = session.models._models._objects
        session.models.release(number)
        held.release()
        thread.join(60)
        assert thread.error is None, "it was under way"
        with pytest.raises(BadData, match="prepared model"):
            caller.run(1)
        return
    wait_until(lambda: held.waiting == 0 and ring_count() == 0)
    thread.join(60)
    assert server.handler.admission.gate.executions == executions, "native code let it wait"
    # What waited is left to Python, which may run it before it notices that the client has gone.
    assert thread.error is None or isinstance(thread.error, DeadObject)
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, NativeRing)]


def test_python_reports_what_is_wrong_with_what_has_waited(
    server: DeviceServer, remote: RemoteDevice, held: HeldGate
) -> None:
    gatherer = Gatherer(remote.prepare_model(gather(), PrepareOptions()))
    gatherer.run(0)
    for number in range(3):
        held.hold()
        gatherer.places[:] = LENGTH
        thread = Run(gatherer.prepared, gatherer.request)
        wait_until(lambda: held.waiting == 1)
        held.release()
        thread.join(60)
        assert isinstance(thread.error, OpFailed)
        gatherer.run(number)
        gatherer.run(number)
    assert native(server) == 3
    wait_until(lambda: server.handler.admission.calls == 0)


@pytest.mark.timed
def test_a_runner_that_hangs_is_replaced(server: DeviceServer, remote: RemoteDevice, held: HeldGate) -> None:
    """The client whose execution hangs is told; others go on meanwhile."""
    other = connect(str(server.address))
    admission = server.handler.admission
    watchdog = admission._watchdog
    limit_s = watchdog._limit_s
    # Before the first execution, since the watchdog may sleep for a former interval once more.
    watchdog._interval_s = 0.001
    try:
        caller = Caller(other.prepare_model(addition(ONES), PrepareOptions()))
        hanging = remote.prepare_model(slow(), PrepareOptions()), slow_request()
        caller.run(0)
        hanging[0].execute(hanging[1], RUN)
        held.hold()
        thread = Run(*hanging)
        wait_until(lambda: held.waiting == 1)
        watchdog._limit_s = 0.0  # each execution hangs from now on
        held.release()
        wait_until(lambda: len(server.handler.sessions.all()) == 1)
        watchdog._limit_s = limit_s
        for value in range(20):
            caller.run(value)
        thread.join(60)
        assert isinstance(thread.error, DeadObject)
        wait_until(lambda: not admission.is_hanging and admission.calls == 0)
        held.hold()
        thread = Run(caller.prepared, caller.request)
        wait_until(lambda: held.waiting == 1)
        held.release()
        thread.join(60)
        assert thread.error is None
    finally:
        other.close()

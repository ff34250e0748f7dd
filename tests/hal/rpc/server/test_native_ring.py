"""Rings that native code serves: the same results, errors and limits as with Python."""

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.native_calls import Caller, Gatherer, gather, native, run_often, slow, slow_request
from support.models.addition import addition, request
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances import served_calls
from neurald.drivers.cpu.native.instances.instance import Instance
from neurald.drivers.cpu.native.instances.served_instances import ServedInstances
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, DeadObject, ResourceExhaustedTransient
from neurald.hal.execution.native_serving import ARMED, WITHDRAWN
from neurald.hal.model.types import Priority
from neurald.hal.process.address import Address
from neurald.hal.process.threads.processors import PROCESSORS
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.server import native_executions
from neurald.hal.rpc.server.native_ring import NativeRing
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.ring_end import STORES_IN_ORDER, RingEnd
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in

pytestmark = pytest.mark.skipif(not STORES_IN_ORDER, reason="native code serves no rings on this machine")

RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)


@pytest.fixture
def server(native_server: DeviceServer) -> DeviceServer:
    return native_server


def test_repeated_executions_need_no_python(server: DeviceServer, remote: RemoteDevice) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(50):
        caller.run(value)
    assert native(server) == 49, "the first one is checked by Python"
    admission = server.handler.admission
    assert admission.executions == 50
    assert admission.busy_s > 0
    assert admission.calls == 0


def test_executions_go_on_where_a_driver_fails_to_say_what_native_code_would_run(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a mistake of the driver")

    monkeypatch.setattr(CpuPreparedModel, "create_native_call", fail)
    prepared = remote.prepare_model(addition(ONES), PrepareOptions())
    assert isinstance(prepared, RemotePreparedModel)
    caller = Caller(prepared)
    caller.run(0)
    rings = list(prepared.connection.rings._open)
    for value in range(5):
        caller.run(value)
    assert list(prepared.connection.rings._open) == rings, "each execution has ended its ring"
    assert native(server) == 0


def test_traced_executions_need_no_python(server: DeviceServer, remote: RemoteDevice) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(5):
        caller.run(value)
    with nd.trace() as trace:
        for value in range(20):
            caller.run(value)
    caller.run(7)
    assert native(server) == 25
    drivers = [span for span in trace.spans if (span.category, span.name) == ("daemon", "driver")]
    waits = [span for span in trace.spans if span.name == "wait for the daemon"]
    assert len(drivers) == len(waits) == 20
    assert {span.process for span in drivers} == {os.getpid()}
    for inner, outer in zip(drivers, waits, strict=True):
        assert outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns


@pytest.mark.parametrize(
    ("processors", "polls", "is_alone"), [(2, True, True), (3, True, False), (3, False, True)]
)
def test_short_calls_run_alone_where_other_threads_cannot_poll(
    monkeypatch: pytest.MonkeyPatch, processors: int, polls: bool, is_alone: bool
) -> None:
    prepared = CpuDevice().prepare_model(addition(ONES), PrepareOptions(threads=2))
    assert isinstance(prepared, CpuPreparedModel)
    call = prepared.create_native_call(request(ONES, np.empty_like(ONES)))
    assert call is not None
    assert call.alone is not None
    monkeypatch.setattr(PROCESSORS, "count", processors)
    used = call.for_ring(polls=polls)
    assert used.instances == (call.alone() if is_alone else call).instances
    assert used.for_ring(polls=polls) is used


@pytest.mark.parametrize("processors", [2, 3])
def test_the_threads_of_executions_leave_clients_a_processor(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    found: list[bool] = []
    create = served_calls._new_instance

    def noting(make: Callable[[], object], *, is_alone: bool) -> Instance:
        found.append(is_alone)
        return create(make, is_alone=is_alone)

    monkeypatch.setattr(served_calls, "_new_instance", noting)
    monkeypatch.setattr(PROCESSORS, "count", processors)
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions(threads=2)))
    for value in range(5):
        caller.run(value)
    assert native(server) == 4
    assert found[-1] == (processors == 2)


def test_several_requests_and_models_take_turns(server: DeviceServer, remote: RemoteDevice) -> None:
    callers = [
        Caller(remote.prepare_model(addition(np.ones(length, np.float32)), PrepareOptions()), length)
        for length in (1, 3, 700)
        for _ in range(2)
    ]
    for value in range(20):
        for caller in callers:
            caller.run(value)
    assert native(server) >= 20 * len(callers) - 3 * len(callers)


@pytest.mark.parametrize(
    "options",
    [ExecuteOptions(measure=True), ExecuteOptions(deadline_s=deadline_in(3600.0))],
    ids=["measured", "limited"],
)
def test_unusual_executions_are_left_to_python(
    server: DeviceServer, remote: RemoteDevice, options: ExecuteOptions
) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(5):
        caller.run(value)
    before = native(server)
    for value in range(5):
        caller.run(value, options)
    assert native(server) == before
    caller.run(1)
    assert native(server) == before + 1


def test_other_priorities_are_left_to_python(server: DeviceServer, remote: RemoteDevice) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions(priority=Priority.HIGH)))
    for value in range(5):
        caller.run(value)
    assert native(server) == 0


def test_models_that_do_not_tolerate_changes_get_copies(server: DeviceServer, remote: RemoteDevice) -> None:
    gatherer = Gatherer(remote.prepare_model(gather(), PrepareOptions()))
    for number in range(20):
        gatherer.run(number)
    assert native(server) == 19


def test_python_reports_what_is_wrong(server: DeviceServer, remote: RemoteDevice) -> None:
    gatherer = Gatherer(remote.prepare_model(gather(), PrepareOptions()))
    for number in range(5):
        gatherer.run(number)
        gatherer.run(number)
        gatherer.fail()
    assert native(server) == 5
    assert server.handler.admission.calls == 0


def test_a_cancelled_execution_ends(server: DeviceServer, remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(slow(), PrepareOptions())
    wanted = slow_request()
    prepared.execute(wanted, RUN)
    prepared.execute(wanted, RUN)
    assert native(server) == 1
    cancellation = Cancellation()
    gate = server.handler.admission.gate

    def cancel() -> None:
        wait_until(lambda: gate.running)
        cancellation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled):
        run_often(prepared, wanted, ExecuteOptions(cancellation=cancellation))
    thread.join()
    wait_until(lambda: server.handler.admission.calls == 0)
    prepared.execute(wanted, RUN)


def test_a_released_model_is_freed_at_once(server: DeviceServer, remote: RemoteDevice) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(5):
        caller.run(value)
    (session,) = server.handler.sessions.all()
    (number,) = session.models._models._objects
    freed = weakref.ref(session.models.find(number).prepared_model)
    session.models.release(number)
    assert freed() is None, "native code that waits for the client does not keep it"
    with pytest.raises(BadData, match="prepared model"):
        caller.run(1)
    other = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    before = native(server)
    for value in range(5):
        other.run(value)
    assert native(server) == before + 4


def test_a_late_withdrawal_keeps_what_the_next_call_needs(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that released a model stops where it has withdrawn its call but keeps it."""
    added: list[tuple[NativeRing, tuple[Any, ...]]] = []
    add: Callable[..., None] = NativeRing.add

    def noted(self: NativeRing, *given: Any) -> None:
        added.append((self, given[:-1]))  # without the owner
        add(self, *given)

    class Owner:
        pass

    monkeypatch.setattr(NativeRing, "add", noted)
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(3):
        caller.run(value)
    # The thread of the ring sleeps in Python, so that another one can play its part.
    wait_until(lambda: not server.handler.admission._watchdog._native)
    ((ring, (number, *given)),) = added
    withdraw, next_owners = ring._withdraw_call, [Owner()]

    def stopped(address: int) -> int:
        withdrawn: int = withdraw(address)
        ring._withdraw_call = withdraw
        add(ring, number, *given, next_owners[0])
        return withdrawn

    ring._withdraw_call = stopped
    (session,) = server.handler.sessions.all()
    (handle,) = session.models._models._objects
    session.models.release(handle)
    assert ring._withdraw_call is withdraw, "the model was released"
    assert ring._state_of(number).value == ARMED
    assert ring.may_run(number)
    next_owners.clear()
    gc.collect()
    assert not ring.may_run(number)
    assert ring._state_of(number).value == WITHDRAWN


def test_packets_that_are_announced_early_do_not_keep_python(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon may look at the ring, and read other packets, before a packet is sent."""
    announce = RingEnd.announce_packet

    def announce_early(self: RingEnd) -> None:
        announce(self)
        time.sleep(0.01)

    monkeypatch.setattr(RingEnd, "announce_packet", announce_early)
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(10):
        caller.run(value)
    assert native(server) == 9


def test_an_execution_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_executions, "_MAX_NATIVE_S", 1000.0)
    device = CpuDevice()
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remote = connect(str(server.address))
    try:
        prepared = remote.prepare_model(slow(), PrepareOptions())
        wanted = slow_request()
        prepared.execute(wanted, RUN)
        admission = server.handler.admission
        admission._watchdog._limit_s = 0.0  # each execution hangs from now on
        admission._watchdog._interval_s = 0.001
        with pytest.raises(DeadObject, match="hangs"):
            run_often(prepared, wanted, RUN)
        wait_until(lambda: not admission.is_hanging and admission.calls == 0)
        # The session ends a little after the call that hung.
        wait_until(lambda: not server.handler.sessions.all())
    finally:
        remote.close()
        server.stop()


def test_a_daemon_that_is_about_to_stop_refuses_executions(
    server: DeviceServer, remote: RemoteDevice
) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(5):
        caller.run(value)
    before = native(server)
    assert server.handler.admission.drain(10.0, lambda: False)
    with pytest.raises(DeadObject, match="about to stop"):
        caller.run(1)
    assert native(server) == before


@pytest.mark.parametrize("gone", ["client", "session"])
def test_rings_end_with_their_clients(
    server: DeviceServer, remote: RemoteDevice, gone: str, ring_count: Callable[[], int]
) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(5):
        caller.run(value)
    assert ring_count() == 1
    if gone == "client":
        remote.close()
    else:
        (session,) = server.handler.sessions.all()
        server.handler.sessions.close(session)
    wait_until(lambda: ring_count() == 0)

    def are_freed() -> bool:
        """Returns whether there are no rings; those of earlier tests may be about to end."""
        gc.collect()
        return not any(isinstance(each, NativeRing) for each in gc.get_objects())

    wait_until(are_freed)


def test_without_memory_for_an_instance_python_goes_on(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: ServedInstances) -> None:
        raise ResourceExhaustedTransient("no memory")

    monkeypatch.setattr(ServedInstances, "grow", refuse)
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(5):
        caller.run(value)
    assert native(server) == 0
    assert server.handler.admission.executions == 5

"""Rings that native code serves: the same results, errors and limits as with Python."""

import ctypes
import gc
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.addition import addition, request
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances.served_instances import ServedInstances
from neurald.drivers.cpu.native.programs.step_program import futex_number
from neurald.hal.admission.native_gate import NativeGate
from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, DeadObject, OpFailed, ResourceExhaustedTransient
from neurald.hal.execution.native_serving import ARMED, GATE, WITHDRAWN
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.model.types import Lifetime, OperandType, Priority
from neurald.hal.process.address import Address
from neurald.hal.records import replace
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server import ring_server
from neurald.hal.rpc.server.native_ring import NativeRing
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.ring_end import STORES_IN_ORDER, RingEnd
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in

pytestmark = pytest.mark.skipif(not STORES_IN_ORDER, reason="native code serves no rings on this machine")

RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)
LENGTH = 8


@pytest.fixture(autouse=True)
def any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets native code run every model, however long its first execution takes."""
    monkeypatch.setattr(ring_server, "_MAX_NATIVE_S", 1000.0)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceServer]:
    # Tests fill all slots, however many processors the machine has.
    monkeypatch.setattr(CpuDevice, "executions_at_once", 2)
    server = DeviceServer(CpuDevice(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()


def gather() -> Model:
    """Creates a model that reads elements of its first input, at the places in the second one."""
    operands = (
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(LENGTH,), lifetime=Lifetime.SUBGRAPH_INPUT),
        Operand(type=OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY, value=bytes(4)),
        Operand(type=OperandType.TENSOR_INT32, dimensions=(LENGTH,), lifetime=Lifetime.SUBGRAPH_INPUT),
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(LENGTH,), lifetime=Lifetime.SUBGRAPH_OUTPUT),
    )
    operation = Operation(type=OperationType.GATHER, inputs=(0, 1, 2), outputs=(3,))
    return Model(main=Subgraph(operands=operands, operations=(operation,), inputs=(0, 2), outputs=(3,)))


def slow(size: int = 512, repeats: int = 40) -> Model:
    """Creates a model that multiplies matrices for a while."""
    kind = OperandType.TENSOR_FLOAT32
    operands = [Operand(type=kind, dimensions=(size, size), lifetime=Lifetime.SUBGRAPH_INPUT)]
    no = Operand(type=OperandType.BOOL, lifetime=Lifetime.CONSTANT_COPY, value=bytes(1))
    operands += [no, no]
    operations, last = [], 0
    for number in range(repeats):
        is_end = number == repeats - 1
        lifetime = Lifetime.SUBGRAPH_OUTPUT if is_end else Lifetime.TEMPORARY_VARIABLE
        operands.append(Operand(type=kind, dimensions=(size, size), lifetime=lifetime))
        product = len(operands) - 1
        operations.append(
            Operation(type=OperationType.BATCH_MATMUL, inputs=(last, 0, 1, 2), outputs=(product,))
        )
        last = product
    return Model(
        main=Subgraph(operands=tuple(operands), operations=tuple(operations), inputs=(0,), outputs=(last,))
    )


def slow_request(size: int = 512) -> Request:
    """Creates a request for `slow`."""
    return request(np.zeros((size, size), np.float32), np.zeros((size, size), np.float32))


def run_often(prepared: PreparedModel, wanted: Request, options: ExecuteOptions) -> None:
    for _ in range(1000):
        prepared.execute(wanted, options)


class Caller:
    """Runs one request again and again."""

    def __init__(self, prepared: PreparedModel, length: int = 3) -> None:
        self.values, self.result = np.zeros(length, np.float32), np.zeros(length, np.float32)
        self.request = request(self.values, self.result)
        self._prepared = prepared

    def run(self, value: float, options: ExecuteOptions = RUN) -> None:
        self.values[:] = value
        assert self._prepared.execute(self.request, options).is_sufficient
        assert self.result.tolist() == [value + 1] * len(self.result)


def native(server: DeviceServer) -> int:
    """Returns how many executions native code has run. It replies before it counts."""
    wait_until(lambda: server.handler.admission.calls == 0)
    return server.handler.admission.gate.executions


def test_repeated_executions_need_no_python(server: DeviceServer, remote: RemoteDevice) -> None:
    caller = Caller(remote.prepare_model(addition(ONES), PrepareOptions()))
    for value in range(50):
        caller.run(value)
    assert native(server) == 49, "the first one is checked by Python"
    admission = server.handler.admission
    assert admission.executions == 50
    assert admission.busy_s > 0
    assert admission.calls == 0


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


class Gatherer:
    """Gathers elements, which are at valid places or not."""

    def __init__(self, prepared: PreparedModel) -> None:
        self._prepared = prepared
        self.values, self.places = np.zeros(LENGTH, np.float32), np.zeros(LENGTH, np.int32)
        self._result = np.zeros(LENGTH, np.float32)
        of_values, of_places = request(self.values, self._result), request(self.places, self._result)
        self.request = Request(
            inputs=(of_values.inputs[0], replace(of_places.inputs[0], pool=2)),
            outputs=of_values.outputs,
            pools=(*of_values.pools, of_places.pools[0]),
        )

    def run(self, first: int, options: ExecuteOptions = RUN) -> None:
        self.values[:] = np.random.default_rng(first).random(LENGTH)
        self.places[:] = (np.arange(LENGTH) * 3 + first) % LENGTH
        self._prepared.execute(self.request, options)
        assert self._result.tolist() == self.values[self.places].tolist()

    def fail(self) -> None:
        self.places[:] = LENGTH
        with pytest.raises(OpFailed, match="GATHER"):
            self._prepared.execute(self.request, RUN)


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
    (number,) = session._models._objects
    freed = weakref.ref(session.model(number).prepared_model)
    session.release_model(number)
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
    (handle,) = session._models._objects
    session.release_model(handle)
    assert ring._withdraw_call is withdraw, "the model was released"
    assert ring._state_of(number).value == ARMED
    assert ring.may_run(number)
    next_owners.clear()
    gc.collect()
    assert not ring.may_run(number)
    assert ring._state_of(number).value == WITHDRAWN


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


class HeldGate:
    """Lets native code run one execution at a time, which seems to be under way until `release`."""

    def __init__(self, gate: NativeGate) -> None:
        self._gate = gate
        gate._number("LIMIT").value = 1

    @property
    def waiting(self) -> int:
        return self._gate.waiting

    def hold(self) -> None:
        # Native code replies before it counts.
        wait_until(lambda: self._gate.running == 0)
        self._gate._number("RUNNING").value = 1

    def release(self) -> None:
        """Lets the next execution run, and wakes a runner for it."""
        self._gate._number("RUNNING").value = 0
        self._gate._number("READY").value += 1
        number = futex_number(platform.machine())
        ctypes.CDLL(None).syscall(
            ctypes.c_long(number), ctypes.c_void_p(self._gate.address + GATE["READY"]), 129, 1
        )


@pytest.fixture
def held(server: DeviceServer) -> HeldGate:
    return HeldGate(server.handler.admission.gate)


class Run(threading.Thread):
    """Runs a request once, in a thread of its own."""

    def __init__(self, prepared: PreparedModel, wanted: Request, options: ExecuteOptions = RUN) -> None:
        super().__init__()
        self._prepared, self._wanted, self._options = prepared, wanted, options
        self.error: BaseException | None = None
        self.ended_s = 0.0
        self.start()

    def run(self) -> None:
        try:
            self._prepared.execute(self._wanted, self._options)
        except BaseException as error:
            self.error = error
        self.ended_s = time.monotonic()


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
    monkeypatch.setattr(ring_server, "_MAX_NATIVE_S", 1000.0)
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
    end_s = time.monotonic() + 0.5

    def run_python() -> None:
        session = server.handler.sessions.open()
        while time.monotonic() < end_s:
            with admission.execution(session, RUN, Priority.MEDIUM):
                time.sleep(2e-3)
            runs["python"] += 1

    def run_native() -> None:
        wanted = slow_request(128)
        while time.monotonic() < end_s:
            prepared.execute(wanted, RUN)
            runs["native"] += 1

    def count() -> None:
        while time.monotonic() < end_s:
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


# Executions that are left to runners


@pytest.fixture
def waiting(remote: RemoteDevice, held: HeldGate) -> Callable[[Caller], Run]:
    """Returns a function that begins an execution, which waits until `held.release`."""

    def begin(caller: Caller, options: ExecuteOptions = RUN) -> Run:
        held.hold()
        thread = Run(caller._prepared, caller.request, options)
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
        (number,) = session._models._objects
        session.release_model(number)
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
        thread = Run(gatherer._prepared, gatherer.request)
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
        thread = Run(caller._prepared, caller.request)
        wait_until(lambda: held.waiting == 1)
        held.release()
        thread.join(60)
        assert thread.error is None
    finally:
        other.close()


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


def test_an_execution_that_hangs_is_given_up(tmp_path: Path) -> None:
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
        assert not server.handler.sessions.all()
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
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, NativeRing)]


@pytest.fixture
def ring_count() -> Callable[[], int]:
    # Their numbers may be used again.
    before = set(threading.enumerate())

    def count() -> int:
        return sum(thread.name == "neurald ring" and thread not in before for thread in threading.enumerate())

    return count


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

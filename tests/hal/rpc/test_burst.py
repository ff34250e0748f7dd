"""Bursts between a client and a daemon that both keep the protocol."""

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.peer import session_of
from support.daemon.ring_calls import expect_cancelled, request_of_other_memory
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    BadState,
    Cancelled,
    DeadObject,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
    Unmappable,
)
from neurald.hal.execution.in_process import InProcessBurst
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.burst import RemoteBurst
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.rings import ring
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport import ring_end
from neurald.hal.rpc.transport.ring_packet import MAX_REQUESTS, MAX_SLOTS

NOW = PrepareOptions()
RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)


@pytest.fixture
def burst(prepared: RemotePreparedModel) -> Iterator[RemoteBurst]:
    burst = burst_of(prepared)
    yield burst
    burst.close()


def burst_of(prepared: RemotePreparedModel) -> RemoteBurst:
    burst = prepared.create_burst()
    assert isinstance(burst, RemoteBurst)
    return burst


class Shared:
    """A request for three values in shared memory, with inputs and outputs in one memory."""

    def __init__(self) -> None:
        memory = SharedMemory.create(1024)
        view = np.frombuffer(memory.view(), np.float32)
        self.values, self.result = view[:3], view[64:67]
        self.request = Request(
            inputs=(Argument(pool=0, length=12),),
            outputs=(Argument(pool=0, offset=256, length=12),),
            pools=(memory,),
        )


@pytest.mark.parametrize("in_order", [True, False])
def test_arrays_are_copied_in_and_out(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    monkeypatch.setattr(ring_end, "STORES_IN_ORDER", in_order)
    burst = burst_of(prepared)
    values, result = np.zeros(3, np.float32), np.zeros(3, np.float32)
    wanted = request(values, result)
    for number in range(20):
        values[:] = number
        assert burst.execute(wanted, RUN).output_shapes[0].dimensions == (3,)
        assert result.tolist() == [number + 1] * 3
    burst.close()


@pytest.mark.parametrize("tolerant", [True, False])
def test_shared_memory_stays_where_it_is(
    prepared: RemotePreparedModel, device: AddingDevice, monkeypatch: pytest.MonkeyPatch, tolerant: bool
) -> None:
    seen: list[Memory] = []
    device.on_execute = lambda request, options: seen.extend(request.pools)
    monkeypatch.setattr("support.models.addition.AddingPreparedModel.tolerates_changing_inputs", tolerant)
    burst, shared = burst_of(prepared), Shared()
    for number in range(5):
        shared.values[:] = number
        burst.execute(shared.request, RUN)
        assert shared.result.tolist() == [number + 1] * 3
    # The device gets what the client can write only if that may change under it.
    assert {isinstance(pool, SharedMemory) for pool in seen} == {tolerant}
    burst.close()


def test_a_hundred_runs_give_each_memory_once_and_make_no_call(
    remote: RemoteDevice, burst: RemoteBurst, server: DeviceServer, traffic: Traffic
) -> None:
    shared, other = Shared(), Shared()
    messages = traffic.messages_sent
    session = session_of(server)
    for _ in range(100):
        burst.execute(shared.request, RUN)
        burst.execute(other.request, RUN)
    assert burst.slots_assigned == 2
    assert traffic.messages_sent == messages
    held = len(session.memories)
    for _ in range(100):
        # Equal arguments in the same memory are the same request.
        again = Request(
            inputs=shared.request.inputs, outputs=shared.request.outputs, pools=shared.request.pools
        )
        burst.execute(again, RUN)
    assert (burst.slots_assigned, len(session.memories)) == (2, held)


def test_arrays_share_one_arena(burst: RemoteBurst) -> None:
    for size in (3, 3, 3):
        result = np.zeros(size, np.float32)
        burst.execute(request(np.full(size, 4, np.float32), result), RUN)
        assert result.tolist() == [5] * size
    assert burst.slots_assigned == 1


def test_a_larger_request_gets_a_larger_arena(remote: RemoteDevice, server: DeviceServer) -> None:
    prepared = remote.prepare_model(addition(np.ones((1, 4)), dynamic=True), NOW)
    burst = burst_of(prepared)
    requests = []
    for rows in (1, 1000, 1, 20000, 5):
        values, result = np.full((rows, 4), rows, np.float32), np.zeros((rows, 4), np.float32)
        requests.append((request(values, result), result))
    for _ in range(2):
        for wanted, result in requests:
            result[:] = 0
            burst.execute(wanted, RUN)
            assert np.all(result == len(result) + 1)
    session = session_of(server)
    wait_until(lambda: len(session.memories) <= 3)  # the model's constants and an arena at each end
    burst.close()


def test_memory_may_be_freed_before_the_burst(burst: RemoteBurst, server: DeviceServer) -> None:
    session = session_of(server)
    before = len(session.memories)
    shared = Shared()
    burst.execute(shared.request, RUN)
    assert len(session.memories) > before
    arena = len(session.memories) - before - 1
    del shared
    gc.collect()
    wait_until(lambda: len(session.memories) == before + arena)
    shared = Shared()
    shared.values[:] = 7
    burst.execute(shared.request, RUN)
    assert shared.result.tolist() == [8, 8, 8]


def test_the_burst_may_be_freed_before_memory(prepared: RemotePreparedModel, server: DeviceServer) -> None:
    session = session_of(server)
    before, shared = len(session.memories), Shared()
    burst = burst_of(prepared)
    burst.execute(shared.request, RUN)
    burst.close()
    wait_until(lambda: len(session.memories) == before)
    with pytest.raises(DeadObject):
        burst.execute(shared.request, RUN)
    burst = burst_of(prepared)
    burst.execute(shared.request, RUN)
    del burst
    gc.collect()
    wait_until(lambda: len(session.memories) == before)
    assert prepared.execute(shared.request, RUN).is_sufficient


def test_more_memories_than_slots(burst: RemoteBurst, server: DeviceServer) -> None:
    shared = [Shared() for _ in range(MAX_SLOTS + 20)]
    for _ in range(2):
        for number, each in enumerate(shared):
            each.values[:] = number
            burst.execute(each.request, RUN)
            assert each.result.tolist() == [number + 1] * 3
    session = session_of(server)
    wait_until(lambda: len(session.memories) <= MAX_SLOTS + 2)


def test_more_requests_than_are_kept(burst: RemoteBurst) -> None:
    memory = SharedMemory.create(1 << 16)
    view = np.frombuffer(memory.view(), np.float32)
    requests = [
        Request(
            inputs=(Argument(pool=0, offset=64 * n, length=12),),
            outputs=(Argument(pool=0, offset=64 * n + 32, length=12),),
            pools=(memory,),
        )
        for n in range(MAX_REQUESTS + 10)
    ]
    for _ in range(2):
        for number, each in enumerate(requests):
            view[16 * number : 16 * number + 3] = number
            burst.execute(each, RUN)
            assert view[16 * number + 8] == number + 1
    assert burst.slots_assigned == 1


def test_shapes_that_change_and_outputs_that_are_too_small(remote: RemoteDevice) -> None:
    burst = burst_of(remote.prepare_model(addition(np.ones((1, 2)), dynamic=True), NOW))
    result = np.zeros((2, 2), np.float32)
    for rows in (1, 3, 2, 3, 3, 2, 2, 1):
        answer = burst.execute(request(np.full((rows, 2), rows, np.float32), result), RUN)
        assert answer.output_shapes[0].dimensions == (rows, 2)
        assert answer.is_sufficient == (rows <= 2)
        if rows <= 2:
            assert result[:rows].tolist() == [[rows + 1] * 2] * rows
    burst.close()


def test_errors_of_the_driver(burst: RemoteBurst, device: AddingDevice) -> None:
    shared = Shared()

    def fail(error: BaseException) -> None:
        def on_execute(*_: Any) -> None:
            raise error

        device.on_execute = on_execute

    fail(Unmappable("one of its own"))
    for _ in range(2):
        with pytest.raises(Unmappable, match="one of its own"):
            burst.execute(shared.request, RUN)
    for fault in (ValueError("a secret"), SystemExit("a secret"), KeyboardInterrupt("a secret")):
        fail(fault)
        with pytest.raises(OpFailed, match="log") as caught:
            burst.execute(shared.request, RUN)
        assert "secret" not in str(caught.value)
    fail(MemoryError())
    with pytest.raises(Exception, match="no memory left"):
        burst.execute(shared.request, RUN)
    device.on_execute = lambda *_: None
    assert burst.execute(shared.request, RUN).is_sufficient


def test_invalid_requests_are_refused_and_change_nothing(burst: RemoteBurst) -> None:
    shared = Shared()
    wrong = Request(
        inputs=(Argument(pool=0, length=16),), outputs=shared.request.outputs, pools=shared.request.pools
    )
    for _ in range(2):
        with pytest.raises(BadData, match="16 bytes"):
            burst.execute(wrong, RUN)
    assert burst.execute(shared.request, RUN).is_sufficient


def test_timing_is_told_when_asked_for(burst: RemoteBurst) -> None:
    shared = Shared()
    timing = burst.execute(shared.request, ExecuteOptions(measure=True)).timing
    assert (timing.on_device_ns, timing.in_driver_ns) == (1, 2)
    timing = burst.execute(shared.request, RUN).timing
    assert (timing.on_device_ns, timing.in_driver_ns) == (None, None)


def test_options_arrive(burst: RemoteBurst, device: AddingDevice) -> None:
    seen: list[ExecuteOptions] = []
    device.on_execute = lambda request, options: seen.append(options)
    shared, limit = Shared(), time.monotonic() + 60
    burst.execute(shared.request, ExecuteOptions(deadline_s=limit, loop_timeout_s=0.5, measure=True))
    burst.execute(shared.request, RUN)
    assert seen[0].deadline_s == pytest.approx(limit, abs=5)
    assert (seen[0].loop_timeout_s, seen[0].measure) == (0.5, True)
    assert (seen[1].deadline_s, seen[1].measure) == (None, False)


@pytest.mark.parametrize("left_s", [1e300, float("inf")])
def test_a_deadline_without_an_end_while_there_is_no_turn(
    remote: RemoteDevice,
    server: DeviceServer,
    device: AddingDevice,
    monkeypatch: pytest.MonkeyPatch,
    left_s: float,
) -> None:
    """The daemon waits for a slot as without a deadline, and returns every slot."""
    monkeypatch.setattr(ring, "_NO_LIMIT_S", left_s)
    prepared = remote.prepare_model(addition(np.ones(2, np.float32)), PrepareOptions())
    go_on = threading.Event()

    def wait(*_: object) -> None:
        assert go_on.wait(30)

    device.on_execute = wait
    bursts = [prepared.create_burst() for _ in range(6)]
    results = [np.zeros(2, np.float32) for _ in bursts]
    requests = [request(np.ones(2, np.float32), result) for result in results]
    threads = [
        threading.Thread(target=burst.execute, args=(each, ExecuteOptions()))
        for burst, each in zip(bursts, requests, strict=True)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.handler.admission.waiting == 2)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert [result.tolist() for result in results] == [[2, 2]] * 6
    # A client has its result a moment before its turn is given back.
    wait_until(lambda: not server.handler.admission.is_busy)
    for burst in bursts:
        burst.close()


def test_a_deadline_that_has_passed(burst: RemoteBurst) -> None:
    with pytest.raises(MissedDeadlinePersistent):
        burst.execute(Shared().request, ExecuteOptions(deadline_s=time.monotonic() - 1))


def test_a_deadline_that_the_driver_does_not_keep(burst: RemoteBurst, device: AddingDevice) -> None:
    proceed = threading.Event()

    def on_execute(*_: Any) -> None:
        assert proceed.wait(30)

    device.on_execute = on_execute
    values, result = np.full(3, 5, np.float32), np.zeros(3, np.float32)
    wanted = request(values, result)
    # Long enough to begin before it has passed, also on a busy machine.
    with pytest.raises(MissedDeadlineTransient):
        burst.execute(wanted, ExecuteOptions(deadline_s=time.monotonic() + 1.0))
    with pytest.raises(BadState, match="has not finished"):
        burst.execute(wanted, RUN)
    proceed.set()
    values[:] = 6

    def runs() -> bool:
        try:
            return burst.execute(wanted, RUN).is_sufficient
        except BadState:
            return False

    wait_until(runs)
    assert result.tolist() == [7, 7, 7]


def test_cancelling(burst: RemoteBurst, device: AddingDevice) -> None:
    shared = Shared()
    cancellation = expect_cancelled(device, lambda options: burst.execute(shared.request, options))
    assert burst.execute(shared.request, RUN).is_sufficient
    with pytest.raises(Cancelled):
        burst.execute(shared.request, ExecuteOptions(cancellation=cancellation))


def test_one_execution_at_a_time(burst: RemoteBurst, device: AddingDevice) -> None:
    shared, started, proceed = Shared(), threading.Event(), threading.Event()

    def on_execute(*_: Any) -> None:
        started.set()
        assert proceed.wait(30)

    device.on_execute = on_execute
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(burst.execute, shared.request, RUN)
        assert started.wait(60)
        with pytest.raises(BadState, match="one request at a time"):
            burst.execute(shared.request, RUN)
        proceed.set()
        assert run.result(60).is_sufficient


def test_bursts_side_by_side(remote: RemoteDevice) -> None:
    def run(number: int) -> bool:
        burst = burst_of(remote.prepare_model(addition(np.full(3, number)), NOW))
        shared = Shared()
        for value in range(50):
            shared.values[:] = value
            burst.execute(shared.request, RUN)
            if shared.result.tolist() != [value + number] * 3:
                return False
        burst.close()
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(run, range(6)))


def test_closing_ends_an_execution_under_way(burst: RemoteBurst, device: AddingDevice) -> None:
    started, proceed = threading.Event(), threading.Event()

    def on_execute(*_: Any) -> None:
        started.set()
        assert proceed.wait(30)

    device.on_execute = on_execute
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(burst.execute, Shared().request, RUN)
        assert started.wait(60)
        burst.close()
        with pytest.raises(DeadObject):
            run.result(60)
        proceed.set()
    burst.close()


def test_the_end_of_the_session_ends_its_bursts(
    remote: RemoteDevice, burst: RemoteBurst, server: DeviceServer
) -> None:
    burst.execute(Shared().request, RUN)
    remote.close()
    with pytest.raises(DeadObject):
        burst.execute(Shared().request, RUN)
    wait_until(lambda: not any(t.name == "neurald ring" for t in threading.enumerate()))
    wait_until(lambda: not server.handler.sessions.all())


def test_a_drain_lets_the_run_under_way_finish(
    burst: RemoteBurst, device: AddingDevice, server: DeviceServer
) -> None:
    shared, started, proceed = Shared(), threading.Event(), threading.Event()

    def on_execute(*_: Any) -> None:
        started.set()
        assert proceed.wait(30)

    device.on_execute = on_execute
    with ThreadPoolExecutor(2) as pool:
        run = pool.submit(burst.execute, shared.request, RUN)
        assert started.wait(60)
        drain = pool.submit(server.handler.admission.drain, 30.0, lambda: False)
        wait_until(lambda: "OFFLINE" in str(server.handler.get_status()))
        proceed.set()
        assert run.result(60).is_sufficient
        assert drain.result(60)
    with pytest.raises(DeadObject, match="about to stop"):
        burst.execute(shared.request, RUN)


def test_too_many_bursts(tmp_path: Path, device: AddingDevice) -> None:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/e.sock"), limits=Limits(bursts=2))
    server.start()
    remote = connect(str(server.address))
    prepared = remote.prepare_model(addition(ONES), NOW)
    bursts = [burst_of(prepared) for _ in range(2)]
    with pytest.raises(ResourceExhaustedTransient, match="2 rings"):
        prepared.create_burst()
    bursts.pop().close()

    def fits() -> bool:
        try:
            bursts.append(burst_of(prepared))
        except ResourceExhaustedTransient:
            return False
        return True

    wait_until(fits)
    for burst in bursts:
        burst.close()
    remote.close()
    server.stop()


def test_a_burst_that_no_thread_can_be_started_for(
    prepared: RemotePreparedModel, server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = server.handler.sessions.accounts.descriptors.used
    start = threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        if thread.name == "neurald ring":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(ResourceExhaustedTransient, match="can't start new thread"):
        prepared.create_burst()
    assert server.handler.sessions.accounts.descriptors.used == held
    monkeypatch.undo()
    burst = burst_of(prepared)  # the session is still there
    burst.close()


def test_more_memory_than_a_session_may_have(tmp_path: Path, device: AddingDevice) -> None:
    server = DeviceServer(
        device, Address.parse(f"unix://{tmp_path}/e.sock"), limits=Limits(memory_bytes=1 << 16)
    )
    server.start()
    remote = connect(str(server.address))
    burst = burst_of(remote.prepare_model(addition(ONES), NOW))
    large = SharedMemory.create(1 << 17)
    wanted = Request(
        inputs=(Argument(pool=0, length=12),),
        outputs=(Argument(pool=0, offset=64, length=12),),
        pools=(large,),
    )
    with pytest.raises(Exception, match="a session may have"):
        burst.execute(wanted, RUN)
    assert burst.execute(Shared().request, RUN).is_sufficient
    burst.close()
    remote.close()
    server.stop()


def test_memory_that_bursts_do_not_know_goes_by_a_call(
    remote: RemoteDevice, burst: RemoteBurst, traffic: Traffic
) -> None:
    result = np.zeros(3, np.float32)
    wanted = request_of_other_memory(result)
    messages = traffic.messages_sent
    assert burst.execute(wanted, RUN).is_sufficient
    assert result.tolist() == [2, 2, 2]
    assert traffic.messages_sent > messages


def test_elsewhere_every_execution_is_a_call(device: AddingDevice) -> None:
    server = DeviceServer(device, Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    burst = remote.prepare_model(addition(ONES), NOW).create_burst()
    assert isinstance(burst, InProcessBurst)
    result = np.zeros(3, np.float32)
    burst.execute(request(ONES, result), RUN)
    assert result.tolist() == [2, 2, 2]
    burst.close()
    remote.close()
    server.stop()

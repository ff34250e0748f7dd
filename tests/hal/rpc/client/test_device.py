"""A device behind a socket replaces one in this process: results, memory, deadlines, leaks."""

import gc
import itertools
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.traffic import Traffic
from support.models.addition import FLOAT, AddingDevice, addition, request, run_addition
from support.sweeps import sweep
from support.waiting import wait_until

import neurald.hal.model.constants as constants
from neurald._proto import device_pb2, types_pb2
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResourceExhaustedPersistent,
    UnavailableDevice,
)
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.graph import Location, Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.process.address import Address
from neurald.hal.registry import create_device
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.server.server import DeviceServer

NOW = PrepareOptions()
RUN = ExecuteOptions()


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


def serve(device: Any, place: str) -> DeviceServer:
    server = DeviceServer(device, Address.parse(place))
    server.start()
    return server


@pytest.fixture(params=["unix", "tcp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"unix://{tmp_path}/gpu0.sock" if request.param == "unix" else "127.0.0.1:0"


@pytest.fixture
def server(place: str, device: AddingDevice) -> Iterator[DeviceServer]:
    server = serve(device, place)
    yield server
    server.stop()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# The same as in this process


def test_it_says_what_the_device_says(remote: RemoteDevice, device: AddingDevice) -> None:
    where = "gpu0" if remote.address.startswith("unix:") else remote.address
    assert remote.name == f"adder@{where}"
    for name in ("type", "version", "feature_level", "extensions", "cache_files_needed"):
        assert getattr(remote, name) == getattr(device, name)
    assert remote.capabilities() == device.capabilities()
    assert remote.is_alive


@pytest.mark.parametrize("shape", [(1,), (2, 3), (1, 1, 1, 1), (7, 5, 3), (250, 400)])
def test_it_runs_models(remote: RemoteDevice, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    constant, values = rng.random((2, *shape), np.float32)
    model = addition(constant)
    assert [verdict.ok for verdict in remote.supported_operations(model)] == [True]
    prepared = remote.prepare_model(model, NOW)
    for _ in range(3):
        assert np.array_equal(run_addition(prepared, values), values + constant)
        values = values[::-1].copy()


def test_real_device_and_remote_agree(place: str) -> None:
    cpu = create_device("cpu")
    server = serve(cpu, place)
    remote = connect(str(server.address))
    rng = np.random.default_rng(2)
    model = addition(rng.random((3, 4), np.float32))
    values = rng.random((3, 4), np.float32)
    assert remote.supported_operations(model) == cpu.supported_operations(model)
    assert np.array_equal(
        run_addition(remote.prepare_model(model, NOW), values),
        run_addition(cpu.prepare_model(model, NOW), values),
    )
    remote.close()
    server.stop()


def test_measured_times_arrive(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones(3)), NOW)
    values = np.ones(3, np.float32)
    timing = prepared.execute(request(values, values.copy()), ExecuteOptions(measure=True)).timing
    assert (timing.on_device_ns, timing.in_driver_ns) == (1, 2)
    timing = prepared.execute(request(values, values.copy()), RUN).timing
    assert (timing.on_device_ns, timing.in_driver_ns) == (None, None)


def test_outputs_of_any_size(remote: RemoteDevice) -> None:
    constant = np.arange(12, dtype=np.float32).reshape(4, 3)
    prepared = remote.prepare_model(addition(constant, dynamic=True), NOW)
    values = constant[::-1].copy()
    room = np.full(20, np.nan, np.float32)
    answer = prepared.execute(request(values, room), RUN)
    assert answer.output_shapes[0].dimensions == (4, 3)
    assert np.array_equal(room[:12].reshape(4, 3), values + constant)
    assert np.isnan(room[12:]).all()
    small = np.full(11, np.nan, np.float32)
    answer = prepared.execute(request(values, small), RUN)
    assert not answer.is_sufficient
    assert answer.output_shapes[0].dimensions == (4, 3)
    assert np.isnan(small).all()


def test_nothing_at_all_can_be_added(remote: RemoteDevice) -> None:
    constant = np.empty((0, 3), np.float32)
    operands = (
        Operand(type=FLOAT, dimensions=(0, 3), lifetime=Lifetime.SUBGRAPH_INPUT),
        Operand(
            type=FLOAT,
            dimensions=(0, 3),
            lifetime=Lifetime.CONSTANT_POOL,
            location=Location(pool=0, offset=5, length=0),
        ),
        *addition(np.ones(1)).main.operands[2:3],
        Operand(type=FLOAT, dimensions=(0, 3), lifetime=Lifetime.SUBGRAPH_OUTPUT),
    )
    model = Model(
        main=Subgraph(
            operands=operands, operations=addition(np.ones(1)).main.operations, inputs=(0,), outputs=(3,)
        ),
        pools=(HostMemory(b"12345"),),
    )
    prepared = remote.prepare_model(model, NOW)
    answer = prepared.execute(request(constant, constant.copy()), RUN)
    assert answer.output_shapes[0].dimensions == (0, 3)


def test_errors_are_those_of_the_device(remote: RemoteDevice, device: AddingDevice) -> None:
    def refuse(*_: Any) -> None:
        raise ResourceExhaustedPersistent("no room for operand 7")

    device.on_prepare = refuse
    with pytest.raises(ResourceExhaustedPersistent, match="operand 7"):
        remote.prepare_model(addition(np.ones(2)), NOW)
    device.on_prepare = lambda *_: None
    prepared = remote.prepare_model(addition(np.ones(2)), NOW)
    device.on_execute = refuse
    with pytest.raises(ResourceExhaustedPersistent, match="operand 7"):
        run_addition(prepared, np.ones(2, np.float32))
    device.on_execute = lambda *_: None
    assert run_addition(prepared, np.ones(2, np.float32)).tolist() == [2, 2]


def test_requests_that_are_wrong_are_refused(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones(4)), NOW)
    good = request(np.ones(4, np.float32), np.ones(4, np.float32))
    frozen = np.ones(4, np.float32)
    frozen.flags.writeable = False
    bad = [
        Request(inputs=good.inputs, outputs=(), pools=good.pools),
        Request(inputs=(Argument(pool=9, length=16),), outputs=good.outputs, pools=good.pools),
        Request(inputs=(Argument(pool=0, offset=8, length=16),), outputs=good.outputs, pools=good.pools),
        Request(inputs=(Argument(pool=0, length=12),), outputs=good.outputs, pools=good.pools),
        Request(
            inputs=(Argument(pool=0, length=16, dimensions=(5,)),), outputs=good.outputs, pools=good.pools
        ),
        Request(inputs=good.inputs, outputs=(Argument(pool=1, length=12),), pools=good.pools),
        request(np.ones(4, np.float32), frozen),
    ]
    for each in bad:
        with pytest.raises(BadData):
            prepared.execute(each, RUN)
    with pytest.raises(BadData):
        remote.prepare_model(addition(np.ones(4), offset=8), NOW)
    model = addition(np.ones(4))
    model = Model(main=_in_pool(model.main, 3), pools=model.pools)
    with pytest.raises(BadData, match="pool 3"):
        remote.prepare_model(model, NOW)
    wait_until(lambda: remote.status().memories <= 2)


def _in_pool(graph: Subgraph, pool: int) -> Subgraph:
    operands = list(graph.operands)
    place = operands[1].location
    assert place is not None
    operands[1] = Operand(
        type=FLOAT,
        dimensions=operands[1].dimensions,
        lifetime=Lifetime.CONSTANT_POOL,
        location=Location(pool=pool, offset=place.offset, length=place.length),
    )
    return Subgraph(operands=tuple(operands), operations=graph.operations, inputs=(0,), outputs=(3,))


# Memory


def test_large_tensors_do_not_go_through_messages(remote: RemoteDevice, traffic: Traffic) -> None:
    count = 10 << 20
    values = np.full(count, 2, np.float32)
    prepared = remote.prepare_model(addition(np.ones(count)), NOW)
    sent, received = traffic.bytes_sent, traffic.bytes_received
    assert run_addition(prepared, values)[:: count - 1].tolist() == [3, 3]
    sent, received = traffic.bytes_sent - sent, traffic.bytes_received - received
    if remote.address.startswith("unix:"):
        assert sent + received < 4096
        assert traffic.bytes_sent < 8192  # the constant too
    else:
        assert min(sent, received) > values.nbytes
        assert traffic.messages_sent > 2 * 40


def test_shared_memory_is_used_where_it_is(server: DeviceServer, remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones(6)), NOW)
    memory = SharedMemory.create(1000)
    memory.view(100, 24)[:] = np.arange(6, dtype=np.float32).tobytes()
    both = Request(
        inputs=(Argument(pool=0, offset=100, length=24),),
        outputs=(Argument(pool=0, offset=500, length=24),),
        pools=(memory,),
    )
    for _ in range(2):
        assert prepared.execute(both, RUN).is_sufficient
        assert np.frombuffer(memory.view(500, 24), np.float32).tolist() == [1, 2, 3, 4, 5, 6]
        memory.view(500, 24)[:] = bytes(24)
    assert not any(memory.view(524, 400))
    mixed = Request(
        inputs=(Argument(pool=1, length=24),),
        outputs=(Argument(pool=0, offset=500, length=24),),
        pools=(memory, HostMemory(np.zeros(6, np.float32)), HostMemory(b"nobody uses this")),
    )
    assert prepared.execute(mixed, RUN).is_sufficient
    assert np.frombuffer(memory.view(500, 24), np.float32).tolist() == [1] * 6


def test_an_arena_is_used_again(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.address.path is None:
        pytest.skip("memory is not shared over TCP")
    prepared = remote.prepare_model(addition(np.ones(6)), NOW)
    made = itertools.count()
    create = SharedMemory.create
    monkeypatch.setattr(SharedMemory, "create", lambda *arguments: (next(made), create(*arguments))[1])
    prepared = remote.prepare_model(addition(np.ones(6)), NOW)
    for number in range(5):
        values = np.full(6, number, np.float32)
        assert run_addition(prepared, values).tolist() == [number + 1] * 6
    assert next(made) == 2  # the ring, and its arena


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the sizes of the copies of constants that are made."""
    made: list[int] = []
    make = SharedMemory.constants

    def count(ranges: Sequence[tuple[Memory, int, int]]) -> SharedMemory:
        copied = make(ranges)
        made.append(copied.size)
        return copied

    monkeypatch.setattr(SharedMemory, "constants", count)
    return made


def test_constants_are_copied_once(remote: RemoteDevice, copies: list[int]) -> None:
    content = np.arange(1000, dtype=np.float32).tobytes()
    pool = HostMemory(content)
    model = addition(np.frombuffer(content[800:1200], np.float32), pool=pool, offset=800)
    remote.supported_operations(model)
    prepared = remote.prepare_model(model, NOW)
    assert copies == [400 + 800 % 64]  # only what is used, from a multiple of the alignment on
    step = addition(np.frombuffer(content[1000:1100], np.float32), pool=pool, offset=1000)
    other = remote.prepare_model(step, NOW)
    assert len(copies) == 1
    assert run_addition(prepared, np.zeros(100, np.float32)).tolist() == list(range(200, 300))
    assert run_addition(other, np.zeros(25, np.float32)).tolist() == list(range(250, 275))
    wider = addition(np.frombuffer(content[2000:2400], np.float32), pool=pool, offset=2000)
    assert run_addition(remote.prepare_model(wider, NOW), np.zeros(100, np.float32)).tolist() == list(
        range(500, 600)
    )
    assert len(copies) == 2
    remote.supported_operations(model)
    assert len(copies) == 2
    gone = weakref.ref(constants._copies[pool].memory)
    del pool, model, step, wider
    gc.collect()
    assert gone() is None


def test_constants_that_can_change_are_copied_for_each_model(remote: RemoteDevice, copies: list[int]) -> None:
    array = np.ones(4, np.float32)
    pool = HostMemory(array)
    first = addition(array, pool=pool)
    remote.supported_operations(first)
    prepared = remote.prepare_model(first, NOW)
    assert len(copies) == 1
    array[:] = 5
    other = remote.prepare_model(addition(array, pool=pool), NOW)
    assert run_addition(prepared, np.zeros(4, np.float32)).tolist() == [1] * 4
    assert run_addition(other, np.zeros(4, np.float32)).tolist() == [5] * 4
    assert len(copies) == 2


def test_sealed_constants_are_sent_as_they_are(remote: RemoteDevice, copies: list[int]) -> None:
    array = np.arange(4, dtype=np.float32)
    pool = SharedMemory.constant(memoryview(array.tobytes()))
    copies.clear()
    prepared = remote.prepare_model(addition(array, pool=pool), NOW)
    assert not copies
    assert run_addition(prepared, np.zeros(4, np.float32)).tolist() == [0, 1, 2, 3]


def test_a_message_that_is_too_large_is_not_sent(remote: RemoteDevice) -> None:
    value = bytes(65 << 20)
    operand = Operand(
        type=OperandType.TENSOR_QUANT8_ASYMM,
        dimensions=(len(value),),
        scale=1.0,
        lifetime=Lifetime.CONSTANT_COPY,
        value=value,
    )
    base = addition(np.ones(1))
    graph = Subgraph(
        operands=(*base.main.operands, operand), operations=base.main.operations, inputs=(0,), outputs=(3,)
    )
    with pytest.raises(ResourceExhaustedPersistent, match="into a memory"):
        remote.prepare_model(Model(main=graph, pools=base.pools), NOW)
    wait_until(lambda: remote.status().memories == 0)


# Deadlines


def test_a_deadline_that_has_passed_costs_no_call(remote: RemoteDevice, traffic: Traffic) -> None:
    prepared = remote.prepare_model(addition(np.ones(2)), PrepareOptions(deadline_s=time.monotonic() + 60))
    before = traffic.messages_sent
    past = time.monotonic() - 1
    with pytest.raises(MissedDeadlinePersistent):
        remote.prepare_model(addition(np.ones(2)), PrepareOptions(deadline_s=past))
    with pytest.raises(MissedDeadlinePersistent):
        run_addition(prepared, np.ones(2, np.float32), ExecuteOptions(deadline_s=past))
    assert traffic.messages_sent == before
    assert run_addition(
        prepared, np.ones(2, np.float32), ExecuteOptions(deadline_s=time.monotonic() + 60)
    ).tolist() == [2, 2]


@pytest.mark.timed
def test_a_device_that_ignores_the_deadline_is_not_waited_for(
    remote: RemoteDevice, device: AddingDevice
) -> None:
    prepared = remote.prepare_model(addition(np.ones(2)), NOW)
    leave = threading.Event()

    def wait(*_: Any) -> None:
        leave.wait(20)

    device.on_execute = wait
    started = time.monotonic()
    late = np.full(2, 7, np.float32)
    with pytest.raises(MissedDeadlineTransient):
        prepared.execute(request(late, late), ExecuteOptions(deadline_s=started + 0.1))
    assert time.monotonic() < started + 5
    device.on_execute = lambda *_: None
    # The arena that the late one still has is not used for this one.
    assert run_addition(prepared, np.ones(2, np.float32)).tolist() == [2, 2]
    leave.set()
    wait_until(lambda: remote.status().calls == 0)
    assert late.tolist() == [7, 7]


# Many at a time


def test_executions_of_many_threads(remote: RemoteDevice) -> None:
    prepared = [remote.prepare_model(addition(np.full(1000, number)), NOW) for number in range(3)]

    def work(number: int) -> bool:
        values = np.full(1000, number, np.float32)
        return all(
            np.array_equal(run_addition(each, values), values + constant)
            for _ in range(5)
            for constant, each in enumerate(prepared)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.sampled(2)
def test_models_that_nobody_needs_are_let_go(remote: RemoteDevice) -> None:
    kept = remote.prepare_model(addition(np.ones(2)), NOW)
    for _ in range(300):  # more than a session may have
        remote.prepare_model(addition(np.ones(2)), NOW)
    wait_until(lambda: remote.status().prepared_models == 1)
    assert run_addition(kept, np.ones(2, np.float32)).tolist() == [2, 2]


def lasting_threads() -> int:
    """Returns how many threads there are, without those that answer calls, at most 64."""
    return sum(not thread.name.startswith("neurald call") for thread in threading.enumerate())


@pytest.mark.slow
@pytest.mark.sampled(2)
def test_nothing_leaks(server: DeviceServer) -> None:
    def visit() -> None:
        remote = connect(str(server.address))
        prepared = remote.prepare_model(addition(np.ones(20)), NOW)
        assert run_addition(prepared, np.ones(20, np.float32))[0] == 2

    def settled() -> bool:
        gc.collect()
        return not server.handler.sessions.all()

    for _ in range(3):
        visit()
    wait_until(settled)
    time.sleep(0.2)
    before, threads = descriptors(), lasting_threads()
    for _ in range(40):
        visit()
    wait_until(settled)
    wait_until(lambda: descriptors() <= before and lasting_threads() <= threads)


# Nobody there


@sweep("address", ["", "nonsense", "unix:", "host:port", "unix://relative/x"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(BadData, match="address"):
        connect(address)


@pytest.mark.timed
def test_nobody_serves(tmp_path: Path) -> None:
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else can listen there meanwhile
        port = silent.getsockname()[1]
        for address in (f"unix://{tmp_path}/none.sock", f"unix://{stale}", f"127.0.0.1:{port}"):
            started = time.monotonic()
            with pytest.raises(
                UnavailableDevice, match=r"no driver daemon listens .*neurald driver"
            ) as caught:
                connect(address)
            assert address in str(caught.value)
            assert time.monotonic() < started + 2


@pytest.mark.timed
@pytest.mark.slow
def test_somebody_else_listens(tmp_path: Path) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        started = time.monotonic()
        with pytest.raises(UnavailableDevice):
            connect(f"127.0.0.1:{mute.getsockname()[1]}")
        assert time.monotonic() < started + 10


@pytest.mark.timed
@pytest.mark.slow
def test_a_silent_process_without_a_token_is_noticed_soon(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("s") / "m.sock"
    with socket.socket(socket.AF_UNIX) as mute, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as side:
        for listener, place in ((mute, str(path)), (side, f"{path}.memory")):
            listener.bind(place)
            listener.listen()
        started = time.monotonic()
        with pytest.raises(UnavailableDevice, match="stopped answering"):
            connect(f"unix://{path}")
        assert time.monotonic() < started + 6, "it was not waited for until the limit of live daemons"


def test_answers_that_do_not_fit_are_refused(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "carries_data", False)  # as with a daemon of an older version
    prepared = remote.prepare_model(addition(np.ones(2)), NOW)
    values = np.full(2, 7, np.float32)
    shape = types_pb2.OutputShape(dimensions=types_pb2.Dimensions(sizes=[2]), sufficient=True)
    replies = [
        device_pb2.ExecuteReply(),
        device_pb2.ExecuteReply(output_shapes=[shape, shape]),
        device_pb2.ExecuteReply(output_shapes=[shape], results=[bytes(16)] * 2),
        device_pb2.ExecuteReply(output_shapes=[shape], results=[bytes(16)]),
    ]
    for reply in replies:
        monkeypatch.setattr(server.handler.executions, "execute", lambda *_, reply=reply: reply)
        with pytest.raises(Error):
            prepared.call(request(values, values), RUN)
    assert values.tolist() == [7, 7]


@pytest.mark.parametrize("sent", [b"", b"x" * 63, b"x" * 65])
def test_results_of_another_size_are_refused(
    device: AddingDevice, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        DeviceHandler,
        "read_memory",
        lambda *_: iter(
            [device_pb2.ReadMemoryReply(chunk=sent[:40]), device_pb2.ReadMemoryReply(chunk=sent[40:])]
        ),
    )
    monkeypatch.setattr(Connection, "carries_data", False)  # as with a daemon of an older version
    server = serve(device, "127.0.0.1:0")
    remote = connect(str(server.address))
    values = np.full(2, 7, np.float32)
    with pytest.raises(Error, match="bytes"):
        run_addition(remote.prepare_model(addition(np.ones(2)), NOW), values)
    remote.close()
    server.stop()


def test_closing_ends_the_session(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones(2)), NOW)
    assert isinstance(prepared, RemotePreparedModel)
    remote.close()
    remote.close()
    assert not remote.is_alive
    with pytest.raises(Error):
        run_addition(prepared, np.ones(2, np.float32))

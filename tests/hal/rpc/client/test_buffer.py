"""Device buffers in a daemon: Android's conformance tests of memory domains, over both sockets."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.traffic import Traffic
from support.devices.buffers import KeepingDevice
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session_buffers import SessionBuffers
from neurald.hal.device import BufferDescription, BufferRole, ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    DeadObject,
    Error,
    OpFailed,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    Unmappable,
)
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions
from neurald.hal.process.address import Address
from neurald.hal.registry import create_device
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.fence import Fence

NOW = PrepareOptions()
RUN = ExecuteOptions()
SHAPE = (2, 3)
BYTES = 24
VALUE = np.arange(6, dtype=np.float32).reshape(SHAPE)

#: Arguments of a request: a device buffer as a whole, or host memory.
WHOLE = Argument(pool=0)


@pytest.fixture(params=["unix", "tcp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0"


def serve(device: Any, place: str, limits: Limits | None = None) -> DeviceServer:
    server = DeviceServer(device, Address.parse(place), limits=limits)
    server.start()
    return server


@pytest.fixture
def device() -> KeepingDevice:
    return KeepingDevice()


@pytest.fixture
def server(place: str, device: KeepingDevice) -> Iterator[DeviceServer]:
    server = serve(device, place)
    yield server
    server.stop()


@pytest.fixture
def prepared(remote: RemoteDevice) -> Any:
    return remote.prepare_model(add_model(SHAPE), NOW)


def role(prepared: Any, index: int = 0, probability: float = 1.0) -> BufferRole:
    return BufferRole(prepared_model=prepared, index=index, probability=probability)


def allocate(
    remote: RemoteDevice, *, inputs: Any = (), outputs: Any = (), dimensions: Dimensions = None
) -> Memory:
    description = BufferDescription(
        dimensions=dimensions, input_roles=tuple(inputs), output_roles=tuple(outputs)
    )
    return remote.allocate(description)


def allocate_as(side: str, remote: RemoteDevice, roles: list[BufferRole]) -> Memory:
    return allocate(
        remote, inputs=roles if side == "inputs" else (), outputs=roles if side == "outputs" else ()
    )


def bound(first: Any, second: Any, output: Any) -> Request:
    """Returns a request of `add_model`, each argument a buffer or an array."""
    arguments: list[Argument] = []
    pools: list[Memory] = []
    for value in (first, second, output):
        if isinstance(value, np.ndarray):
            arguments.append(Argument(pool=len(pools), length=value.nbytes, dimensions=value.shape))
            pools.append(HostMemory(value))
        elif value in pools:
            arguments.append(Argument(pool=pools.index(value)))
        else:
            arguments.append(Argument(pool=len(pools)))
            pools.append(value)
    return Request(inputs=tuple(arguments[:2]), outputs=(arguments[2],), pools=tuple(pools))


def quantised(scale: float = 0.5, zero_point: int = 3, dimensions: Any = SHAPE) -> Model:
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_QUANT8_ASYMM
    ends = [builder.add_operand(kind, dimensions, scale=scale, zero_point=zero_point) for _ in range(2)]
    builder.add_operation(nd.OperationType.RELU, ends[:1], ends[1:])
    builder.identify_inputs_and_outputs(ends[:1], ends[1:])
    return builder.finish()


# Allocating


def test_its_bytes_are_not_here(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    with pytest.raises(Unmappable):
        buffer.view()
    assert not buffer.readonly


def test_the_driver_gets_all_roles(remote: RemoteDevice, prepared: Any, device: KeepingDevice) -> None:
    allocate(remote, inputs=[role(prepared, 1, 0.25)], outputs=[role(prepared)])
    (description,) = device.descriptions
    assert description.dimensions == SHAPE
    assert [(r.index, r.probability) for r in description.input_roles] == [(1, 0.25)]
    assert [(r.index, r.probability) for r in description.output_roles] == [(0, 1.0)]


def test_a_buffer_needs_a_role(remote: RemoteDevice) -> None:
    with pytest.raises(BadData, match="has no role"):
        allocate(remote)


def test_prepared_models_are_of_this_device(remote: RemoteDevice, server: DeviceServer) -> None:
    here = create_device("cpu").prepare_model(add_model(SHAPE), NOW)
    with pytest.raises(BadData):
        allocate(remote, inputs=[role(here)])
    other = connect(str(server.address))
    with pytest.raises(BadData):
        allocate(remote, inputs=[role(other.prepare_model(add_model(SHAPE), NOW))])
    other.close()


def test_prepared_models_of_other_sessions_are_not_known(remote: RemoteDevice, prepared: Any) -> None:
    message = device_pb2.AllocateRequest()
    message.inputs.add(prepared_model=prepared.handle + 1, index=0, probability=1.0)
    with pytest.raises(BadData, match="is not known in this session"):
        prepared.connection.call("Allocate", message)


@pytest.mark.parametrize("index", [2, 100, -1, 1 << 32])
def test_input_roles_exist(remote: RemoteDevice, prepared: Any, index: int) -> None:
    with pytest.raises(BadData, match=f"input {index}"):
        allocate(remote, inputs=[role(prepared, index)])


def test_output_roles_exist(remote: RemoteDevice, prepared: Any) -> None:
    for index in (1, -1):
        with pytest.raises(BadData, match=f"output {index}"):
            allocate(remote, outputs=[role(prepared, index)])


@pytest.mark.parametrize("probability", [0.0, -1.0, 1.001, float("nan"), float("inf")])
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_probabilities(remote: RemoteDevice, prepared: Any, side: str, probability: float) -> None:
    with pytest.raises(BadData, match="probability"):
        allocate_as(side, remote, [role(prepared, 0, probability)])


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_a_role_is_listed_once(remote: RemoteDevice, prepared: Any, side: str) -> None:
    with pytest.raises(BadData, match="each may be listed once"):
        allocate_as(side, remote, [role(prepared), role(prepared, 0, 0.5)])


@pytest.mark.parametrize(
    "other", [quantised(scale=0.25), quantised(zero_point=4), quantised(dimensions=(2, 4))], ids=str
)
def test_roles_agree(remote: RemoteDevice, other: Model) -> None:
    first, second = (remote.prepare_model(model, NOW) for model in (quantised(), other))
    with pytest.raises(BadData):
        allocate(remote, inputs=[role(first)], outputs=[role(second)])


def test_roles_agree_on_type_and_rank(remote: RemoteDevice, prepared: Any) -> None:
    for other in (quantised(), add_model((2, 3, 1)), add_model((6,))):
        with pytest.raises(BadData):
            allocate(remote, inputs=[role(prepared), role(remote.prepare_model(other, NOW))])


@pytest.mark.parametrize("dimensions", [(2, 4), (2, 3, 1), (6,), (0, 4)])
def test_dimensions_agree_with_roles(remote: RemoteDevice, prepared: Any, dimensions: Any) -> None:
    with pytest.raises(BadData):
        allocate(remote, inputs=[role(prepared)], dimensions=dimensions)


def test_dimensions_are_merged(remote: RemoteDevice, device: KeepingDevice) -> None:
    prepared = remote.prepare_model(add_model((0, 3)), NOW)
    allocate(remote, inputs=[role(prepared)], dimensions=(2, 0))
    assert device.descriptions[0].dimensions == (2, 3)


def test_scalars_have_no_dimensions(remote: RemoteDevice) -> None:
    builder = nd.ModelBuilder()
    value = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE)
    activation = builder.add_operand(nd.OperandType.INT32)
    output = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE)
    builder.add_operation(nd.OperationType.ADD, [value, value, activation], [output])
    builder.identify_inputs_and_outputs([value, activation], [output])
    prepared = remote.prepare_model(builder.finish(), NOW)
    with pytest.raises(BadData, match="scalar"):
        allocate(remote, inputs=[role(prepared, 1)], dimensions=(1,))
    buffer = allocate(remote, inputs=[role(prepared, 1)])
    buffer.write(HostMemory(np.array([1], np.int32)))
    result = np.zeros(SHAPE, np.float32)
    prepared.execute(bound(-VALUE, buffer, result), RUN)
    assert not result.any()


def test_a_driver_that_refuses(remote: RemoteDevice, prepared: Any, device: KeepingDevice) -> None:
    device.fails = OpFailed("no memory left for you")
    with pytest.raises(OpFailed, match="no memory left for you"):
        allocate(remote, inputs=[role(prepared)])


def test_a_driver_that_gives_no_memory(
    remote: RemoteDevice, prepared: Any, device: KeepingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "allocate", lambda description: None)
    with pytest.raises(OpFailed, match="returned NoneType where a Memory"):
        allocate(remote, inputs=[role(prepared)])


def test_a_daemon_that_gives_no_token(
    remote: RemoteDevice, prepared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionBuffers, "allocate", lambda *arguments: 0)
    with pytest.raises(OpFailed, match="no token"):
        allocate(remote, inputs=[role(prepared)])


def test_memory_counts_towards_the_limits(place: str, device: KeepingDevice) -> None:
    limits = Limits(memory_bytes=10_000, memories=100)
    server = serve(device, place, limits)
    remote = connect(str(server.address))
    prepared = remote.prepare_model(add_model(SHAPE), NOW)
    kept = [allocate(remote, inputs=[role(prepared)]) for _ in range(2)]
    with pytest.raises(ResourceExhaustedTransient):
        allocate(remote, inputs=[role(prepared)])
    large = remote.prepare_model(add_model((3000,)), NOW)
    with pytest.raises(ResourceExhaustedPersistent):
        allocate(remote, inputs=[role(large)])
    assert len(device.descriptions) == 3
    del kept
    gc.collect()
    device.buffers.clear()
    wait_until(lambda: remote.status().memories == 0)
    allocate(remote, inputs=[role(prepared)])
    remote.close()
    server.stop()


# Copying


def test_there_and_back(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    for source in (HostMemory(VALUE), nd.Memory.allocate(BYTES)):
        result = np.full(SHAPE, np.nan, np.float32)
        buffer.write(source)
        buffer.read(HostMemory(result))
        assert result.tobytes() == bytes(source.view())
        shared = nd.Memory.allocate(BYTES)
        buffer.read(shared)
        assert bytes(shared.view()) == bytes(source.view())


def test_a_constant_is_a_source_and_no_target(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    constant = SharedMemory.constant(memoryview(VALUE.tobytes()))
    buffer.write(constant)
    if remote.address.startswith("unix:"):
        with pytest.raises(BadData, match="read-only"):
            buffer.read(constant)


def test_nothing_is_read_before_something_was_written(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    with pytest.raises(OpFailed, match="nothing has written to it"):
        buffer.read(nd.Memory.allocate(BYTES))


@pytest.mark.parametrize("size", [BYTES - 4, BYTES + 4, 1])
def test_wrong_sizes(remote: RemoteDevice, prepared: Any, size: int) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    buffer.write(HostMemory(VALUE))
    with pytest.raises(BadData):
        buffer.write(nd.Memory.allocate(size))
    with pytest.raises((BadData, OpFailed)):
        buffer.read(nd.Memory.allocate(size))
    result = np.zeros(SHAPE, np.float32)
    buffer.read(HostMemory(result))
    assert np.array_equal(result, VALUE)


@pytest.mark.parametrize("dimensions", [(2, 4), (3, 2), (2, 3, 1), (6,)])
def test_wrong_dimensions(remote: RemoteDevice, prepared: Any, dimensions: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    with pytest.raises(BadData):
        buffer.write(HostMemory(VALUE), dimensions)


def test_open_dimensions(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(add_model((0, 3)), NOW)
    buffer = allocate(remote, inputs=[role(prepared)])
    with pytest.raises(BadData, match="without the dimensions of its value"):
        buffer.write(HostMemory(VALUE))
    for dimensions, size in (((0, 3), BYTES), ((2, 4), 32), ((3, 3), BYTES)):
        with pytest.raises(BadData):
            buffer.write(nd.Memory.allocate(size), dimensions)
    for rows in (2, 5):
        value = np.full((rows, 3), rows, np.float32)
        buffer.write(HostMemory(value), (rows, 3))
        result = np.zeros((rows, 3), np.float32)
        buffer.read(HostMemory(result))
        assert np.array_equal(result, value)


def test_a_failed_copy_leaves_no_value(remote: RemoteDevice, prepared: Any, device: KeepingDevice) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    buffer.write(HostMemory(VALUE))
    device.buffers[0].fails = OpFailed("broken")
    with pytest.raises(OpFailed, match="broken"):
        buffer.write(HostMemory(VALUE))
    device.buffers[0].fails = None
    with pytest.raises(OpFailed, match="nothing has written to it"):
        buffer.read(nd.Memory.allocate(BYTES))


@pytest.mark.parametrize("token", [0, 99])
def test_tokens_that_are_not_known(remote: RemoteDevice, prepared: Any, token: int) -> None:
    call = prepared.connection.call
    memory = prepared.connection.send_memories([nd.Memory.allocate(BYTES)])[0]
    for method, message in (
        ("CopyToBuffer", device_pb2.CopyToBufferRequest(buffer=token, memory=memory)),
        ("CopyFromBuffer", device_pb2.CopyFromBufferRequest(buffer=token)),
        ("ReleaseBuffer", device_pb2.ReleaseBufferRequest(buffer=token)),
    ):
        with pytest.raises(BadData, match=f"buffer {token} is not known"):
            call(method, message)


# Executing


def test_an_output_becomes_an_input(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)], outputs=[role(prepared)])
    prepared.execute(bound(VALUE, VALUE, buffer), RUN)
    result = np.zeros(SHAPE, np.float32)
    prepared.execute(bound(buffer, VALUE, result), RUN)
    assert np.array_equal(result, VALUE * 3)


def test_bytes_of_buffers_stay_with_the_daemon(remote: RemoteDevice, traffic: Traffic) -> None:
    shape = (64, 1024)
    prepared = remote.prepare_model(add_model(shape), NOW)
    with pytest.raises(Error):
        allocate(remote, outputs=[role(prepared)], dimensions=(64, 1025))
    buffers = [
        allocate(remote, inputs=[role(prepared, 0), role(prepared, 1)], outputs=[role(prepared)])
        for _ in range(3)
    ]
    value = np.ones((32, 32), np.float32)
    small = remote.prepare_model(add_model(value.shape), NOW)
    del buffers[0]
    chain = [allocate(remote, inputs=[role(small), role(small, 1)], outputs=[role(small)]) for _ in range(2)]
    chain[0].write(HostMemory(value))
    small.execute(bound(chain[0], chain[0], chain[1]), RUN)
    before = traffic.bytes_sent + traffic.bytes_received
    for _ in range(3):
        small.execute(bound(chain[0], chain[0], chain[1]), RUN)
    assert traffic.bytes_sent + traffic.bytes_received - before < 1000 < value.nbytes
    result = np.zeros_like(value)
    chain[1].read(HostMemory(result))
    assert np.array_equal(result, value * 2)


def test_buffers_that_hold_nothing_are_no_inputs(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    with pytest.raises(OpFailed, match="holds no value"):
        prepared.execute(bound(buffer, VALUE, np.zeros_like(VALUE)), RUN)


def test_roles_that_were_not_declared(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared, 0)])
    buffer.write(HostMemory(VALUE))
    other = remote.prepare_model(add_model(SHAPE), NOW)
    result = np.zeros_like(VALUE)
    for model, arguments in (
        (prepared, (VALUE, buffer, result)),
        (prepared, (VALUE, VALUE, buffer)),
        (other, (buffer, VALUE, result)),
    ):
        with pytest.raises(BadData, match="not allocated for that role"):
            model.execute(bound(*arguments), RUN)
    prepared.execute(bound(buffer, VALUE, result), RUN)
    assert np.array_equal(result, VALUE * 2)


def test_a_buffer_is_input_twice_but_output_once(remote: RemoteDevice) -> None:
    builder = nd.ModelBuilder()
    value = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE)
    ends = [builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE) for _ in range(2)]
    for end in ends:
        builder.add_operation(nd.OperationType.RELU, [value], [end])
    builder.identify_inputs_and_outputs([value], ends)
    prepared = remote.prepare_model(builder.finish(), NOW)
    buffer = allocate(remote, inputs=[role(prepared)], outputs=[role(prepared, 0), role(prepared, 1)])
    buffer.write(HostMemory(VALUE))
    host = HostMemory(np.zeros(SHAPE, np.float32))
    outside = Argument(pool=1, length=BYTES)
    for inputs, outputs, what in (
        ((Argument(pool=1, length=BYTES),), (WHOLE, WHOLE), "another output"),
        ((WHOLE,), (WHOLE, outside), "an input"),
        ((WHOLE,), (outside, WHOLE), "an input"),
    ):
        with pytest.raises(BadData, match=what):
            prepared.execute(Request(inputs=inputs, outputs=outputs, pools=(buffer, host)), RUN)
    result = np.full(SHAPE, np.nan, np.float32)
    buffer.read(HostMemory(result))
    assert np.array_equal(result, VALUE)


def test_both_inputs_in_one_buffer(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared, 0), role(prepared, 1)])
    buffer.write(HostMemory(VALUE))
    result = np.zeros_like(VALUE)
    prepared.execute(bound(buffer, buffer, result), RUN)
    assert np.array_equal(result, VALUE * 2)


@pytest.mark.parametrize("argument", [Argument(pool=0, offset=4), Argument(pool=0, length=BYTES)])
def test_buffers_are_used_as_a_whole(remote: RemoteDevice, prepared: Any, argument: Argument) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    buffer.write(HostMemory(VALUE))
    request = bound(buffer, VALUE, np.zeros_like(VALUE))
    request = Request(inputs=(argument, request.inputs[1]), outputs=request.outputs, pools=request.pools)
    with pytest.raises(BadData):
        prepared.execute(request, RUN)


def test_dimensions_are_those_of_the_value(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(add_model((0, 0)), NOW)
    buffer = allocate(remote, inputs=[role(prepared)], outputs=[role(prepared)])
    prepared.execute(bound(VALUE, VALUE, buffer), RUN)
    result = np.zeros_like(VALUE)
    request = bound(buffer, VALUE, result)
    for dimensions in ((3, 2), (2, 4)):
        wrong = Request(
            inputs=(Argument(pool=0, dimensions=dimensions), request.inputs[1]),
            outputs=request.outputs,
            pools=request.pools,
        )
        with pytest.raises(BadData):
            prepared.execute(wrong, RUN)
    prepared.execute(request, RUN)
    assert np.array_equal(result, VALUE * 3)


def test_a_failed_execution_leaves_no_value(
    remote: RemoteDevice, prepared: Any, device: KeepingDevice
) -> None:
    buffer = allocate(remote, outputs=[role(prepared)])
    buffer.write(HostMemory(VALUE))
    device.fails = OpFailed("broken")
    with pytest.raises(OpFailed, match="broken"):
        prepared.execute(bound(VALUE, VALUE, buffer), RUN)
    with pytest.raises(OpFailed, match="nothing has written to it"):
        buffer.read(nd.Memory.allocate(BYTES))


def test_fenced_executions_hand_a_buffer_on(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)], outputs=[role(prepared)])
    source = nd.Memory.allocate(BYTES)
    target = nd.Memory.allocate(BYTES)
    source.view()[:] = VALUE.tobytes()
    start = Fence()
    given = Argument(pool=1, length=BYTES)
    writing = Request(inputs=(given, given), outputs=(WHOLE,), pools=(buffer, source))
    reading = Request(
        inputs=(WHOLE, given), outputs=(Argument(pool=2, length=BYTES),), pools=(buffer, source, target)
    )
    first = prepared.execute_fenced(writing, [start], RUN)
    second = prepared.execute_fenced(reading, [first.fence], RUN)
    assert not second.fence.is_signalled
    start.signal()
    second.result()
    assert bytes(target.view()) == (VALUE * 3).tobytes()


def test_bursts_use_buffers_too(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)], outputs=[role(prepared)])
    burst = prepared.create_burst()
    result = np.zeros_like(VALUE)
    for _ in range(2):
        burst.execute(bound(VALUE, VALUE, buffer), RUN)
        burst.execute(bound(buffer, VALUE, result), RUN)
        assert np.array_equal(result, VALUE * 3)
        burst.execute(bound(VALUE, VALUE, result), RUN)
        assert np.array_equal(result, VALUE * 2)
    burst.close()


def test_the_cpu_device_behind_a_socket(place: str) -> None:
    server = serve(create_device("cpu"), place)
    remote = connect(str(server.address))
    prepared = remote.prepare_model(add_model(SHAPE), NOW)
    buffer = allocate(remote, inputs=[role(prepared)], outputs=[role(prepared)])
    prepared.execute(bound(VALUE, VALUE, buffer), RUN)
    result = np.zeros_like(VALUE)
    prepared.execute(bound(buffer, VALUE, result), RUN)
    assert np.array_equal(result, VALUE * 3)
    dynamic = remote.prepare_model(add_model((0, 3)), NOW)
    with pytest.raises(OpFailed, match="unknown size"):
        allocate(remote, inputs=[role(dynamic)])
    remote.close()
    server.stop()


def test_a_buffer_ends_with_its_session(remote: RemoteDevice, prepared: Any) -> None:
    buffer = allocate(remote, inputs=[role(prepared)])
    remote.close()
    with pytest.raises(DeadObject):
        buffer.write(HostMemory(VALUE))
    again = remote.prepare_model(add_model(SHAPE), NOW)
    with pytest.raises(DeadObject, match="session"):
        again.execute(bound(buffer, VALUE, np.zeros_like(VALUE)), RUN)


def test_models_of_an_earlier_daemon_get_no_buffers(tmp_path: Path) -> None:
    place = f"unix://{tmp_path}/d.sock"
    first = serve(KeepingDevice(), place)
    remote = connect(place)
    prepared = remote.prepare_model(add_model(SHAPE), NOW)
    first.stop()
    second = serve(KeepingDevice(), place)
    try:
        remote.prepare_model(add_model(SHAPE), NOW)  # connects to the other daemon
        with pytest.raises(DeadObject, match="earlier connection"):
            allocate(remote, inputs=[role(prepared)])
    finally:
        remote.close()
        second.stop()

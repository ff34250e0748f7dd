"""A device behind gRPC, and clients that send anything."""

import logging
import os
import random
import time
from asyncio import CancelledError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.daemon.peer import CONSTANT, MODEL, OPTIONS, RESULTS, Peer, execution, pool, read
from support.inference.silent_client import answered_pings
from support.models.addition import AddingDevice, addition

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.errors import (
    BadData,
    Error,
    OutputInsufficientSize,
    ResourceExhaustedPersistent,
    ResultCode,
    error_for,
)
from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.types import OperandType
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.status import CHUNK_BYTES, MAX_MESSAGE_BYTES, SESSION_KEY, error_from
from neurald.hal.rpc.wire.model import model_to_wire

LIMITS = Limits(sessions=3, prepared_models=2, memories=12, memory_bytes=1 << 20)


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest, tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    place = f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0"
    server = DeviceServer(device, Address.parse(place), limits=LIMITS)
    server.start()
    yield server
    server.stop()


def test_the_whole_way(peer: Peer) -> None:
    described = peer.call("Describe", device_pb2.DescribeRequest())
    assert (described.name, described.version, described.model_cache_files) == ("adder", "1", 1)
    reply = peer.call("GetCapabilities", device_pb2.GetCapabilitiesRequest())
    assert reply.capabilities.if_performance.exec_time == 0.5
    message = model_to_wire(MODEL, [peer.memory(CONSTANT.tobytes(), constant=True)])
    reply = peer.call("GetSupportedOperations", device_pb2.GetSupportedOperationsRequest(model=message))
    assert [verdict.ok for verdict in reply.verdicts] == [True]
    handle = peer.prepare()
    reply = peer.call("Execute", execution(handle, pool(peer.memory(CONSTANT.tobytes())), RESULTS))
    assert reply.output_shapes[0].dimensions.sizes == [2, 3]
    (token,) = reply.results
    assert np.array_equal(np.frombuffer(read(peer, token), np.float32), 2 * CONSTANT.reshape(-1))
    peer.call("ReleasePreparedModel", device_pb2.ReleasePreparedModelRequest(prepared_model=handle))
    with pytest.raises(BadData, match="prepared model 1 is not known"):
        peer.call("Execute", execution(handle, RESULTS, RESULTS))


def test_tokens_are_good_once(peer: Peer) -> None:
    handle = peer.prepare()
    token = pool(peer.memory(bytes(24)))
    reply = peer.call("Execute", execution(handle, token, RESULTS))
    with pytest.raises(BadData, match="token"):
        peer.call("Execute", execution(handle, token, RESULTS))
    read(peer, reply.results[0])
    with pytest.raises(grpc.RpcError, match="token"):
        read(peer, reply.results[0])
    token = pool(peer.memory(bytes(24)))
    with pytest.raises(BadData, match="token"):
        peer.call("Execute", execution(handle, token, token))


def test_what_belongs_to_one_session_is_nothing_to_another(server: DeviceServer, peer: Peer) -> None:
    other = Peer(server)
    handle, token = peer.prepare(), peer.memory(bytes(24))
    with pytest.raises(BadData, match="token"):
        other.call("Execute", execution(handle, pool(token), RESULTS))
    with pytest.raises(BadData, match="prepared model"):
        other.call("Execute", execution(handle, pool(other.memory(bytes(24))), RESULTS))
    peer.call("Execute", execution(handle, pool(token), RESULTS))
    other.close()


def test_calls_without_a_session_are_refused(peer: Peer) -> None:
    for session in (
        (),
        ((SESSION_KEY, "ab" * 16),),
        ((SESSION_KEY, "no hexadecimal"),),
        ((SESSION_KEY, ""),),
    ):
        metadata = (*peer.access, *session)
        with pytest.raises(grpc.RpcError) as caught:
            peer.stub.ReleaseMemory(device_pb2.ReleaseMemoryRequest(), metadata=metadata)
        assert error_from(caught.value, "").code is ResultCode.DEAD_OBJECT
        peer.stub.Describe(device_pb2.DescribeRequest(), metadata=metadata)


def test_sessions_end_with_their_clients(server: DeviceServer, peer: Peer) -> None:
    other = Peer(server)
    other.prepare()
    other.memory(bytes(24))
    status = peer.call("GetStatus", device_pb2.GetStatusRequest())
    assert (status.sessions, status.prepared_models) == (2, 1)
    other.close()
    end = time.monotonic() + 5
    while (status := peer.call("GetStatus", device_pb2.GetStatusRequest())).sessions == 2:
        assert time.monotonic() < end
    assert (status.prepared_models, status.memories) == (0, 0)


def test_limits_of_sessions(server: DeviceServer, peer: Peer) -> None:
    others = [Peer(server) for _ in range(LIMITS.sessions - 1)]
    with pytest.raises((Error, grpc.RpcError), match="3 sessions"):
        Peer(server)
    for other in others:
        other.close()


def test_limits_of_a_session(peer: Peer) -> None:
    for _ in range(2):
        peer.prepare()
    with pytest.raises(Error, match="2 prepared models") as caught:
        peer.prepare()
    assert caught.value.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    with pytest.raises(Error) as caught:
        peer.memory(bytes(LIMITS.memory_bytes + 1))
    assert caught.value.code is ResultCode.RESOURCE_EXHAUSTED_PERSISTENT
    results = types_pb2.RequestPool(results_bytes=2**63)
    with pytest.raises(Error) as caught:
        peer.call("Execute", execution(1, results, results))
    assert caught.value.code is ResultCode.RESOURCE_EXHAUSTED_PERSISTENT
    for _ in range(LIMITS.memories - 2):
        token = peer.memory(b"x")
    with pytest.raises(Error) as caught:
        peer.memory(b"x")
    assert caught.value.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    peer.call("ReleaseMemory", device_pb2.ReleaseMemoryRequest(memories=[token, b"never heard of"]))
    peer.memory(b"x")


def test_invalid_models_and_requests_do_not_reach_the_device(peer: Peer, device: AddingDevice) -> None:
    def seen(*arguments: Any) -> None:
        raise AssertionError("the device was asked")

    handle = peer.prepare()
    device.on_prepare = device.on_execute = seen
    token = peer.memory(CONSTANT.tobytes(), constant=True)
    message = model_to_wire(MODEL, [token])
    message.main.operations[0].inputs[0] = 77
    with pytest.raises(BadData, match="operand 77"):
        peer.call("PrepareModel", device_pb2.PrepareModelRequest(model=message, options=OPTIONS))
    message = model_to_wire(MODEL, [peer.memory(bytes(23), constant=True)])
    with pytest.raises(BadData, match="24 bytes at offset 0"):
        peer.call("PrepareModel", device_pb2.PrepareModelRequest(model=message, options=OPTIONS))
    message = model_to_wire(MODEL, [peer.memory(CONSTANT.tobytes(), constant=True)])
    options = device_pb2.PrepareOptions(priority=7)  # type: ignore[arg-type]
    with pytest.raises(BadData, match="priority is 7"):
        peer.call("PrepareModel", device_pb2.PrepareModelRequest(model=message, options=options))
    for bad in (
        execution(handle, RESULTS, RESULTS, inputs=2),
        execution(handle, RESULTS, RESULTS, length=20),
        execution(handle, types_pb2.RequestPool(results_bytes=8), RESULTS),
        execution(handle, types_pb2.RequestPool(), RESULTS),
        execution(handle, types_pb2.RequestPool(buffer=1), RESULTS),
        execution(handle, types_pb2.RequestPool(results_bytes=0), RESULTS),
        device_pb2.ExecuteRequest(prepared_model=handle),
    ):
        with pytest.raises(BadData):
            peer.call("Execute", bad)


def test_a_model_above_the_feature_level_is_refused(peer: Peer, device: AddingDevice) -> None:
    message = model_to_wire(MODEL, [peer.memory(CONSTANT.tobytes(), constant=True)])
    for index in (0, 1, 3):
        message.main.operands[index].type = OperandType.TENSOR_INT32  # type: ignore[assignment]
    with pytest.raises(BadData, match="LEVEL_4; adder has LEVEL_3"):
        peer.call("PrepareModel", device_pb2.PrepareModelRequest(model=message, options=OPTIONS))


def test_deadlines(peer: Peer, device: AddingDevice) -> None:
    handle = peer.prepare()
    message = execution(handle, pool(peer.memory(bytes(24))), RESULTS)
    message.options.deadline_s = 0
    with pytest.raises(Error) as caught:
        peer.call("Execute", message)
    assert caught.value.code is ResultCode.MISSED_DEADLINE_PERSISTENT
    seen: list[float | None] = []
    device.on_execute = lambda request, options: seen.append(options.deadline_s)
    message = execution(handle, pool(peer.memory(bytes(24))), RESULTS)
    message.options.deadline_s = 50
    before_s = time.monotonic()
    peer.call("Execute", message)
    assert seen[0] is not None
    assert before_s + 50 <= seen[0] <= time.monotonic() + 50


@pytest.mark.parametrize("code", [code for code in ResultCode if code is not ResultCode.NO_ERROR])
def test_every_error_arrives_as_itself(peer: Peer, device: AddingDevice, code: ResultCode) -> None:
    handle = peer.prepare()
    token = peer.memory(bytes(24))

    def fail(*_: Any) -> None:
        raise error_for(code, "operand 3 – Rang 5")

    device.on_execute = fail
    with pytest.raises(Error, match="operand 3 – Rang 5") as caught:
        peer.call("Execute", execution(handle, pool(token), RESULTS))
    assert caught.value.code is code
    assert type(caught.value) is type(error_for(code, ""))


def test_a_long_message_is_cut(peer: Peer, device: AddingDevice) -> None:
    def fail(*_: Any) -> None:
        raise OutputInsufficientSize("ü" * 100_000)

    handle = peer.prepare()
    device.on_execute = fail
    with pytest.raises(OutputInsufficientSize, match="üüü"):
        peer.call("Execute", execution(handle, pool(peer.memory(bytes(24))), RESULTS))


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, KeyboardInterrupt, CancelledError])
def test_other_exceptions_stay_in_the_log(
    peer: Peer, device: AddingDevice, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    def fail(*_: Any) -> None:
        raise kind("the secret")

    device.on_prepare = fail
    with caplog.at_level(logging.ERROR), pytest.raises(Error) as caught:
        peer.prepare()
    assert caught.value.code is ResultCode.OP_FAILED
    assert "secret" not in str(caught.value)
    assert "the secret" in caplog.text

    def exhaust(*_: Any) -> None:
        raise MemoryError

    device.on_prepare = exhaust
    with pytest.raises(Error) as caught:
        peer.prepare()
    assert caught.value.code is ResultCode.OUT_OF_MEMORY


METHODS = [method.name for method in device_pb2.DESCRIPTOR.services_by_name["Device"].methods]


@pytest.mark.parametrize("method", METHODS)
def test_bytes_that_are_no_message_are_refused(peer: Peer, method: str) -> None:
    assert peer.raw(method, b"\xff") is grpc.StatusCode.INVALID_ARGUMENT
    assert peer.raw(method, b"\xfa\x3f\x01x") is grpc.StatusCode.INVALID_ARGUMENT


def test_fuzzed_messages_harm_nobody(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(7)
    handle = peer.prepare()
    prepare = device_pb2.PrepareModelRequest(model=model_to_wire(MODEL, [bytes(16)]), options=OPTIONS)
    seeds = {
        "PrepareModel": prepare.SerializeToString(),
        "GetSupportedOperations": device_pb2.GetSupportedOperationsRequest(
            model=model_to_wire(addition(CONSTANT), ())
        ).SerializeToString(),
        "Execute": execution(handle, RESULTS, RESULTS).SerializeToString(),
        "ReadMemory": device_pb2.ReadMemoryRequest(memory=bytes(16)).SerializeToString(),
    }
    allowed = {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
    for _ in range(400):
        method = rng.choice(list(seeds))
        data = bytearray(seeds[method])
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        assert peer.raw(method, bytes(data)) in allowed, (method, bytes(data))
    assert not caplog.records
    peer.call("Describe", device_pb2.DescribeRequest())


def test_messages_are_limited(peer: Peer) -> None:
    assert peer.raw("Describe", bytes(MAX_MESSAGE_BYTES + 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED


def size(count: int) -> device_pb2.WriteMemoryRequest:
    return device_pb2.WriteMemoryRequest(size_bytes=count)


def chunk(content: bytes) -> device_pb2.WriteMemoryRequest:
    return device_pb2.WriteMemoryRequest(chunk=content)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "announce"),
        ([chunk(b"x")], "announce"),
        ([device_pb2.WriteMemoryRequest()], "announce"),
        ([size(0)], "positive"),
        ([size(5)], "only 0 of the 5 bytes"),
        ([size(5), chunk(b"1234")], "only 4 of the"),
        ([size(5), chunk(b"123"), chunk(b"456")], "more than the 5 bytes"),
        ([size(5), chunk(b"")], "has no content"),
        ([size(5), size(5)], "has no content"),
    ],
)
def test_memories_in_wrong_pieces_are_refused(peer: Peer, parts: Any, reason: str) -> None:
    with pytest.raises(BadData, match=reason):
        peer.call("WriteMemory", iter(parts))
    assert peer.call("GetStatus", device_pb2.GetStatusRequest()).memories == 0


def test_pieces_of_memory_are_limited(peer: Peer) -> None:
    with pytest.raises(ResourceExhaustedPersistent, match=r"a message has 1572\d+ bytes; .* at most 1310720"):
        peer.call("WriteMemory", iter([size(CHUNK_BYTES), chunk(bytes(3 * CHUNK_BYTES // 2))]))
    peer.call("WriteMemory", iter([size(CHUNK_BYTES), chunk(bytes(CHUNK_BYTES))]))


def test_results_that_did_not_fit_are_no_error(peer: Peer, device: AddingDevice) -> None:
    constant = peer.memory(CONSTANT.tobytes(), constant=True)
    message = model_to_wire(addition(CONSTANT, dynamic=True), [constant])
    handle = peer.call(
        "PrepareModel", device_pb2.PrepareModelRequest(model=message, options=OPTIONS)
    ).prepared_model
    request = execution(handle, pool(peer.memory(bytes(24))), RESULTS)
    request.request.inputs[0].dimensions.sizes.extend((2, 3))
    request.request.outputs[0].length = 20
    reply = peer.call("Execute", request)
    assert not reply.output_shapes[0].sufficient
    assert reply.output_shapes[0].dimensions.sizes == [2, 3]
    assert not reply.results
    assert peer.call("GetStatus", device_pb2.GetStatusRequest()).memories <= 2


# What only a UNIX socket has


@pytest.fixture
def local(tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()


def test_what_a_client_changes_meanwhile_is_not_seen(local: DeviceServer, device: AddingDevice) -> None:
    peer = Peer(local)
    handle = peer.prepare()
    assert peer.side is not None
    memory = SharedMemory.create(64)
    memory.view(0, 24)[:] = CONSTANT.tobytes()
    seen: list[bytes] = []

    def change(request: Any, options: Any) -> None:
        argument = request.inputs[0]
        view = request.pools[argument.pool].view(argument.offset, argument.length)
        before = bytes(view)
        memory.view(0, 24)[:] = b"\xff" * 24
        seen.extend((before, bytes(view)))
        result = request.outputs[0]
        request.pools[result.pool].view(result.offset, 4)[:] = b"early"[:4]
        seen.append(bytes(memory.view(32, 24)))

    device.on_execute = change
    message = execution(handle, pool(peer.side.register(memory)), outputs=0)
    message.request.outputs[0].offset = 32
    peer.call("Execute", message)
    assert seen == [CONSTANT.tobytes(), CONSTANT.tobytes(), bytes(24)]
    assert np.array_equal(np.frombuffer(memory.view(32, 24), np.float32), 2 * CONSTANT.reshape(-1))
    peer.close()


def test_sealed_arguments_are_used_where_they_are(local: DeviceServer, device: AddingDevice) -> None:
    peer = Peer(local)
    handle = peer.prepare()
    kinds: list[bool] = []
    device.on_execute = lambda request, options: kinds.append(
        isinstance(request.pools[request.inputs[0].pool or 0], SharedMemory)
    )
    sealed = pool(peer.memory(CONSTANT.tobytes(), constant=True))
    peer.call("Execute", execution(handle, sealed, RESULTS))
    assert kinds == [True]
    sealed = pool(peer.memory(CONSTANT.tobytes(), constant=True))
    with pytest.raises(BadData, match="read-only"):
        peer.call("Execute", execution(handle, RESULTS, sealed))
    peer.close()


def test_constants_must_be_sealed(local: DeviceServer) -> None:
    peer = Peer(local)
    message = model_to_wire(MODEL, [peer.memory(CONSTANT.tobytes())])
    for method, kind in (
        ("PrepareModel", device_pb2.PrepareModelRequest),
        ("GetSupportedOperations", device_pb2.GetSupportedOperationsRequest),
    ):
        message.pools[:] = [peer.memory(CONSTANT.tobytes())]
        with pytest.raises(BadData, match="sealed"):
            peer.call(method, kind(model=message))
    peer.close()


def test_a_session_is_not_opened_beside_the_side_socket(local: DeviceServer) -> None:
    peer = Peer(local)
    with pytest.raises(grpc.RpcError) as caught:
        next(peer.stub.OpenSession(device_pb2.OpenSessionRequest()))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    peer.close()


def test_sockets_are_for_their_user_alone(local: DeviceServer) -> None:
    path = local.address.path
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert local.address.memory_path.stat().st_mode & 0o777 == 0o600
    assert os.umask(0o022) != 0o177
    local.stop()
    assert not list(path.parent.iterdir())


def test_a_server_that_ends_late_leaves_the_sockets_of_its_successor(
    tmp_path: Path, device: AddingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems may give the numbers of its own sockets to those of the successor."""
    address = Address.parse(f"unix://{tmp_path}/d.sock")
    server, successor = DeviceServer(device, address), DeviceServer(device, address)
    server.start()
    end = server._stop_grpc

    def end_late() -> None:
        end()
        successor.start()

    monkeypatch.setattr(server, "_stop_grpc", end_late)
    server.stop()
    peer = Peer(successor)
    assert peer.call("Describe", device_pb2.DescribeRequest()).name == "adder"
    peer.close()
    successor.stop()
    assert not list(tmp_path.iterdir())


def test_odd_characters_in_a_path(tmp_path: Path, device: AddingDevice) -> None:
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    server = DeviceServer(device, Address.parse(f"unix://{folder}/ü?.sock"))
    server.start()
    peer = Peer(server)
    assert peer.call("Describe", device_pb2.DescribeRequest()).name == "adder"
    peer.close()
    server.stop()
    assert not list(folder.iterdir())


def test_pools_of_the_model_are_those_of_the_message(peer: Peer) -> None:
    message = model_to_wire(MODEL, ())
    with pytest.raises(BadData, match="pool 0; the model has 0"):
        peer.call("PrepareModel", device_pb2.PrepareModelRequest(model=message, options=OPTIONS))
    assert isinstance(MODEL.pools[0], HostMemory)


def test_pings_cost_little(device: AddingDevice) -> None:
    server = DeviceServer(device, Address.parse("127.0.0.1:0"), limits=LIMITS)
    server.start()
    try:
        began_s = time.process_time()
        assert answered_pings(server.address.port, 200_000) == 200_000
        # A server that disconnects who pings too often takes 16 s.
        assert time.process_time() - began_s < 4
    finally:
        server.stop()

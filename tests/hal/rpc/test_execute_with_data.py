"""Executions on another host, whose calls carry their data: sizes, cancellation, hostile peers."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    Cancelled,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedPersistent,
)
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel, _whole_inputs
from neurald.hal.rpc.server.execution_handler import ExecutionHandler
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.data_chunks import part_bytes
from neurald.hal.rpc.transport.status import ONE_REPLY
from neurald.hal.sync.cancellation import Cancellation

RUN = ExecuteOptions()
MIB = (1 << 20) // 4


@pytest.fixture
def server(device: AddingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse("127.0.0.1:0"), limits=Limits(memory_bytes=256 << 20))
    server.start()
    yield server
    server.stop()


def prepared(remote: RemoteDevice, count: int) -> RemotePreparedModel:
    return remote.prepare_model(addition(np.ones(count)), PrepareOptions())


def run(model: RemotePreparedModel, count: int, options: ExecuteOptions = RUN) -> None:
    values, result = np.arange(count, dtype=np.float32), np.full(count, np.nan, np.float32)
    assert model.execute(request(values, result), options).is_sufficient
    assert np.array_equal(result, values + 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 1000, MIB - 16, MIB, MIB + 1, 5 * MIB + 3])
@pytest.mark.parametrize("rate", [0.0, 1e5, 5e8, 1e12])
@pytest.mark.parametrize("takes_parts", [True, False], ids=["", "an older daemon"])
def test_sizes(remote: RemoteDevice, count: int, rate: float, takes_parts: bool, traffic: Traffic) -> None:
    model = prepared(remote, count)
    model.connection.bytes_per_s = rate
    model.connection.description.takes_parts = takes_parts
    calls = traffic.messages_sent
    for limits in (RUN, RUN, ExecuteOptions(deadline_s=time.monotonic() + 60)):
        run(model, count, limits)
    part = part_bytes(rate) if takes_parts else 1 << 20
    assert traffic.messages_sent - calls == 3 * -(-count * 4 // part)
    assert remote.status().memories <= 1


def test_inputs_that_are_a_whole_memory_are_sent_from_there() -> None:
    whole, part, twice, both, empty = (HostMemory(bytearray(size)) for size in (64, 64, 64, 64, 0))
    arguments = [
        Argument(pool=0, length=64),
        Argument(pool=1, length=60),
        Argument(pool=2, length=64),
        Argument(pool=2, offset=4, length=8),
        Argument(pool=3, length=64),
        Argument(pool=4),
        Argument(),
        Argument(pool=9, length=64),
    ]
    outputs = (Argument(pool=5, length=64),)
    pools = (whole, part, twice, both, empty, both)
    sent = _whole_inputs(Request(inputs=tuple(arguments), outputs=outputs, pools=pools))
    assert sent == {id(whole)}


def test_slow_links_get_compressed_data(remote: RemoteDevice, traffic: Traffic) -> None:
    model = prepared(remote, 2 * MIB)
    values = np.zeros(2 * MIB, np.float32)
    moved = []
    for rate in (0.0, 1e5):
        model.connection.bytes_per_s = rate
        before = traffic.bytes_sent, traffic.bytes_received
        assert model.execute(request(values, values.copy()), RUN).is_sufficient
        moved.append((traffic.bytes_sent - before[0], traffic.bytes_received - before[1]))
    for plain, packed in zip(*moved, strict=True):
        assert packed < plain / 20


def test_an_older_daemon(remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "carries_data", False)
    for count in (4, 2 * MIB):
        run(prepared(remote, count), count)


def test_outputs_that_do_not_fit(remote: RemoteDevice) -> None:
    constant = np.arange(12, dtype=np.float32).reshape(4, 3)
    model = remote.prepare_model(addition(constant, dynamic=True), PrepareOptions())
    small = np.full(11, np.nan, np.float32)
    answer = model.execute(request(constant, small), RUN)
    assert not answer.is_sufficient
    assert answer.output_shapes[0].dimensions == (4, 3)
    assert np.isnan(small).all()


@pytest.mark.parametrize("count", [4, 2 * MIB])
def test_cancellation(remote: RemoteDevice, device: AddingDevice, count: int) -> None:
    model = prepared(remote, count)
    started, end = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        started.set()
        end.wait(60)

    device.on_execute = wait
    cancellation = Cancellation()

    def cancel() -> None:
        started.wait(10)
        cancellation.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(Cancelled):
        run(model, count, ExecuteOptions(cancellation=cancellation))
    end.set()
    device.on_execute = lambda *_: None
    run(model, count)  # the session goes on


@pytest.mark.parametrize("count", [4, 2 * MIB])
def test_deadlines(remote: RemoteDevice, device: AddingDevice, count: int) -> None:
    model = prepared(remote, count)
    end = threading.Event()

    def wait(*_: Any) -> None:
        end.wait(60)

    device.on_execute = wait
    # Long enough to begin before it has passed, also on a busy machine.
    with pytest.raises(MissedDeadlineTransient):
        run(model, count, ExecuteOptions(deadline_s=time.monotonic() + 1.0))
    end.set()
    device.on_execute = lambda *_: None
    run(model, count)


def test_errors_of_the_device(remote: RemoteDevice, device: AddingDevice) -> None:
    def refuse(*_: Any) -> None:
        raise ResourceExhaustedPersistent("no room for operand 7")

    def end(*_: Any) -> None:
        sys.exit("as a script does")

    for count in (4, 2 * MIB):
        model = prepared(remote, count)
        device.on_execute = refuse
        with pytest.raises(ResourceExhaustedPersistent, match="operand 7"):
            run(model, count)
        device.on_execute = end
        with pytest.raises(OpFailed, match="internal error of the daemon"):
            run(model, count)
        device.on_execute = lambda *_: None
        run(model, count)


def test_limits_hold(remote: RemoteDevice) -> None:
    model = prepared(remote, 20 * MIB)
    threads = []
    errors: list[Error] = []

    def one() -> None:
        try:
            run(model, 20 * MIB)
        except Error as error:
            errors.append(error)

    for _ in range(8):
        threads.append(threading.Thread(target=one))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert all("memory_bytes" in str(error) for error in errors)
    assert len(errors) < 8
    run(model, 20 * MIB)


def chunk(size: int) -> device_pb2.DataChunk:
    return device_pb2.DataChunk(content=bytes(size))


def exchange(
    model: RemotePreparedModel,
    *messages: device_pb2.ExecuteWithDataRequest,
    metadata: tuple[tuple[str, str], ...] = (),
) -> int:
    """Makes a call of any messages; returns the number of replies."""
    connection = model.connection
    metadata = (*connection._calls.metadata, *metadata)
    with connection._calls.failures("Execute"):
        return len(list(connection._stub.ExecuteWithData(iter(messages), metadata=metadata, timeout=60)))


def message(
    model: RemotePreparedModel, *chunks: device_pb2.DataChunk, size: int = 16, results: int = 16
) -> Any:
    pools = [types_pb2.RequestPool(content_bytes=size), types_pb2.RequestPool(results_bytes=results)]
    return device_pb2.ExecuteWithDataRequest(
        request=device_pb2.ExecuteRequest(
            prepared_model=model.handle,
            request=types_pb2.Request(
                inputs=[types_pb2.Argument(pool=0, length=16)],
                outputs=[types_pb2.Argument(pool=1, length=16)],
                pools=pools,
            ),
        ),
        chunks=chunks,
    )


@pytest.mark.parametrize("metadata", [(), (ONE_REPLY,)], ids=["stream", "one reply"])
def test_messages_that_are_not_valid(
    remote: RemoteDevice, server: DeviceServer, metadata: tuple[tuple[str, str], ...]
) -> None:
    model = prepared(remote, 4)
    parts = device_pb2.ExecuteWithDataRequest(chunks=[chunk(8), chunk(8)])
    assert exchange(model, message(model, chunk(16)), metadata=metadata) == 1
    assert exchange(model, message(model), parts, metadata=metadata) == 1
    only = message(model, chunk(16))
    only.request.request.pools[0].memory = bytes(16)
    unknown = message(model, chunk(16))
    unknown.request.prepared_model += 1
    bad = [
        (device_pb2.ExecuteWithDataRequest(),),
        (),
        (message(model),),
        (message(model, chunk(8)),),
        (message(model, chunk(17)),),
        (message(model, chunk(16), chunk(1)),),
        (message(model, chunk(12), size=12),),
        (message(model, device_pb2.DataChunk(content=b"x", unpacked_bytes=16)),),
        (only,),
        (unknown,),
    ]
    for messages in bad:
        with pytest.raises(BadData):
            exchange(model, *messages, metadata=metadata)
    with pytest.raises(ResourceExhaustedPersistent, match=r"a message has 2097\d+ bytes; .* at most 1310720"):
        exchange(model, message(model, chunk(2 << 20), size=2 << 20), metadata=metadata)
    with pytest.raises(Error):
        exchange(model, message(model, size=1 << 40), metadata=metadata)
    wait_until(lambda: server.handler.admission.calls == 0)
    run(model, 4)


def test_results_that_do_not_fit_in_one_reply(remote: RemoteDevice) -> None:
    model = prepared(remote, 4)
    for results in (1 << 20, (1 << 20) + 1):
        request = message(model, chunk(16), results=results)
        assert exchange(model, request) == 1 + (results > 1 << 20)
        if results == 1 << 20:
            assert exchange(model, request, metadata=(ONE_REPLY,)) == 1
        else:
            with pytest.raises(BadData, match="1048577 bytes of results do not fit in one reply"):
                exchange(model, request, metadata=(ONE_REPLY,))


def test_a_daemon_that_tells_nonsense(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = prepared(remote, 4)
    shape = types_pb2.OutputShape(dimensions=types_pb2.Dimensions(sizes=[4]), sufficient=True)
    reply = device_pb2.ExecuteReply(output_shapes=[shape])
    replies: list[list[device_pb2.ExecuteWithDataReply]] = [
        [],
        [device_pb2.ExecuteWithDataReply()],
        [device_pb2.ExecuteWithDataReply(reply=reply)],
        [device_pb2.ExecuteWithDataReply(reply=reply, chunks=[chunk(1 << 19)])],
        [device_pb2.ExecuteWithDataReply(reply=reply, chunks=[chunk(3)])],
        [device_pb2.ExecuteWithDataReply(reply=device_pb2.ExecuteReply(output_shapes=[shape] * 2))],
        [
            device_pb2.ExecuteWithDataReply(
                reply=reply, chunks=[device_pb2.DataChunk(content=b"no", unpacked_bytes=64)]
            )
        ],
    ]
    values = np.full(4, 7, np.float32)
    for each in replies:
        monkeypatch.setattr(
            ExecutionHandler,
            "run_with_data",
            lambda *_, each=each, **__: (message.SerializeToString() for message in each),
        )
        with pytest.raises(Error) as caught:
            model.execute(request(values, values), ExecuteOptions(deadline_s=time.monotonic() + 5))
        assert isinstance(caught.value, OpFailed) or each == []
    assert values.tolist() == [7] * 4


def test_a_client_that_stalls_is_cut_off(
    remote: RemoteDevice, server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.streams, "_patience_s", 0.5)
    model = prepared(remote, 2 * MIB)
    hold = threading.Event()

    def slowly() -> Iterator[device_pb2.ExecuteWithDataRequest]:
        first = message(model, size=8 << 20)
        yield first
        hold.wait(20)

    call = model.connection._stub.ExecuteWithData(
        slowly(), metadata=model.connection._calls.metadata, timeout=30
    )
    with pytest.raises(grpc.RpcError):
        list(call)
    hold.set()
    wait_until(lambda: server.handler.admission.calls == 0)


def kept_calls(server: DeviceServer) -> dict[Any, Any]:
    return server._service._kept._calls


def test_one_call_stays_open(server: DeviceServer, remote: RemoteDevice) -> None:
    models = [prepared(remote, count) for count in (4, 1000)]
    for _ in range(3):
        for model, count in zip(models, (4, 1000), strict=True):
            run(model, count)
    (kept,) = kept_calls(server).values()
    run(prepared(remote, 2 * MIB), 2 * MIB)
    # Requests with limits go by calls of their own, and so do large ones to older daemons.
    run(models[0], 4, ExecuteOptions(deadline_s=time.monotonic() + 60))
    models[0].connection.description.takes_parts = False
    run(prepared(remote, 2 * MIB), 2 * MIB)
    run(models[0], 4)
    assert list(kept_calls(server).values()) == [kept]
    remote.close()
    wait_until(lambda: not kept_calls(server))


def test_executions_that_can_be_cancelled_go_through_the_call(
    server: DeviceServer, remote: RemoteDevice, device: AddingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = prepared(remote, 4)
    monkeypatch.setattr(model.connection, "_through_own_call", None)  # a call of its own would fail
    run(model, 4, ExecuteOptions(cancellation=Cancellation()))
    (kept,) = kept_calls(server).values()
    cancellation, cancelled = Cancellation(), threading.Event()

    def wait(_: Any, options: ExecuteOptions) -> None:
        cancellation.cancel()
        assert options.cancellation is not None
        wait_until(lambda: options.cancellation is None or options.cancellation.is_cancelled)
        cancelled.set()

    device.on_execute = wait
    with pytest.raises(Cancelled):
        run(model, 4, ExecuteOptions(cancellation=cancellation))
    assert cancelled.wait(60)
    device.on_execute = lambda *_: None
    run(model, 4, ExecuteOptions(cancellation=Cancellation()))
    (another,) = kept_calls(server).values()
    assert another is not kept
    # What is cancelled after its end does no harm to the next one.
    cancellation.cancel()
    run(model, 4)
    assert list(kept_calls(server).values()) == [another]


def test_a_call_that_was_cut_off_is_no_error(server: DeviceServer, remote: RemoteDevice) -> None:
    model = prepared(remote, 4)
    for _ in range(3):
        run(model, 4)
        wait_until(lambda: kept_calls(server))
        for kept in tuple(kept_calls(server).values()):
            kept.end()
        run(model, 4)
        model.connection._kept._refused_until = 0.0


def test_many_clients_share_the_places(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._service._kept, "_limit", 2)
    monkeypatch.setattr(server._service._kept, "_grace_s", 0.0)
    others = [connect(str(server.address)) for _ in range(4)]
    models = [prepared(each, 4) for each in (remote, *others)]
    for _ in range(4):
        for model in models:
            run(model, 4)
            assert len(kept_calls(server)) <= 2
    monkeypatch.setattr(server._service._kept, "_grace_s", 3600.0)
    for model in models:
        run(model, 4)
    for each in others:
        each.close()


def test_an_error_ends_the_call_and_not_the_session(
    server: DeviceServer, remote: RemoteDevice, device: AddingDevice
) -> None:
    model = prepared(remote, 4)
    run(model, 4)

    def fail(*_: Any) -> None:
        raise OpFailed("too hot")

    device.on_execute = fail
    for _ in range(3):
        with pytest.raises(OpFailed, match="too hot"):
            run(model, 4)
    device.on_execute = lambda *_: None
    run(model, 4)
    assert len(server.handler.sessions.all()) == 1


def test_a_client_that_goes_cancels_its_request(
    server: DeviceServer, remote: RemoteDevice, device: AddingDevice
) -> None:
    model = prepared(remote, 4)
    seen: list[bool] = []
    entered = threading.Event()

    def wait(_: Request, options: ExecuteOptions) -> None:
        entered.set()
        cancellation = options.cancellation
        assert cancellation is not None
        wait_until(lambda: cancellation.is_cancelled)
        seen.append(True)

    device.on_execute = wait

    def call() -> None:
        with pytest.raises(Error):
            run(model, 4)

    thread = threading.Thread(target=call)
    thread.start()
    assert entered.wait(30)
    remote.close()
    thread.join()
    wait_until(lambda: seen)
    wait_until(lambda: not kept_calls(server))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        (bytes(3 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (
            device_pb2.ExecuteWithDataRequest(
                request=device_pb2.ExecuteRequest(
                    prepared_model=1, request=types_pb2.Request(pools=[types_pb2.RequestPool(buffer=1)])
                )
            ).SerializeToString(),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (b"", grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=["no message", "too large", "a buffer", "empty"],
)
def test_what_a_kept_call_refuses(
    server: DeviceServer, remote: RemoteDevice, message: bytes, code: grpc.StatusCode
) -> None:
    model = prepared(remote, 4)
    run(model, 4)
    with grpc.insecure_channel(server.address.target) as channel:
        execute: Any = channel.stream_stream(f"/{SERVICE}/ExecuteEach")
        replies = execute(iter([message]), metadata=model.connection._calls.metadata)
        with pytest.raises(grpc.RpcError) as caught:
            next(replies)
        assert caught.value.code() is code
        without_session = execute(iter([message]), metadata=model.connection._access)
        with pytest.raises(grpc.RpcError) as caught:
            next(without_session)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    run(model, 4)


def kept_call(model: RemotePreparedModel, channel: grpc.Channel, messages: Iterable[Any]) -> Any:
    execute: Any = channel.stream_stream(f"/{SERVICE}/ExecuteEach")
    encoded = (each.SerializeToString() for each in messages)
    return execute(encoded, metadata=model.connection._calls.metadata, timeout=30)


def in_parts(model: RemotePreparedModel, size: int, part_bytes: int) -> list[Any]:
    """Returns the messages of a request that arrives in chunks of 16 bytes or more."""
    first = message(model, size=size, results=size)
    first.part_bytes = part_bytes
    step = max(16, size // 8)
    chunks = [chunk(min(step, size - offset)) for offset in range(0, size, step)]
    return [first, *(device_pb2.ExecuteWithDataRequest(chunks=[each]) for each in chunks)]


def test_parts_of_requests_and_replies(server: DeviceServer, remote: RemoteDevice) -> None:
    model = prepared(remote, 4)
    sizes = [(16, 1), (1 << 18, 1), (1 << 18, 1 << 17), (3 << 20, 1 << 31)]
    parts = [1, 4, 2, 3]
    with grpc.insecure_channel(server.address.target) as channel:
        requests = [each for size, part in sizes for each in in_parts(model, size, part)]
        replies = [
            device_pb2.ExecuteWithDataReply.FromString(each) for each in kept_call(model, channel, requests)
        ]
    assert [each.HasField("reply") for each in replies] == [
        number == 0 for count in parts for number in range(count)
    ]
    sent = [sum(len(each.content) for each in reply.chunks) for reply in replies]
    assert sum(sent) == sum(size for size, _ in sizes)
    assert max(sent) <= 1 << 20
    wait_until(lambda: server.handler.admission.calls == 0)


def test_what_kept_calls_with_parts_refuse(server: DeviceServer, remote: RemoteDevice) -> None:
    model = prepared(remote, 4)
    first, *chunks = in_parts(model, 1 << 16, 1 << 16)
    bad = [
        [first],  # it ends too early
        [first, *chunks[:-1]],
        [first, *chunks[:-1], first],
        [first, *chunks[:-1], device_pb2.ExecuteWithDataRequest(chunks=[chunk((1 << 16) + 1)])],
        [message(model), *in_parts(model, 16, 1)[1:]],  # without announcing it
        [message(model, chunk(16), size=16, results=2 << 20)],
    ]
    with grpc.insecure_channel(server.address.target) as channel:
        for messages in bad:
            with pytest.raises(grpc.RpcError) as caught:
                list(kept_call(model, channel, iter(messages)))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        too_large = [first, device_pb2.ExecuteWithDataRequest(chunks=[chunk(2 << 20)])]
        with pytest.raises(grpc.RpcError) as caught:
            list(kept_call(model, channel, iter(too_large)))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    wait_until(lambda: server.handler.admission.calls == 0)
    run(model, 4)


@pytest.mark.parametrize("how", ["sends", "takes"])
def test_a_client_that_stalls_within_a_kept_request_is_cut_off(
    server: DeviceServer, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    model = prepared(remote, 4)
    hold = threading.Event()
    size = 32 << 20

    def slowly() -> Iterator[Any]:
        messages = in_parts(model, size, 1 << 16)
        messages[1:] = [device_pb2.ExecuteWithDataRequest(chunks=[chunk(1 << 20)]) for _ in range(size >> 20)]
        yield from messages[: 3 if how == "sends" else None]
        hold.wait(30)

    with grpc.insecure_channel(server.address.target) as channel:
        replies = kept_call(model, channel, slowly())
        if how == "takes":  # gRPC buffers some of the replies, whatever their reader does
            next(replies)
        # Only now, since all that was sent may take longer to arrive on a busy machine.
        monkeypatch.setattr(server.streams, "_patience_s", 0.5)
        wait_until(lambda: server.handler.admission.calls == 0)
        with pytest.raises(grpc.RpcError):
            list(replies)
        hold.set()
    run(model, 4)


def test_silent_clients_do_not_hold_up_the_end(device: AddingDevice) -> None:
    server = DeviceServer(device, Address.parse("127.0.0.1:0"))
    server.start()
    client = connect(str(server.address))
    run(prepared(client, 4), 4)
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 30
    client.close()

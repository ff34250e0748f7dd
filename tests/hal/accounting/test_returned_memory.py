"""Calls and sessions return everything at once, however they end, without a collection."""

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error, OpFailed
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.status import SESSION_KEY
from neurald.hal.sync.cancellation import Cancellation

MIB = 1 << 20
NOW = PrepareOptions()


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


@pytest.fixture
def server(tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"), limits=Limits())
    server.start()
    gc.collect()
    gc.disable()
    yield server
    gc.enable()
    logging.disable(logging.NOTSET)
    server.stop()


def used(server: DeviceServer) -> tuple[int, int]:
    accounts = server.handler.sessions.accounts
    return accounts.memory.used, accounts.descriptors.used


def all_is_back(server: DeviceServer) -> None:
    wait_until(lambda: used(server) == (0, 0))


class Stream:
    """A session with a stream that ends half-way."""

    def __init__(self, server: DeviceServer) -> None:
        path = server.address.memory_path
        self.side = ChannelClient.connect(path, 5)
        self.channel = grpc.insecure_channel(server.address.target)
        self.metadata = ((SESSION_KEY, self.side.session.hex()),)
        self.may_end = threading.Event()

    def close(self) -> None:
        self.may_end.set()
        self.channel.close()
        self.side.close()

    def parts(self, count: int, *more: device_pb2.WriteMemoryRequest) -> Iterator[bytes]:
        yield device_pb2.WriteMemoryRequest(size_bytes=25 * MIB).SerializeToString()
        for _ in range(count):
            yield device_pb2.WriteMemoryRequest(chunk=bytes(MIB)).SerializeToString()
        for part in more:
            yield part.SerializeToString()
        self.may_end.wait(10)


def test_a_memory_that_was_half_written(server: DeviceServer) -> None:
    ends: tuple[Callable[[Any, Stream], None], ...] = (
        lambda call, stream: call.cancel(),
        lambda call, stream: stream.channel.close(),
    )
    for end in ends:
        stream = Stream(server)
        write: Any = stream.channel.stream_unary(f"/{SERVICE}/WriteMemory")
        call = write.future(stream.parts(10), metadata=stream.metadata)
        wait_until(lambda: used(server)[0] == 25 * MIB)
        end(call, stream)
        stream.close()
        all_is_back(server)


def test_a_memory_that_is_written_wrongly(server: DeviceServer) -> None:
    stream = Stream(server)
    write: Any = stream.channel.stream_unary(f"/{SERVICE}/WriteMemory")
    parts = stream.parts(1, device_pb2.WriteMemoryRequest(size_bytes=1))
    with pytest.raises(grpc.RpcError, match="has no content; a chunk is expected"):
        write(parts, metadata=stream.metadata, timeout=60)
    all_is_back(server)
    stream.close()


def test_a_memory_that_was_half_read(server: DeviceServer) -> None:
    stream = Stream(server)
    write: Any = stream.channel.stream_unary(f"/{SERVICE}/WriteMemory")
    stream.may_end.set()
    token = device_pb2.WriteMemoryReply.FromString(
        write(stream.parts(25), metadata=stream.metadata, timeout=60)
    ).memory
    read: Any = stream.channel.unary_stream(f"/{SERVICE}/ReadMemory")
    reply = read(device_pb2.ReadMemoryRequest(memory=token).SerializeToString(), metadata=stream.metadata)
    next(iter(reply))
    reply.cancel()
    stream.close()
    all_is_back(server)


@contextlib.contextmanager
def client(server: DeviceServer) -> Iterator[RemoteDevice]:
    remote = connect(str(server.address))
    try:
        yield remote
    finally:
        remote.close()


def shared_request(memory: SharedMemory) -> Request:
    return Request(
        inputs=(Argument(pool=0, length=12, dimensions=(3,)),),
        outputs=(Argument(pool=0, offset=64, length=12),),
        pools=(memory,),
    )


def fails(kind: type[Exception]) -> Callable[[object, object], None]:
    def fail(request: object, options: object) -> None:
        raise kind("it does not work")

    return fail


@pytest.mark.parametrize("kind", [OpFailed, ValueError, MemoryError])
def test_calls_that_fail(server: DeviceServer, device: AddingDevice, kind: type[Exception]) -> None:
    logging.disable()  # pytest keeps records, and with them the frames of errors
    with client(server) as remote:
        prepared = remote.prepare_model(addition(np.ones(3)), NOW)
        device.on_execute = fails(kind)
        burst = prepared.create_burst()
        for execute in (prepared.execute, burst.execute):
            for wanted in (
                request(np.ones(3, np.float32), np.zeros(3, np.float32)),
                shared_request(SharedMemory.create(4 * MIB)),
            ):
                with pytest.raises(Error):
                    execute(wanted, ExecuteOptions())
        fenced = prepared.execute_fenced(shared_request(SharedMemory.create(4 * MIB)), (), ExecuteOptions())
        with pytest.raises(Error):
            fenced.result()
        burst.close()
    all_is_back(server)


def test_clients_that_go_while_they_execute(server: DeviceServer, device: AddingDevice) -> None:
    began = threading.Semaphore(0)

    def works(request: object, options: ExecuteOptions) -> None:
        began.release()
        cancellation = options.cancellation or Cancellation()
        end = time.monotonic() + 10
        while not cancellation.is_cancelled and time.monotonic() < end:
            time.sleep(0.005)
        cancellation.require_not_cancelled("while it worked")

    with client(server) as remote:
        prepared = remote.prepare_model(addition(np.ones(3)), NOW)
        device.on_execute = works
        burst = prepared.create_burst()

        def run(execute: Callable[[Request, ExecuteOptions], object]) -> None:
            with contextlib.suppress(Error):
                execute(shared_request(SharedMemory.create(4 * MIB)), ExecuteOptions())

        threads = [threading.Thread(target=run, args=(each.execute,)) for each in (prepared, burst)]
        for thread in threads:
            thread.start()
        prepared.execute_fenced(shared_request(SharedMemory.create(4 * MIB)), (), ExecuteOptions())
        assert began.acquire(timeout=60)
        assert used(server)[0] >= 4 * MIB
    all_is_back(server)
    for thread in threads:
        thread.join()

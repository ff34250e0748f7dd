"""A daemon that begins an answer and does not go on is given up."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, run_addition

from neurald._proto import device_pb2
from neurald.hal.admission.sessions.session import Session
from neurald.hal.device import PrepareOptions, Verdict
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.calls import answer_silence
from neurald.hal.rpc.client.calls.answer_silence import rest_of_answer
from neurald.hal.rpc.client.calls.carried_answer import CarriedAnswer
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.execution_handler import ExecutionHandler
from neurald.hal.rpc.server.handler import DeviceHandler
from neurald.hal.rpc.server.server import DeviceServer


class Call(grpc.RpcError):
    """A call whose messages arrive one by one, until it is cancelled or ends."""

    def __init__(self, *messages: bytes | None) -> None:
        super().__init__()
        self.arrived: SimpleQueue[Any] = SimpleQueue()
        for message in messages:
            self.arrived.put(message)

    def cancel(self) -> None:
        self.arrived.put(self)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        message = self.arrived.get()
        if message is None:
            raise StopIteration
        if message is self:
            raise self
        assert isinstance(message, bytes)
        return message


def test_messages_that_arrive_are_taken() -> None:
    assert list(rest_of_answer(Call(b"one", b"two", None))) == [b"one", b"two"]


def test_other_errors_stay() -> None:
    call = Call(b"one")
    call.cancel()
    replies = rest_of_answer(call)
    assert next(replies) == b"one"
    with pytest.raises(Call):
        next(replies)


def test_nobody_watches_an_answer_that_is_complete() -> None:
    before = set(threading.enumerate())
    replies = rest_of_answer(Call(b"one"))
    assert next(replies) == b"one"
    (watch,) = [each for each in threading.enumerate() if "silence" in each.name and each not in before]
    replies.close()
    watch.join(60)
    assert not watch.is_alive()


def test_silence_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_silence, "MAX_SILENCE_S", 0.05)
    with pytest.raises(OpFailed, match=r"has sent nothing for 0\.05 s in the middle of an answer"):
        list(rest_of_answer(Call(b"one", b"two")))


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[RemoteDevice]:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    yield remote
    remote.close()
    server.stop()


def test_calls_that_need_no_work_are_given_up(remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that hangs while it looks at a model, or a daemon that pretends to."""
    waits = threading.Event()

    def hang(device: AddingDevice, model: Model) -> Sequence[Verdict]:
        waits.wait(60)
        return [Verdict(ok=True)] * len(model.main.operations)

    model = addition(np.ones(3, np.float32))
    # So that its constants are there, which might also take longer on a busy machine.
    assert remote.supported_operations(model)[0].ok
    with monkeypatch.context() as patch:
        patch.setattr(AddingDevice, "supported_operations", hang)
        patch.setattr(answer_silence, "MAX_SILENCE_S", 0.1)
        with pytest.raises(OpFailed, match=r"has not answered GetSupportedOperations in 0\.1 s"):
            remote.supported_operations(model)
    waits.set()
    assert remote.supported_operations(model)[0].ok


@pytest.mark.parametrize(
    ("owner", "name", "method"),
    [
        (DeviceHandler, "copy_to_buffer", "CopyToBuffer"),
        (DeviceHandler, "copy_from_buffer", "CopyFromBuffer"),
        (ExecutionHandler, "profile", "Profile"),
    ],
)
def test_copies_and_profiles_are_given_up(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, method: str
) -> None:
    waits = threading.Event()
    message = getattr(device_pb2, f"{method}Request")()
    monkeypatch.setattr(owner, name, lambda *_: waits.wait(60))
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    try:
        monkeypatch.setattr(answer_silence, "MAX_SILENCE_S", 0.02)
        with pytest.raises(OpFailed, match=rf"has not answered {method} in 0\.\d+ s"):
            remote._connection.call(method, message)
    finally:
        waits.set()
        remote.close()
        server.stop()


@pytest.mark.parametrize("silent", [True, False])
def test_memories_that_do_not_arrive_are_given_up(
    remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """Silence in place of the content, or parts without content that have no end."""
    ends = threading.Event()

    def parts(
        handler: DeviceHandler, session: Session, message: device_pb2.ReadMemoryRequest
    ) -> Iterator[device_pb2.ReadMemoryReply]:
        while not ends.wait(60 if silent else 0.0):
            yield device_pb2.ReadMemoryReply()

    target = HostMemory(bytearray(8))
    with monkeypatch.context() as patch:
        patch.setattr(DeviceHandler, "read_memory", parts)
        patch.setattr(answer_silence, "MAX_SILENCE_S", 0.2)
        with pytest.raises((OpFailed, BadData), match=r"sent nothing for|without bytes"):
            remote._connection.read_memory(bytes(16), target)
    ends.set()


@pytest.mark.parametrize("length", [8, 1 << 20])
def test_executions_end_with_results_that_are_cut(
    remote: RemoteDevice, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply of a daemon that lies about its end, in one message or in several."""
    values = np.ones(length, np.float32)
    prepared = remote.prepare_model(addition(values), PrepareOptions())
    take = CarriedAnswer.take

    def take_less(answer: CarriedAnswer, data: bytes) -> bool:
        message = device_pb2.ExecuteWithDataReply.FromString(data)
        for chunk in message.chunks:
            chunk.content = chunk.content[:-4]
            chunk.ClearField("unpacked_bytes")
        return take(answer, message.SerializeToString())

    with monkeypatch.context() as patch:
        patch.setattr(answer_silence, "MAX_SILENCE_S", 0.1)
        patch.setattr(CarriedAnswer, "take", take_less)
        with pytest.raises(OpFailed, match=r"in the middle of an answer|invalid reply"):
            run_addition(prepared, values)
    assert np.array_equal(run_addition(prepared, values), 2 * values)

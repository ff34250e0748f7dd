"""A worker's end of a lane, whose caller is not trusted."""

import os
import socket
from collections.abc import Iterator

import numpy as np
import pytest
from support.inference import zoo
from support.inference.loading import load

from neurald.hal.errors import ResultCode
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import (
    Answer,
    Arena,
    RunAnswer,
    RunFailure,
    RunOrder,
    TensorAt,
    decode_answer,
    encode,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.service.inference.worker.lane_server import LaneServer
from neurald.service.inference.worker.loaded_model import LoadedModel


class Caller:
    """The other end of a lane."""

    def __init__(self, model: LoadedModel, *, is_trusted: bool = False, arena_bytes: int = 4096) -> None:
        self.end, theirs = socket_end.pair()
        self.end.settimeout(60)
        self.server = LaneServer(theirs, model, is_trusted=is_trusted)
        self.server.start()
        self.arena = SharedMemory.create(arena_bytes)
        socket_end.send(self.end, encode(Arena(size=arena_bytes)), self.arena.fd)

    def run(self, *inputs: TensorAt, results_at: int = 1024, wanted: tuple[int, ...] = (0,)) -> Answer:
        order = RunOrder(number=7, inputs=inputs, results_at=results_at, wanted=wanted)
        socket_end.send(self.end, encode(order))
        packet, descriptor = socket_end.receive(self.end)
        answer: Answer = decode_answer(packet)
        if descriptor is not None and isinstance(answer, RunAnswer):
            self.attached = SharedMemory.received(descriptor, answer.attached_bytes, constant=False)
        return answer

    def is_cut(self) -> bool:
        try:
            return socket_end.receive(self.end)[0] == b""
        except ConnectionResetError:
            return True


@pytest.fixture(scope="module")
def same() -> LoadedModel:
    return load(zoo.reshaping("INT32"))


@pytest.fixture
def caller(same: LoadedModel) -> Iterator[Caller]:
    found = Caller(same)
    yield found
    found.end.close()


X = TensorAt(kind="int32", shape=(1, 4), offset=0, size=16)


@pytest.mark.parametrize("is_trusted", [True, False])
def test_outputs_are_behind_the_inputs(same: LoadedModel, is_trusted: bool) -> None:
    caller = Caller(same, is_trusted=is_trusted)
    values = np.frombuffer(caller.arena.view(), np.int32)
    for number in range(5):
        values[:4] = np.arange(4) + number
        answer = caller.run(X)
        assert isinstance(answer, RunAnswer)
        (output,) = answer.outputs
        assert output.in_arena(caller.arena.view()).tolist() == list(range(number, number + 4))
        assert answer.receipt.devices == ("cpu",)
    caller.end.close()


def test_outputs_that_do_not_fit_come_in_a_memory_of_their_own(caller: Caller) -> None:
    np.frombuffer(caller.arena.view(), np.int32)[:4] = range(4)
    answer = caller.run(X, results_at=4096 - 8)
    assert isinstance(answer, RunAnswer)
    assert answer.outputs[0].in_arena(caller.attached.view()).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ((), {}),
        ((X, X), {}),
        ((TensorAt(kind="int32", shape=(1, 4), offset=4090, size=16),), {}),
        ((TensorAt(kind="int32", shape=(1, 4), offset=2**62, size=16),), {}),
        ((TensorAt(kind="int32", shape=(1, 400), offset=0, size=16),), {}),
        ((TensorAt(kind="int32", shape=(4,), offset=0, size=16),), {}),
        ((TensorAt(kind="float32", shape=(1, 4), offset=0, size=16),), {}),
        ((X,), {"results_at": -1}),
        ((X,), {"results_at": 5000}),
        ((X,), {"wanted": (1,)}),
        ((X,), {"wanted": (-1,)}),
    ],
)
def test_runs_that_do_not_fit_are_refused(
    caller: Caller, inputs: tuple[TensorAt, ...], named: dict[str, object]
) -> None:
    answer = caller.run(*inputs, **named)  # type: ignore[arg-type]
    assert isinstance(answer, RunFailure)
    assert answer.code == ResultCode.BAD_DATA
    assert isinstance(caller.run(X), RunAnswer)


@pytest.mark.parametrize("packet", [b"\xff", b"\x92\xa3run\x01", bytes(100), encode(Arena(size=4096))])
def test_packets_that_are_none_end_the_lane(caller: Caller, packet: bytes) -> None:
    socket_end.send(caller.end, packet)
    assert caller.is_cut()


def test_arenas_that_could_shrink_end_the_lane(caller: Caller) -> None:
    descriptor = os.memfd_create("arena", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 4096)
    socket_end.send(caller.end, encode(Arena(size=4096)), descriptor)
    os.close(descriptor)
    assert caller.is_cut()


def test_a_run_needs_an_arena(same: LoadedModel) -> None:
    mine, theirs = socket_end.pair()
    LaneServer(theirs, same, is_trusted=False).start()
    mine.settimeout(60)
    socket_end.send(mine, encode(RunOrder(number=1, inputs=(X,), results_at=64, wanted=(0,))))
    answer = decode_answer(socket_end.receive(mine)[0])
    assert isinstance(answer, RunFailure)
    mine.shutdown(socket.SHUT_RDWR)
    mine.close()


def test_runs_are_cancelled(same: LoadedModel) -> None:
    model = load(zoo.counting())
    caller = Caller(model)
    np.frombuffer(caller.arena.view(), np.int32)[0] = 2**31 - 1
    order = RunOrder(
        number=3, inputs=(TensorAt(kind="int32", shape=(), offset=0, size=4),), results_at=64, wanted=(0,)
    )
    socket_end.send(caller.end, encode(order))
    # Whether the run has begun already or not.
    caller.server.cancel(3)
    answer = decode_answer(socket_end.receive(caller.end)[0])
    assert isinstance(answer, RunFailure)
    caller.end.close()


def test_strings(same: LoadedModel) -> None:
    caller = Caller(load(zoo.reshaping("STRING")))
    content = b"".join(len(each).to_bytes(4, "little") + each for each in (b"a", b"", b"ccc", b"d"))
    caller.arena.view()[: len(content)] = content
    answer = caller.run(TensorAt(kind="bytes", shape=(1, 4), offset=0, size=len(content)))
    assert isinstance(answer, RunAnswer)
    assert answer.outputs[0].in_arena(caller.arena.view()).tolist() == [b"a", b"", b"ccc", b"d"]
    refused = caller.run(TensorAt(kind="bytes", shape=(1, 4), offset=0, size=len(content) - 1))
    assert isinstance(refused, RunFailure)
    caller.end.close()

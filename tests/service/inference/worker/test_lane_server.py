"""A worker's end of a lane, whose caller is not trusted."""

import os
import select
import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from support.inference import zoo
from support.inference.lanes import Repeater, is_cut
from support.inference.loading import load

import neurald as nd
from neurald.hal.errors import ResultCode
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import (
    KEPT_ORDERS,
    Answer,
    Arena,
    RingMemory,
    RunAnswer,
    RunFailure,
    RunOrder,
    TensorAt,
    decode_answer,
    encode,
)
from neurald.hal.lanes.repeats import SUBMISSION, RepeatedRuns
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.threads.time_slices import short_time_slices, time_slice_ns
from neurald.hal.rpc.transport.ring_end import RING_BYTES, WAKE
from neurald.service.inference.worker.lane_server import LaneServer
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.runner import Runner


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
        order = RunOrder(number=7, slot=0, inputs=inputs, results_at=results_at, wanted=wanted)
        socket_end.send(self.end, encode(order))
        packet, descriptor = socket_end.receive(self.end)
        answer: Answer = decode_answer(packet)
        if descriptor is not None and isinstance(answer, RunAnswer):
            self.attached = SharedMemory.received(descriptor, answer.attached_bytes, constant=False)
        return answer

    def is_cut(self) -> bool:
        return is_cut(self.end)


@pytest.fixture(scope="module")
def same() -> LoadedModel:
    return load(zoo.reshaping("INT32"))


@pytest.fixture
def caller(same: LoadedModel) -> Iterator[Caller]:
    found = Caller(same)
    yield found
    found.end.close()


X = TensorAt(kind="int32", shape=(1, 4), offset=0, size=16)


def expect_cancelled(caller: Caller, order: RunOrder, begins: threading.Event, go: threading.Event) -> None:
    """Begins a run, cancels it when it has begun and waits, and lets it go on: it answers so."""
    socket_end.send(caller.end, encode(order))
    assert begins.wait(60)
    caller.server.cancel(order.number)
    go.set()
    answer = decode_answer(socket_end.receive(caller.end)[0])
    assert isinstance(answer, RunFailure)
    assert answer.is_cancelled


def order_of(number: int) -> RunOrder:
    return RunOrder(number=number, slot=0, inputs=(X,), results_at=1024, wanted=(0,))


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


def test_short_runs_have_short_time_slices(same: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | None] = []
    run = LaneServer._ran

    def noted(
        self: LaneServer, order: RunOrder, arena: SharedMemory
    ) -> tuple[RunAnswer, SharedMemory | None]:
        found.append(time_slice_ns())
        return run(self, order, arena)

    monkeypatch.setattr(LaneServer, "_ran", noted)
    with short_time_slices():
        short_ns = time_slice_ns()
    caller = Caller(same)
    caller.run(X)
    assert found == [short_ns]
    caller.end.close()


@pytest.mark.parametrize("is_trusted", [True, False])
def test_outputs_end_where_they_must(same: LoadedModel, is_trusted: bool) -> None:
    caller = Repeater(same, is_trusted=is_trusted)
    values = np.frombuffer(caller.arena.view(), np.int32)
    values[:4] = range(4)
    values[64:] = 9
    for end in (0, 256 + 16):
        assert not caller.runs.begin((X,), 256, (0,), end)
        assert isinstance(caller.packet(), RunAnswer)
        assert values[64:69].tolist() == [0, 1, 2, 3, 9]
    values[64:] = 9
    assert not caller.runs.begin((X,), 256, (0,), 256 + 15)
    packet, descriptor = socket_end.receive(caller.end)
    assert descriptor is not None
    os.close(descriptor)
    assert isinstance(decode_answer(packet), RunAnswer)
    assert set(values[64:].tolist()) == {9}
    caller.end.close()


@pytest.mark.parametrize(
    ("shape", "is_array"),
    [((0, 3), True), ((0, 2**40, 2**40), False), ((2**62, 0), False), ((0, 2**63 - 1), False)],
)
def test_empty_inputs_of_any_shape_are_answered(
    shape: tuple[int, ...], is_array: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller(load(zoo.open_addition()))
    answer = caller.run(TensorAt(kind="float32", shape=shape, offset=0, size=0))
    assert isinstance(answer, RunAnswer) is is_array
    # The lane goes on.
    other = caller.run(TensorAt(kind="float32", shape=(2, 3), offset=0, size=24))
    assert isinstance(other, RunAnswer)
    assert not any(record.exc_info for record in caplog.records)
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


@pytest.mark.parametrize(
    "packet",
    [
        b"\xff",
        b"\x92\xa3run\x01",
        b"\x01" * 100,
        encode(Arena(size=4096)),
        encode(RingMemory(size=RING_BYTES)),
        encode(RunOrder(number=1, slot=KEPT_ORDERS, inputs=(X,), results_at=64, wanted=(0,))),
        encode(RunOrder(number=1, slot=-1, inputs=(X,), results_at=64, wanted=(0,))),
    ],
)
def test_packets_that_are_none_end_the_lane(caller: Caller, packet: bytes) -> None:
    socket_end.send(caller.end, packet)
    assert caller.is_cut()


def test_arenas_that_could_shrink_end_the_lane(caller: Caller) -> None:
    descriptor = os.memfd_create("arena", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 4096)
    socket_end.send(caller.end, encode(Arena(size=4096)), descriptor)
    os.close(descriptor)
    assert caller.is_cut()


@pytest.mark.parametrize("is_trusted", [True, False])
def test_repeated_runs_need_no_packets(same: LoadedModel, is_trusted: bool) -> None:
    caller = Repeater(same, is_trusted=is_trusted, arena_bytes=8192)
    values = np.frombuffer(caller.arena.view(), np.int32)
    places = [TensorAt(kind="int32", shape=(1, 4), offset=64 * n, size=16) for n in range(KEPT_ORDERS + 2)]
    seen, others = [], 2 * KEPT_ORDERS + 2
    for number in range(others + 12):
        # The two last places are used in turn, and each of the others once or twice.
        place = places[number % len(places)] if number < others else places[-1 - number % 2]
        values[place.offset // 4 :][:4] = np.arange(4) + number
        answer, is_repeated = caller.run(place, results_at=4096)
        seen.append(is_repeated)
        assert isinstance(answer, RunAnswer)
        assert answer.outputs[0].in_arena(caller.arena.view()).tolist() == list(range(number, number + 4))
        assert answer.receipt.devices == ("cpu",)
    assert not any(seen[: len(places)])
    assert all(seen[others + 2 :])
    caller.replace_arena(16384)
    np.frombuffer(caller.arena.view(), np.int32)[:4] = 9
    answer, is_repeated = caller.run(X)
    assert not is_repeated
    assert isinstance(answer, RunAnswer)
    assert answer.outputs[0].in_arena(caller.arena.view()).tolist() == [9] * 4
    caller.end.close()


def test_another_answer_comes_as_a_packet() -> None:
    caller = Repeater(load(zoo.finding()))
    values = np.frombuffer(caller.arena.view(), np.bool_)
    x = TensorAt(kind="bool", shape=(1, 8), offset=0, size=8)
    repeated = []
    for places in ([1], [2], [1, 2], [3, 4], [5], list(range(8)), [0]):
        values[:8] = False
        values[places] = True
        answer, is_repeated = caller.run(x)
        repeated.append(is_repeated)
        assert isinstance(answer, RunAnswer)
        assert answer.outputs[0].in_arena(caller.arena.view())[:, 1].tolist() == places
    # Only those with as many results as the run before.
    assert repeated == [False, True, False, True, False, False, False]
    caller.end.close()


@pytest.mark.parametrize("slot", [1, KEPT_ORDERS, 2**32 - 1])
def test_unknown_runs_cannot_be_repeated(same: LoadedModel, slot: int) -> None:
    caller = Repeater(same)
    assert isinstance(caller.run(X)[0], RunAnswer)
    caller.runs.ring.put(SUBMISSION.pack(slot))
    assert caller.is_cut()


@pytest.mark.parametrize("size", [1, RING_BYTES - 1, RING_BYTES + 1, 1 << 40])
def test_rings_of_other_sizes_end_the_lane(same: LoadedModel, size: int) -> None:
    caller = Caller(same)
    memory = SharedMemory.create(size if size < 1 << 20 else 4096)
    socket_end.send(caller.end, encode(RingMemory(size=size)), memory.fd)
    assert caller.is_cut()


def test_descriptors_that_come_with_a_wake_are_closed(same: LoadedModel) -> None:
    caller = Repeater(same)
    until_closed, sent = os.pipe()
    socket_end.send(caller.end, bytes((WAKE, 0, 0, 0, 0)), sent)
    os.close(sent)
    assert select.select([until_closed], [], [], 60)[0], "the descriptor is still open"
    assert isinstance(caller.run(X)[0], RunAnswer)
    os.close(until_closed)
    caller.end.close()


def test_a_lane_has_one_ring(same: LoadedModel) -> None:
    caller = Repeater(same)
    RepeatedRuns(caller.end)
    assert caller.is_cut()


def test_damaged_words_of_a_ring_end_the_lane(same: LoadedModel) -> None:
    caller = Repeater(same)
    assert isinstance(caller.run(X)[0], RunAnswer)
    caller.runs.ring._put_number += 7
    caller.runs.ring.put(SUBMISSION.pack(0))
    assert caller.is_cut()


def test_repeated_runs_are_cancelled() -> None:
    caller = Repeater(load(zoo.counting()))
    count = np.frombuffer(caller.arena.view(), np.int32)
    x = TensorAt(kind="int32", shape=(), offset=0, size=4)
    count[0] = 3
    assert isinstance(caller.run(x)[0], RunAnswer)
    count[0] = 2**31 - 1
    assert caller.runs.begin((x,), 1024, (0,))
    caller.server.cancel(caller.runs.number)
    assert caller.runs.ring.spin() or caller.runs.ring.sleep(60)
    assert caller.runs.completed() is None
    answer = caller.packet()
    assert isinstance(answer, RunFailure)
    assert answer.is_cancelled
    count[0] = 5
    assert isinstance(caller.run(x)[0], RunAnswer)
    caller.end.close()


def test_a_run_needs_an_arena(same: LoadedModel) -> None:
    mine, theirs = socket_end.pair()
    LaneServer(theirs, same, is_trusted=False).start()
    mine.settimeout(60)
    socket_end.send(mine, encode(RunOrder(number=1, slot=0, inputs=(X,), results_at=64, wanted=(0,))))
    answer = decode_answer(socket_end.receive(mine)[0])
    assert isinstance(answer, RunFailure)
    mine.shutdown(socket.SHUT_RDWR)
    mine.close()


def test_runs_are_cancelled(same: LoadedModel) -> None:
    model = load(zoo.counting())
    caller = Caller(model)
    np.frombuffer(caller.arena.view(), np.int32)[0] = 2**31 - 1
    order = RunOrder(
        number=3,
        slot=1,
        inputs=(TensorAt(kind="int32", shape=(), offset=0, size=4),),
        results_at=64,
        wanted=(0,),
    )
    socket_end.send(caller.end, encode(order))
    # Whether the run has begun already or not.
    caller.server.cancel(3)
    answer = decode_answer(socket_end.receive(caller.end)[0])
    assert isinstance(answer, RunFailure)
    caller.end.close()


def test_a_run_that_is_about_to_begin_is_cancelled(
    same: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, go, ran = threading.Event(), threading.Event(), LaneServer._ran

    def wait(self: LaneServer, order: RunOrder, arena: SharedMemory) -> tuple[RunAnswer, SharedMemory | None]:
        begins.set()
        assert go.wait(60)
        return ran(self, order, arena)

    caller = Caller(same)
    monkeypatch.setattr(LaneServer, "_ran", wait)
    expect_cancelled(caller, order_of(7), begins, go)
    assert isinstance(caller.run(X), RunAnswer)
    caller.end.close()


def test_a_run_is_cancelled_right_before_its_execution_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    begins, go, compute = threading.Event(), threading.Event(), nd.Execution.compute

    def wait(self: nd.Execution) -> None:
        begins.set()
        assert go.wait(60)
        compute(self)

    caller = Caller(load(zoo.counting()))
    np.frombuffer(caller.arena.view(), np.int32)[0] = 2**31 - 1
    monkeypatch.setattr(nd.Execution, "compute", wait)
    count = TensorAt(kind="int32", shape=(), offset=0, size=4)
    order = RunOrder(number=7, slot=0, inputs=(count,), results_at=64, wanted=(0,))
    expect_cancelled(caller, order, begins, go)
    np.frombuffer(caller.arena.view(), np.int32)[0] = 3
    assert isinstance(caller.run(count, results_at=64), RunAnswer)
    caller.end.close()


def test_cancelling_a_run_that_ends_does_not_cancel_the_next(
    same: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, ran = Caller(same), LaneServer._ran
    begun = {number: threading.Event() for number in (1, 2)}
    first_may_end, second_may_end = threading.Event(), threading.Event()

    def wait(self: LaneServer, order: RunOrder, arena: SharedMemory) -> tuple[RunAnswer, SharedMemory | None]:
        begun[order.number].set()
        assert (first_may_end if order.number == 1 else second_may_end).wait(60)
        return ran(self, order, arena)

    cancelled: list[int | None] = []

    def cancel(runner: Runner) -> None:
        first_may_end.set()
        begun[2].wait(0.3)
        cancelled.append(caller.server._number)

    monkeypatch.setattr(LaneServer, "_ran", wait)
    monkeypatch.setattr(Runner, "cancel", cancel)
    for number in (1, 2):
        socket_end.send(caller.end, encode(order_of(number)))
    assert begun[1].wait(60)
    caller.server.cancel(1)
    second_may_end.set()
    assert cancelled == [1]
    for _ in range(2):
        assert isinstance(decode_answer(socket_end.receive(caller.end)[0]), RunAnswer)
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

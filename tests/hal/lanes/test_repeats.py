"""The caller's side of repeated runs, beside a worker that may break the rules."""

import os
import select

import pytest

from neurald.hal.errors import BadData
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import (
    KEPT_ORDERS,
    Receipt,
    RingMemory,
    RunAnswer,
    RunFailure,
    RunOrder,
    TensorAt,
    decode_order,
)
from neurald.hal.lanes.repeats import COMPLETION, SUBMISSION, RepeatedRuns
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import RING_BYTES, RingEnd, RingSide

RECEIPT = Receipt(devices=("cpu",), drivers=("1",), is_substituted=False, read_ns=1, run_ns=2, written_ns=3)
OUTPUTS = (TensorAt(kind="int32", shape=(1,), offset=64, size=4),)


class Worker:
    """The worker's end, by hand."""

    def __init__(self) -> None:
        self.theirs, self.end = socket_end.pair()
        self.end.settimeout(60)
        self.runs = RepeatedRuns(self.theirs)
        packet, descriptor = socket_end.receive(self.end)
        assert decode_order(packet) == RingMemory(size=RING_BYTES)
        assert descriptor is not None
        self.ring = RingEnd(
            SharedMemory.received(descriptor, RING_BYTES, constant=False), self.end, RingSide.DAEMON
        )

    def begin(self, offset: int = 0) -> bool:
        inputs = (TensorAt(kind="int32", shape=(1,), offset=offset, size=4),)
        return self.runs.begin(inputs, 64, (0,))

    def order(self) -> RunOrder:
        packet, descriptor = socket_end.receive(self.end)
        assert descriptor is None
        order = decode_order(packet)
        assert isinstance(order, RunOrder)
        return order

    def answer(self, *, number: int = 0, attached: int = 0) -> RunAnswer:
        answer = RunAnswer(
            number=number or self.runs.number, outputs=OUTPUTS, attached_bytes=attached, receipt=RECEIPT
        )
        self.runs.note(answer)
        return answer

    def submission(self) -> int:
        assert self.ring.has_entry
        (slot,) = SUBMISSION.unpack_from(self.ring.take())
        assert isinstance(slot, int)
        return slot


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_the_second_run_is_submitted_by_numbers(worker: Worker) -> None:
    assert not worker.begin()
    order = worker.order()
    assert (order.number, order.slot, order.results_at, order.wanted) == (1, 0, 64, (0,))
    worker.answer()
    assert worker.begin()
    assert worker.submission() == 0
    worker.ring.put(COMPLETION.pack(False, 50, 40, 60))
    answer = worker.runs.completed()
    assert answer is not None
    assert (answer.number, answer.outputs) == (2, OUTPUTS)
    assert (answer.receipt.read_ns, answer.receipt.run_ns, answer.receipt.written_ns) == (40, 50, 60)
    assert answer.receipt.origin == RECEIPT.origin
    assert not select.select([worker.end], [], [], 0)[0]


def test_orders_take_the_slots_in_turn(worker: Worker) -> None:
    slots = []
    for number in range(2 * KEPT_ORDERS + 1):
        assert not worker.begin(4 * number)
        slots.append(worker.order().slot)
        worker.answer()
    assert slots == [*range(KEPT_ORDERS), *range(KEPT_ORDERS), 0]
    assert worker.begin(4 * 2 * KEPT_ORDERS)
    worker.runs.forget()
    assert not worker.begin(4 * 2 * KEPT_ORDERS)


def test_failures_and_attached_outputs_are_not_repeated(worker: Worker) -> None:
    assert not worker.begin()
    worker.runs.note(RunFailure(number=1, code=1, message="no"))
    assert not worker.begin()
    worker.answer(attached=4096)
    assert not worker.begin()
    worker.answer()
    assert worker.begin()
    worker.ring.put(COMPLETION.pack(True, 0, 0, 0))
    assert worker.runs.completed() is None
    worker.runs.note(RunFailure(number=4, code=1, message="no"))
    assert not worker.begin()


def test_ends_of_other_runs_are_refused(worker: Worker) -> None:
    worker.ring.put(COMPLETION.pack(False, 0, 0, 0))
    with pytest.raises(BadData, match="not begun"):
        worker.runs.completed()
    assert not worker.begin()
    with pytest.raises(BadData, match="not begun"):
        worker.answer(number=7)
    worker.ring.put(COMPLETION.pack(False, 0, 0, 0))
    with pytest.raises(BadData, match="not given"):
        worker.runs.completed()
    worker.answer()
    with pytest.raises(BadData, match="not begun"):
        worker.answer()


def test_a_worker_that_is_gone_is_noticed(worker: Worker) -> None:
    worker.end.close()
    with pytest.raises(OSError, match=os.strerror(32)):
        worker.begin()


def test_a_run_that_cannot_be_described_is_not_counted(worker: Worker) -> None:
    for number in range(KEPT_ORDERS):
        assert not worker.begin(4 * number)
        worker.order()
        worker.answer()
    tensor = TensorAt(kind="int32", shape=(1,) * 30, offset=0, size=4)
    with pytest.raises(BadData, match="bytes to describe"):
        worker.runs.begin((tensor,) * 2000, 64, (0,))
    assert worker.runs.number == KEPT_ORDERS
    for number in range(KEPT_ORDERS):
        assert worker.begin(4 * number)
        assert worker.submission() == number
        worker.ring.put(COMPLETION.pack(False, 0, 0, 0))
        assert worker.runs.completed()

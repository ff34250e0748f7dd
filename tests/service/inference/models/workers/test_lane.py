"""The front end's end of a lane, with a worker that a test plays."""

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import (
    Arena,
    Receipt,
    RingMemory,
    RunAnswer,
    RunFailure,
    RunOrder,
    TensorAt,
    decode_order,
    encode,
)
from neurald.hal.lanes.repeats import COMPLETION, SUBMISSION
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import WAKE, RingEnd, RingSide
from neurald.service.inference.models.workers.lane import ServedLane

X = TensorAt(kind="float32", shape=(4,), offset=0, size=16)
Y = TensorAt(kind="float32", shape=(4,), offset=64, size=16)
RECEIPT = Receipt(devices=("cpu",), drivers=("cpu",), is_substituted=False, read_ns=1, run_ns=2, written_ns=3)


class Worker:
    """Plays the worker's end of a lane."""

    def __init__(self) -> None:
        mine, theirs = socket_end.pair()
        self.end = theirs
        self.lane = ServedLane(mine, 1, lambda _: None, lambda _: None)
        memory = self._received(RingMemory)
        self.ring = RingEnd(memory, theirs, RingSide.DAEMON)

    def _received(self, kind: type) -> Any:
        while True:
            packet, descriptor = socket_end.receive(self.end)
            if packet[0] == WAKE:
                continue
            order = decode_order(packet)
            assert isinstance(order, kind)
            if descriptor is None:
                return order
            assert isinstance(order, Arena | RingMemory)
            return SharedMemory.received(descriptor, order.size, constant=False)

    def take_arena(self) -> None:
        """Receives the arena, which nothing is written to."""
        self._received(Arena).close()

    def answer_order(self) -> None:
        """Answers a run that came as a packet."""
        order = self._received(RunOrder)
        socket_end.send(
            self.end, encode(RunAnswer(number=order.number, outputs=(Y,), attached_bytes=0, receipt=RECEIPT))
        )

    def answer_otherwise(self, number: int) -> None:
        """Answers a repeated run, whose number this is, with an error."""
        self.ring.put(COMPLETION.pack(True, 0, 0, 0))
        socket_end.send(self.end, encode(RunFailure(number=number, code=4, message="no", is_cancelled=False)))

    def repeat(self) -> None:
        """Answers a repeated run as before."""
        while not self.ring.sleep(5):
            pass
        assert SUBMISSION.unpack_from(self.ring.take()) == (0,)
        self.ring.put(COMPLETION.pack(False, 7, 8, 9))


def beside(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def run(lane: ServedLane) -> Any:
    return lane.run((X,), 64, (0,), math.inf)[0]


def test_an_answer_whose_packet_is_seen_before_its_entry() -> None:
    """A lane that did not sleep is woken by the packet alone; no entry is left."""

    async def play() -> None:
        worker = Worker()
        lane = worker.lane
        lane.arena(4096)
        worker.take_arena()
        thread = beside(worker.answer_order)
        assert isinstance(run(lane), RunAnswer)
        thread.join()
        ring: Any = lane._runs.ring
        slept = ring.sleep

        def answered(timeout_s: float | None) -> bool:
            ring.sleep = slept
            worker.ring.take()
            worker.answer_otherwise(lane.run_number)
            return False

        ring.sleep = answered
        assert isinstance(run(lane), RunFailure)
        thread = beside(worker.answer_order)
        assert isinstance(run(lane), RunAnswer)
        thread.join()
        thread = beside(worker.repeat)
        assert run(lane).receipt.run_ns == 7
        thread.join()
        lane.close()

    asyncio.run(play())


@pytest.mark.parametrize("is_late", [True, False])
def test_a_worker_that_breaks_the_rules(is_late: bool) -> None:
    """An answer to a repeated run needs an entry, and one that says that a packet follows."""

    async def play() -> None:
        worker = Worker()
        lane = worker.lane
        lane.arena(4096)
        worker.take_arena()
        thread = beside(worker.answer_order)
        run(lane)
        thread.join()
        failure = RunFailure(number=lane.run_number + 1, code=4, message="no", is_cancelled=False)
        if not is_late:
            ring: Any = lane._runs.ring
            ring.sleep = lambda timeout_s: False
            worker.ring.put(COMPLETION.pack(False, 7, 8, 9))
        socket_end.send(worker.end, encode(failure))
        with pytest.raises(ConnectionAbortedError, match="broken the rules"):
            run(lane)
        lane.close()

    asyncio.run(play())

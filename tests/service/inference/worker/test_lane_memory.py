"""A worker writes only where orders put their results, whatever the caller does to the ring."""

import contextlib
import os
import time

import numpy as np
import pytest
from support.daemon.scribbler import scribbling
from support.inference import zoo
from support.inference.loading import load

from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import (
    KEPT_ORDERS,
    Arena,
    RingMemory,
    RunAnswer,
    RunOrder,
    TensorAt,
    decode_answer,
    encode,
)
from neurald.hal.lanes.repeats import SUBMISSION
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import RING_BYTES, STORES_IN_ORDER, WAKE
from neurald.hal.rpc.transport.ring_layout import COMPLETION, PACKETS
from neurald.service.inference.worker.lane_server import LaneServer
from neurald.service.inference.worker.loaded_model import LoadedModel

_BLOCK = 256
_ARENA_BYTES = 32 * _BLOCK + 40
_INPUT = TensorAt(kind="int32", shape=(1, 4), offset=0, size=16)
#: How long each model is attacked at least, and at most until there were enough runs, in seconds.
_ATTACK_S, _LONGEST_ATTACK_S = 3.0, 120.0
#: So many runs are enough.
_RUNS = 50


class _Attack:
    """One lane whose ring another process changes, and an arena with known content.

    Orders write their results to the blocks of odd numbers. Inputs and all other blocks stay.
    """

    def __init__(self, model: LoadedModel, inputs: tuple[TensorAt, ...], seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._inputs = inputs
        self._model = model
        self.end, theirs = socket_end.pair()
        self.end.settimeout(30)
        self.server = LaneServer(theirs, model, is_trusted=False)
        self.server.start()
        self._arena = SharedMemory.create(_ARENA_BYTES)
        self._bytes = np.frombuffer(self._arena.view(), np.uint8)
        self._bytes[:] = self._rng.integers(0, 256, _ARENA_BYTES, np.uint8)
        self._before = self._bytes.copy()
        self._is_result = (np.arange(_ARENA_BYTES) // _BLOCK) % 2 == 1
        self._is_result[32 * _BLOCK :] = False
        self.ring = SharedMemory.working(RING_BYTES, "neurald lane ring")
        socket_end.send(self.end, encode(Arena(size=_ARENA_BYTES)), self._arena.fd)
        socket_end.send(self.end, encode(RingMemory(size=RING_BYTES)), self.ring.fd)
        self._words = self.ring.view().cast("I")
        self.answers = self.results = 0

    def order(self, number: int, slot: int) -> None:
        """Sends an order for another block than the last one of this slot."""
        count = len(self._model.description.outputs)
        block = 1 + 2 * int(self._rng.integers(0, 16))
        order = RunOrder(
            number=number,
            slot=slot,
            inputs=self._inputs,
            results_at=block * _BLOCK + int(self._rng.choice([0, 64, 208, 240])),
            results_end=(block + 1) * _BLOCK,
            wanted=tuple(self._rng.permutation(count)[: self._rng.integers(1, count + 1)].tolist()),
        )
        # Native code leaves the ring to Python while a packet is announced.
        self._words[PACKETS] += 1
        self.end.settimeout(10)
        # The next look for packets finds the end of the lane.
        with contextlib.suppress(OSError):
            socket_end.send(self.end, encode(order))

    def receive_all(self) -> bool:
        """Takes the packets that have arrived; returns False if the lane has ended."""
        try:
            while True:
                self.end.settimeout(0.0005)
                packet, descriptor = socket_end.receive(self.end)
                if descriptor is not None:
                    os.close(descriptor)
                if not packet:
                    return False
                if packet[0] != WAKE:
                    self.answers += 1
                    self.results += isinstance(decode_answer(packet), RunAnswer)
        except TimeoutError:
            return True
        except OSError:
            return False

    def check(self) -> None:
        """Fails if anything has changed but results."""
        changed = np.flatnonzero((self._bytes != self._before) & ~self._is_result)
        assert not len(changed), f"the worker wrote to {changed[:20]} of its arena"

    @property
    def completed(self) -> int:
        """Returns the number of repeated runs that the worker has completed."""
        return int(self._words[COMPLETION[0]])

    def close(self) -> None:
        self.end.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "inputs"),
    [
        (zoo.addition(), (_INPUT, TensorAt(kind="int32", shape=(1, 4), offset=512, size=16))),
        (
            zoo.open_addition(),
            (TensorAt(kind="float32", shape=(4, 3), offset=0, size=48),),
        ),
    ],
    ids=["fixed", "open"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_only_results_are_written(
    content: bytes, inputs: tuple[TensorAt, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neurald.service.inference.worker.native_lane._MAX_NATIVE_NS", 1 << 62)
    model, lanes, completed, answers, results = load(content), 0, 0, 0, 0
    rng, idle = np.random.default_rng(seed), _Attack(model, inputs, seed)
    start_s = time.monotonic()
    # Native code repeats no runs whose outputs may have other shapes.
    is_native = STORES_IN_ORDER and content == zoo.addition()

    def has_run_enough() -> bool:
        """Returns whether rings were changed around many runs of the tested kind."""
        return (
            completed > _RUNS
            and answers > KEPT_ORDERS
            and (model.native_lanes.gate.executions > _RUNS or not is_native)
        )

    # How many there are in a time depends on what else the machine does.
    while time.monotonic() < start_s + _ATTACK_S or not has_run_enough():
        assert time.monotonic() < start_s + _LONGEST_ATTACK_S, "there were too few runs"
        lanes += 1
        attack = _Attack(model, inputs, 1000 * seed + lanes)
        try:
            for slot in range(KEPT_ORDERS):
                attack.order(7, slot)
            assert attack.receive_all()
            with scribbling(
                attack.ring.fd,
                attack.end.fileno(),
                SUBMISSION.pack(0),
                requests=KEPT_ORDERS,
                seed=1000 * seed + lanes,
            ):
                until_s = time.monotonic() + 1.0
                while attack.receive_all() and time.monotonic() < until_s:
                    attack.check()
                    if rng.random() < 0.05:
                        attack.order(7, int(rng.integers(KEPT_ORDERS)))
        finally:
            completed += attack.completed
            answers += attack.answers
            results += attack.results
            attack.close()
        attack.check()
    # A model whose runs all fail writes nothing anyway.
    assert results > answers / 2
    idle.check()
    idle.close()

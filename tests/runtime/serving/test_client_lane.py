"""A client's end of a lane, beside a process of the model that may break the rules."""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.inference import zoo
from support.inference.loading import load

from neurald.hal.errors import DeadObject
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.opening import Opened, TensorDescription
from neurald.hal.lanes.packets import RunOrder, decode_order
from neurald.hal.rpc.transport.ring_end import WAKE
from neurald.runtime.serving import client_lane
from neurald.runtime.serving.client_lane import ClientLane
from neurald.service.inference.worker.lane_server import LaneServer

TENSORS = (TensorDescription(name="x", kind="int32", shape=(4,)),)
OPENED = Opened(version="1", inputs=TENSORS, outputs=TENSORS, max_batch=0)


def wait_for_run(end: socket.socket) -> None:
    """Receives packets until one orders a run."""
    is_run = False
    while not is_run:
        packet, descriptor = socket_end.receive(end)
        if descriptor is not None:
            os.close(descriptor)
        is_run = isinstance(decode_order(packet), RunOrder)


def test_a_memory_that_belongs_to_no_answer_ends_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the process of the model could use up the descriptors of its clients."""
    mine, theirs = socket_end.pair()
    theirs.settimeout(60)
    monkeypatch.setattr(client_lane, "_open", lambda path, wanted: (OPENED, mine))
    lane = ClientLane(Path("service.sock"), "model", "")
    until_closed, sent = os.pipe()

    def worker() -> None:
        wait_for_run(theirs)
        socket_end.send(theirs, bytes((WAKE, 0, 0, 0, 0)), sent)
        os.close(sent)

    thread = threading.Thread(target=worker)
    thread.start()
    with pytest.raises(DeadObject, match="belongs to no answer"):
        lane.run([np.zeros(4, np.int32)], 60)
    thread.join()
    assert select.select([until_closed], [], [], 60)[0], "the descriptor is still open"
    lane.close()
    theirs.close()
    os.close(until_closed)


@pytest.fixture
def lane_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], ClientLane]]:
    """Yields a function that returns a lane of a model, which is served in this process."""
    lanes: list[ClientLane] = []

    def opened(content: bytes) -> ClientLane:
        model = load(content)
        mine, theirs = socket_end.pair()
        LaneServer(theirs, model, is_trusted=False).start()
        found = model.description
        answer = Opened(version="1", inputs=found.inputs, outputs=found.outputs, max_batch=0)
        monkeypatch.setattr(client_lane, "_open", lambda path, wanted: (answer, mine))
        lanes.append(ClientLane(Path("service.sock"), "model", ""))
        return lanes[-1]

    yield opened
    for lane in lanes:
        lane.close()


def test_lent_outputs_stay_as_they_are_whatever_shapes_come_next(
    lane_of: Callable[[bytes], ClientLane],
) -> None:
    lane = lane_of(zoo.open_addition())
    kept, expected = [], []
    lengths = [50_000, 50_000, *[7000] * 4, 50_000, 7000, 30_000, 7000, 50_000, 9000, 9000, 80_000, 7000]
    for value, length in enumerate(lengths * 2):
        (output,), _ = lane.run([np.full((length, 3), value, np.float32)], 60)
        kept.append(output)
        expected.append(2.0 * value)
    assert sum(not output.flags.owndata for output in kept) >= 4
    assert [np.unique(output).tolist() for output in kept] == [[value] for value in expected]


def test_lent_outputs_stay_as_they_are_if_the_next_ones_are_longer(
    lane_of: Callable[[bytes], ClientLane],
) -> None:
    lane = lane_of(zoo.finding(40_000))
    kept = []
    counts = [*[10_000] * 5, 40_000, *[5000] * 4, 20_000, 40_000]
    for count in counts:
        x = np.arange(40_000)[None] >= 40_000 - count
        (output,), _ = lane.run([x], 60)
        kept.append(output)
    assert sum(not output.flags.owndata for output in kept) >= 2
    for output, count in zip(kept, counts, strict=True):
        assert np.array_equal(output[:, 1], np.arange(40_000 - count, 40_000))

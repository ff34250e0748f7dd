"""A client's end of a lane, beside a process of the model that may break the rules."""

import os
import select
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from neurald.hal.errors import DeadObject
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.opening import Opened, TensorDescription
from neurald.hal.lanes.packets import RunOrder, decode_order
from neurald.hal.rpc.transport.ring_end import WAKE
from neurald.runtime.serving import client_lane
from neurald.runtime.serving.client_lane import ClientLane

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

"""The orders of a worker's control socket, while no thread can be started."""

import os
import threading
from typing import Any

import msgspec
import pytest
from support.inference import zoo
from support.inference.lanes import is_cut

from neurald.hal.errors import ResultCode
from neurald.hal.lanes import socket_end
from neurald.service.inference.worker.orders import (
    Explained,
    ExplainOrder,
    LoadFailure,
    LoadOrder,
    ModelDescription,
    ModelHealth,
    OpenLane,
    Ping,
    decode_report,
    encode,
)
from neurald.service.inference.worker.program import Worker


class FrontEnd:
    """The other end of a worker's control socket."""

    def __init__(self) -> None:
        self.end, theirs = socket_end.pair()
        self.end.settimeout(60)
        self.thread = threading.Thread(target=Worker(theirs).serve, daemon=True)
        self.thread.start()

    def ask(self, order: msgspec.Struct, content: bytes = b"") -> Any:
        """Returns the report that answers an order with a file."""
        file = os.memfd_create("file")
        os.write(file, content)
        socket_end.send(self.end, encode(order), file)
        os.close(file)
        return decode_report(socket_end.receive(self.end)[0])

    def open_lane(self, number: int, *, is_trusted: bool) -> Any:
        """Returns the caller's end of a lane."""
        mine, theirs = socket_end.pair()
        mine.settimeout(60)
        socket_end.send(self.end, encode(OpenLane(lane=number, is_trusted=is_trusted)), theirs.fileno())
        theirs.close()
        return mine

    def close(self) -> None:
        """Ends the worker."""
        self.end.close()
        self.thread.join(60)


def test_a_worker_goes_on_that_cannot_start_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    front_end = FrontEnd()
    assert isinstance(front_end.ask(LoadOrder(name="m"), zoo.dense()), ModelDescription)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for number, is_trusted in enumerate((False, True)):
            lane = front_end.open_lane(number, is_trusted=is_trusted)
            assert is_cut(lane)
            lane.close()
        explained = front_end.ask(ExplainOrder("title"))
        assert isinstance(explained, Explained)
        assert "can't start new thread" in explained.failure
        failure = front_end.ask(LoadOrder(name="m"), zoo.dense())
        assert isinstance(failure, LoadFailure)
        assert failure.code == ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
        assert isinstance(front_end.ask(Ping()), ModelHealth)
    # Those that come later are served, and watched.
    lane = front_end.open_lane(2, is_trusted=False)
    assert front_end.ask(ExplainOrder("title")) == Explained()
    lane.settimeout(0.1)
    with pytest.raises(TimeoutError):
        is_cut(lane)
    lane.close()
    front_end.close()
    assert not front_end.thread.is_alive()

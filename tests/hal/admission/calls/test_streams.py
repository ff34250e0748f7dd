"""Streams that stall are counted and cut off, and never block other calls."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.daemon.peer import Peer
from support.models.addition import AddingDevice, addition
from support.process.threads import refuse_threads
from support.waiting import wait_until

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.calls import message_reader
from neurald.hal.admission.calls import streams as streams_module
from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.errors import DeadObject, ResourceExhaustedTransient
from neurald.hal.process.address import Address
from neurald.hal.rpc.server import data_calls, session_calls
from neurald.hal.rpc.server import server as server_module
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport import status
from neurald.hal.rpc.transport.status import SESSION_KEY, error_from
from neurald.hal.rpc.wire.model import model_to_wire


class Context:
    """The context of a call; records when it was cut off."""

    def __init__(self) -> None:
        self.is_cut = threading.Event()

    def cancel(self) -> None:
        self.is_cut.set()


class Clock:
    """A clock that only the test advances, so that no stream stalls because the machine is busy."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Returns the clock by which streams stall during a test."""
    clock = Clock()
    monkeypatch.setattr(streams_module, "time", clock)
    return clock


def test_streams_are_counted_in_all_and_for_each_client() -> None:
    streams = StreamLimiter(limit=3, owner_limit=2, patience_s=60, grace_s=0.3)
    with ExitStack() as first:
        for _ in range(2):
            first.enter_context(streams.open("a", Context()))
        with pytest.raises(ResourceExhaustedTransient, match="2 of one client and 3 of all"):
            first.enter_context(streams.open("a", Context()))
    for _ in range(5):
        with streams.open("a", Context()), streams.open("a", Context()):
            pass


def test_streams_that_cannot_be_watched_are_refused_and_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = StreamLimiter(limit=1, patience_s=0.1, grace_s=60)
    refuse_threads(monkeypatch)
    for _ in range(2):
        with pytest.raises(ResourceExhaustedTransient, match="cannot be watched: can't start"):
            streams.begin("a", Context())
    monkeypatch.undo()
    context = Context()
    with streams.open("a", context):
        assert context.is_cut.wait(60)


def test_a_stalled_stream_leaves_room_for_another_one(clock: Clock) -> None:
    streams = StreamLimiter(limit=1, patience_s=60, grace_s=0.3)
    assert streams.has_room()
    stalls = streams.begin(None, context := Context())
    clock.now_s = 0.2
    assert not streams.has_room()
    clock.now_s = 0.4
    assert streams.has_room()
    streams.begin(None, Context())
    assert context.is_cut.is_set()
    streams.end(stalls)
    assert not streams.has_room()


def test_no_more_may_be_under_way_while_all_move(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = StreamLimiter(limit=2, patience_s=60, grace_s=0.3)
    moving = [streams.begin(owner, Context()) for owner in "ab"]

    def move(timeout_s: float) -> None:
        clock.now_s += timeout_s
        for stream in moving:
            stream.moves()

    monkeypatch.setattr(streams._changed, "wait", move)
    with pytest.raises(ResourceExhaustedTransient, match="2 of all"):
        streams.begin("c", Context())
    assert clock.now_s >= 0.6, "it waits for one that stalls"


@pytest.mark.timed
def test_where_too_many_stand_still_the_one_that_has_most_gives_way() -> None:
    streams = StreamLimiter(limit=4, patience_s=60, grace_s=0.05)
    contexts = {owner: [Context() for _ in range(count)] for owner, count in (("a", 3), ("b", 1))}
    for owner, owned in contexts.items():
        for context in owned:
            streams.begin(owner, context)
    started = time.monotonic()
    streams.begin("b", Context())
    assert time.monotonic() - started < 5
    assert [context.is_cut.is_set() for context in contexts["a"]] == [True, False, False]
    assert not contexts["b"][0].is_cut.is_set()


def test_who_has_no_session_keeps_nobody_out(clock: Clock) -> None:
    streams = StreamLimiter(limit=4, patience_s=60, grace_s=0.05, owner_limit=1)
    strangers = [Context() for _ in range(4)]
    for context in strangers:
        streams.begin(None, context)
    with pytest.raises(ResourceExhaustedTransient):
        streams.begin(None, Context())
    clock.now_s = 0.06
    for owner in (None, "a", "b"):
        streams.begin(owner, Context())
    assert sum(context.is_cut.is_set() for context in strangers) == 3


def test_drops_are_no_progress() -> None:
    streams = StreamLimiter(limit=3, patience_s=0.3, grace_s=60)
    dripping = Context()
    with streams.open("a", dripping) as stream:
        end = time.monotonic() + 10
        while not dripping.is_cut.wait(0.02):
            assert time.monotonic() < end
            stream.moves(1)


def test_what_stands_still_is_cut_off_and_what_moves_is_not(clock: Clock) -> None:
    streams = StreamLimiter(limit=3, patience_s=0.3, grace_s=60)
    still, moving = Context(), Context()
    with streams.open("a", still), streams.open("a", moving) as stream:
        end = time.monotonic() + 10
        while not still.is_cut.is_set():
            assert time.monotonic() < end
            stream.moves()
            clock.now_s += 0.02
            time.sleep(0.02)
        assert not moving.is_cut.is_set()
    again = Context()
    time.sleep(0.2)
    with streams.open("a", again):
        clock.now_s += 0.4
        assert again.is_cut.wait(60)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceServer]:
    monkeypatch.setattr(server_module, "_PATIENCE_S", 1.5)
    server = DeviceServer(
        AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"), limits=Limits(memory_bytes=1 << 30)
    )
    server.start()
    yield server
    server.stop()


def test_closing_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = StreamLimiter(limit=2, patience_s=60, grace_s=60)
    first = streams.begin("a", Context())
    thread = streams._watch
    assert thread is not None
    streams.close()
    thread.join(60)
    assert not thread.is_alive()
    # Calls that begin while the server stops need no thread.
    refuse_threads(monkeypatch)
    second = streams.begin("b", Context())
    streams.end(first)
    streams.end(second)


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["write", "read"])
def test_stalled_streams_stop_nobody(server: DeviceServer, kind: str) -> None:
    good, bad = Peer(server), [Peer(server) for _ in range(3)]
    ends = threading.Event()

    def stalled() -> Iterator[Any]:
        yield device_pb2.WriteMemoryRequest(size_bytes=1 << 20)
        ends.wait()

    calls: list[Any] = []
    for peer in bad:
        for _ in range(48):
            if kind == "write":
                calls.append(peer.stub.WriteMemory.future(stalled(), metadata=peer.metadata))
            else:
                token = peer.memory(bytes(2 << 20))
                message = device_pb2.ReadMemoryRequest(memory=token)
                calls.append(peer.stub.ReadMemory(message, metadata=peer.metadata))
    started = time.monotonic()
    good.prepare()
    good.call("GetStatus", device_pb2.GetStatusRequest())
    assert time.monotonic() - started < 5
    if kind == "write":
        wait_until(lambda: all(call.done() for call in calls))
        assert all(call.code() is not grpc.StatusCode.OK for call in calls)
    ends.set()
    for peer in (good, *bad):
        peer.close()


@pytest.mark.slow
def test_messages_without_a_session_are_not_parsed(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []

    def counted(kind: Any, data: bytes) -> Any:
        parsed.append(len(data))
        return status.parse(kind, data)

    monkeypatch.setattr(data_calls, "parse", counted)
    monkeypatch.setattr(session_calls, "parse", counted)
    monkeypatch.setattr(message_reader, "parse", counted)
    peer = Peer(server)
    parsed.clear()
    bomb = device_pb2.PrepareModelRequest(model=model_to_wire(addition(np.ones(3)), [bytes(16)]))
    for metadata in ((), ((SESSION_KEY, "ab" * 16),)):
        with pytest.raises(grpc.RpcError) as caught:
            peer.stub.PrepareModel(bomb, metadata=metadata, timeout=20)
        assert isinstance(error_from(caught.value, ""), DeadObject)
    assert not parsed
    peer.close()


def test_a_server_knows_whether_it_serves(server: DeviceServer) -> None:
    assert server.is_serving
    threads = server._serving
    assert len(threads) == 2, [thread.name for thread in threads]
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    server._serving = (*threads, ended)
    assert not server.is_serving

"""Daemons whose end of a ring lies, hangs up or completes out of turn: their clients get errors."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.models.addition import addition, request

from neurald.hal.device import ExecuteOptions, OutputShape, PrepareOptions
from neurald.hal.errors import DeadObject, OpFailed, Unmappable
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.client.burst import RemoteBurst
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.client.rings.ring import Ring
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.packet import receive_packet
from neurald.hal.rpc.transport.ring_end import RingEnd, RingSide
from neurald.hal.rpc.transport.ring_packet import (
    COMPLETION,
    OUTCOME,
    UNKNOWN_NS,
    answer_packet,
    error_packet,
    shapes_packet,
)

RUN = ExecuteOptions()


class Imposter:
    """A daemon's end of a ring with given answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, server: DeviceServer) -> None:
        def configure(_: Connection, connection: socket.socket, ring: SharedMemory, *limits: object) -> None:
            self.connection = connection.dup()
            self.connection.settimeout(60)
            self.ring = RingEnd(ring, self.connection, RingSide.DAEMON)

        monkeypatch.setattr(Connection, "open_ring", configure)
        self.remote = connect(str(server.address))
        prepared = self.remote.prepare_model(addition(np.ones(3)), PrepareOptions())
        burst = prepared.create_burst()
        assert isinstance(burst, RemoteBurst)
        self.burst = burst
        self.request = request(np.ones(3, np.float32), np.zeros(3, np.float32))

    def serve(self, complete: Callable[[], None]) -> threading.Thread:
        def work() -> None:
            for _ in range(2):
                receive_now(self.connection)
                self.connection.send(answer_packet(None))
            while not self.ring.sleep(10):
                receive_now(self.connection)
            self.ring.take()
            complete()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        self.connection.close()
        self.burst.close()
        self.remote.close()


def receive_now(connection: socket.socket) -> None:
    while True:
        try:
            receive_packet(connection, 1 << 16, 1).close_descriptors()
        except BlockingIOError:
            time.sleep(0.001)
        else:
            return


@pytest.fixture
def imposter(monkeypatch: pytest.MonkeyPatch, server: DeviceServer) -> Iterator[Imposter]:
    imposter = Imposter(monkeypatch, server)
    yield imposter
    imposter.close()


def test_a_daemon_that_completes_out_of_turn(imposter: Imposter) -> None:
    def complete() -> None:
        imposter.ring.put(COMPLETION.pack(False, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))
        imposter.ring.put(COMPLETION.pack(False, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    imposter.serve(complete)
    with pytest.raises(OpFailed):
        imposter.burst.execute(imposter.request, RUN)


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\x09",
        shapes_packet(1, [OutputShape(dimensions=(3,))] * 2),
        shapes_packet(1, [OutputShape(dimensions=(3,) * 17)]),
        shapes_packet(1, [OutputShape(dimensions=(3,))])[:-1],
        error_packet(1, Unmappable("x"))[:3],
    ],
    ids=len,
)
def test_a_daemon_that_tells_nonsense(imposter: Imposter, packet: bytes) -> None:
    def complete() -> None:
        if packet:
            imposter.connection.send(packet)
        imposter.ring.put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    imposter.serve(complete)
    with pytest.raises(OpFailed):
        imposter.burst.execute(imposter.request, RUN)
    with pytest.raises(DeadObject):
        imposter.burst.execute(imposter.request, RUN)


def test_a_daemon_that_never_told_any_shape(imposter: Imposter) -> None:
    imposter.serve(lambda: imposter.ring.put(COMPLETION.pack(False, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS)))
    with pytest.raises(OpFailed, match="no shapes"):
        imposter.burst.execute(imposter.request, RUN)


ONE_SHAPE = (OutputShape(dimensions=(3,)),)


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 1), (2**32 - 1,)], ids=str)
def test_a_daemon_that_tells_of_another_execution(imposter: Imposter, numbers: tuple[int, ...]) -> None:
    def complete() -> None:
        for number in numbers:
            imposter.connection.send(shapes_packet(number, ONE_SHAPE))
        imposter.ring.put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    def execute() -> None:
        # A second outcome may come when the first one was read already; the next call finds it.
        for _ in range(2):
            imposter.burst.execute(imposter.request, RUN)

    imposter.serve(complete)
    with pytest.raises(OpFailed, match=r"broke the protocol.*outcome of execution"):
        execute()


def test_what_a_daemon_told_of_an_execution_is_not_that_of_the_next_one(imposter: Imposter) -> None:
    def complete() -> None:
        imposter.connection.send(shapes_packet(1, ONE_SHAPE))
        imposter.ring.put(COMPLETION.pack(False, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    thread = imposter.serve(complete)
    with pytest.raises(OpFailed, match="no shapes"):
        imposter.burst.execute(imposter.request, RUN)
    thread.join()

    def complete_next() -> None:
        while not imposter.ring.sleep(10):
            receive_now(imposter.connection)
        imposter.ring.put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    thread = threading.Thread(target=complete_next)
    thread.start()
    with pytest.raises(OpFailed, match="broke the protocol"):
        imposter.burst.execute(imposter.request, RUN)
    thread.join()


def test_an_answer_is_not_taken_for_that_to_the_next_question(imposter: Imposter) -> None:
    def answer() -> None:
        receive_now(imposter.connection)
        imposter.connection.send(answer_packet(None))
        with contextlib.suppress(BrokenPipeError):
            imposter.connection.send(answer_packet(None))

    send, thread = Ring._send, threading.Thread(target=answer)

    def late(ring: Ring, *arguments: Any, **options: Any) -> Any:
        thread.join()  # both answers are there
        return send(ring, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ring, "_send", late)
        thread.start()
        with pytest.raises(OpFailed, match=r"broke the protocol.*not asked"):
            imposter.burst.execute(imposter.request, RUN)


@pytest.mark.timed
@pytest.mark.parametrize("packet", [b"", b"\xff", bytes(3), bytes([OUTCOME])], ids=len)
def test_a_daemon_that_answers_a_question_otherwise(imposter: Imposter, packet: bytes) -> None:
    """The ring ends at once, with an error that blames the daemon.

    An empty packet stands for the completion of an execution that was never submitted.
    """

    def answer() -> None:
        receive_now(imposter.connection)
        if packet:
            imposter.connection.send(packet)
        else:
            imposter.ring.put(COMPLETION.pack(False, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))
            with contextlib.suppress(BrokenPipeError):
                imposter.connection.send(struct.pack("<BI", 0, 1))

    thread = threading.Thread(target=answer)
    thread.start()
    start = time.monotonic()
    with pytest.raises(OpFailed, match="broke the protocol"):
        imposter.burst.execute(imposter.request, RUN)
    assert time.monotonic() - start < 5
    thread.join()
    with pytest.raises(DeadObject):
        imposter.burst.execute(imposter.request, RUN)


def test_a_daemon_that_hangs_up(imposter: Imposter) -> None:
    imposter.serve(lambda: imposter.connection.shutdown(socket.SHUT_RDWR))
    with pytest.raises(DeadObject):
        imposter.burst.execute(imposter.request, RUN)


def test_an_unknown_code_is_a_failure(imposter: Imposter) -> None:
    def complete() -> None:
        packet = bytearray(error_packet(1, Unmappable("x")))
        packet[5] = 99
        imposter.connection.send(packet)
        imposter.ring.put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS))

    imposter.serve(complete)
    with pytest.raises(OpFailed, match="99"):
        imposter.burst.execute(imposter.request, RUN)

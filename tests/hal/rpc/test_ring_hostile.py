"""Clients that break the protocol of a ring lose their ring, without an effect on others."""

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.open_files import copies, open_files
from support.daemon.peer import Peer, ring_threads
from support.daemon.scribbler import scribbling
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald._proto import device_pb2
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Error
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.records import replace
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.client.rings.ring_peer import RingPeer
from neurald.hal.rpc.server import native_executions
from neurald.hal.rpc.server.ring_server import RingServer
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport import ring_packet
from neurald.hal.rpc.transport.packet import rights
from neurald.hal.rpc.transport.ring_end import RING_BYTES, STORES_IN_ORDER, RingEnd, RingSide
from neurald.hal.rpc.transport.ring_packet import (
    ANSWER,
    COMPLETION,
    MAX_SLOTS,
    MEMORY,
    MEMORY_HEAD,
    ONGOING_REQUEST,
    OUTCOME,
    RELEASE,
    RELEASE_HEAD,
    SUBMISSION,
    pack_arguments,
    request_packet,
    require_success,
)

RUN = ExecuteOptions()
#: The handle of a client's first prepared model.
HANDLE = 1
_BLOCKS, _BLOCK_BYTES = 32, 64
REQUEST = Request(
    inputs=(Argument(pool=0, length=24),), outputs=(Argument(pool=0, offset=64, length=24),), pools=()
)


@pytest.fixture(params=[AddingDevice, CpuDevice], ids=["python", "native"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeviceServer]:
    """A daemon whose rings are served by Python, or by native code after the first execution."""
    monkeypatch.setattr(native_executions, "_MAX_NATIVE_S", 1000.0)
    server = DeviceServer(request.param(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()
    wait_until(lambda: ring_threads() == 0)


class Raw:
    """A client's end of a ring that sends anything."""

    def __init__(self, peer: Peer) -> None:
        assert peer.side is not None
        self.memory = SharedMemory.create(RING_BYTES)
        self.connection, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(60)
        self.handle = peer.prepare()
        peer.side.open_ring(self.theirs, self.memory)
        self.ring = RingEnd(self.memory, self.connection, RingSide.CLIENT)
        self.shared = SharedMemory.create(1024)

    def ask(self, packet: bytes, *descriptors: int) -> None:
        self.ring.announce_packet()
        self.connection.sendmsg([packet], rights(descriptors) if descriptors else [])
        answer = self.connection.recv(1 << 16)
        while answer and answer[0] != ANSWER:  # it wakes us, or tells the outcome of a run
            answer = self.connection.recv(1 << 16)
        require_success(answer)

    def prepare(self) -> None:
        self.ask(MEMORY_HEAD.pack(MEMORY, 1, 1024, False), self.shared.fd)
        self.ask(request_packet(0, self.handle, pack_arguments(REQUEST, (1,))))

    def run(self) -> bytes:
        self.ring.put(SUBMISSION.pack(0, False, -1.0, 2.0))
        return self.taken()

    def taken(self) -> bytes:
        while not self.ring.sleep(10):
            packet = self.connection.recv(1 << 16)
            assert packet, "the ring is over"
        return self.ring.take()

    def is_cut_off(self) -> bool:
        """Waits until the daemon has ended the ring; returns whether it has."""
        try:
            while self.connection.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.theirs.close()
        self.connection.close()


@pytest.fixture
def raw(peer: Peer) -> Iterator[Raw]:
    raw = Raw(peer)
    raw.theirs.close()
    yield raw
    raw.close()


@pytest.fixture
def bystander(server: DeviceServer) -> Iterator[Callable[[], None]]:
    """Yields a check that another client's burst works."""
    remote = connect(str(server.address))
    burst = remote.prepare_model(addition(np.ones(3)), PrepareOptions()).create_burst()
    values, result = np.zeros(3, np.float32), np.zeros(3, np.float32)
    wanted = request(values, result)

    def check() -> None:
        values[:] += 1
        burst.execute(wanted, RUN)
        assert result.tolist() == (values + 1).tolist()

    check()
    yield check
    check()
    burst.close()
    remote.close()


def test_the_bare_protocol(raw: Raw) -> None:
    raw.prepare()
    view = np.frombuffer(raw.shared.view(), np.float32)
    view[:6] = 5
    assert COMPLETION.unpack_from(raw.run())[0] == 1
    assert view[16:22].tolist() == [5, 6, 7, 8, 9, 10]
    assert COMPLETION.unpack_from(raw.run())[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_executions_write_only_their_outputs_whatever_happens_to_the_ring(
    server: DeviceServer, seed: int
) -> None:
    """Requests are also replaced while another process submits them, and changes the submissions.

    Each writes its output to a block of an odd number. Inputs and all other blocks stay.
    """
    is_native = isinstance(server.handler._device, CpuDevice) and STORES_IN_ORDER
    start_s, completed, rings = time.monotonic(), 0, 0
    rng = np.random.default_rng(seed)

    def has_run_enough() -> bool:
        """Returns whether the ring was changed around many executions of the tested kind."""
        return completed > 50 and (server.handler.admission.gate.executions > 50 or not is_native)

    # How many there are in a time depends on what else the machine does.
    while time.monotonic() < start_s + 3 or not has_run_enough():
        assert time.monotonic() < start_s + 120, "there were too few executions"
        rings += 1
        peer = Peer(server)
        raw = Raw(peer)
        raw.theirs.close()
        shared = SharedMemory.create(_BLOCKS * _BLOCK_BYTES + 40)
        view = np.frombuffer(shared.view(), np.uint8)
        view[:] = rng.integers(0, 256, len(view), np.uint8)
        before = view.copy()
        is_output = (np.arange(len(view)) // _BLOCK_BYTES) % 2 == 1
        is_output[_BLOCKS * _BLOCK_BYTES :] = False

        def packet(number: int, kind: int = ring_packet.REQUEST, handle: int = raw.handle) -> bytes:
            output = (1 + 2 * int(rng.integers(_BLOCKS // 2))) * _BLOCK_BYTES
            wanted = Request(
                inputs=REQUEST.inputs, outputs=(Argument(pool=0, offset=output, length=24),), pools=()
            )
            return request_packet(number, handle, pack_arguments(wanted, (1,)), kind=kind)

        raw.ask(MEMORY_HEAD.pack(MEMORY, 1, len(view), False), shared.fd)
        for number in range(8):
            raw.ask(packet(number))
        submission = SUBMISSION.pack(0, False, -1.0, 2.0)
        raw.connection.setblocking(False)
        with scribbling(
            raw.memory.fd, raw.connection.fileno(), submission, requests=8, seed=seed + 10 * rings
        ):
            until_s = time.monotonic() + 1
            with contextlib.suppress(ConnectionError):
                while time.monotonic() < until_s:
                    with contextlib.suppress(BlockingIOError):
                        while raw.connection.recv(1 << 16):
                            pass
                        break  # the daemon has ended it
                    assert not np.any((view != before) & ~is_output)
                    if rng.random() < 0.05:
                        with contextlib.suppress(BlockingIOError):
                            raw.connection.send(packet(int(rng.integers(8)), ONGOING_REQUEST))
                            raw.ring.announce_packet()
                    time.sleep(0.0005)
        completed += raw.memory.view().cast("I")[RingSide.CLIENT.value[1][0]]
        raw.close()
        peer.close()
        wait_until(lambda: ring_threads() == 0)
        assert not np.any((view != before) & ~is_output)


@pytest.mark.parametrize("delay_s", [0.0, 0.0002, 0.02])
def test_a_request_is_replaced_right_before_it_is_run(raw: Raw, delay_s: float) -> None:
    """Even if native code has run the old one, and has seen its submission before the packet.

    The daemon may look at the ring between the announcement of the packet and its arrival.
    """
    raw.prepare()
    view = np.frombuffer(raw.shared.view(), np.float32)
    view[:6] = 5
    for _ in range(4):
        raw.run()
    for offset in (128, 160, 192):
        view[16:] = 0
        outputs = (Argument(pool=0, offset=offset, length=24),)
        wanted = Request(inputs=REQUEST.inputs, outputs=outputs, pools=())
        raw.ring.announce_packet()
        time.sleep(delay_s)
        raw.connection.send(request_packet(0, raw.handle, pack_arguments(wanted, (1,)), kind=ONGOING_REQUEST))
        assert COMPLETION.unpack_from(raw.run())[0] == 1
        assert np.flatnonzero(view[16:]).tolist() == [*range(offset // 4 - 16, offset // 4 - 10)]
        raw.run()


def test_ongoing_requests_that_are_not_submitted(
    raw: Raw, server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may interrupt a client after such a packet, and the daemon may read late."""
    raw.prepare()
    view = np.frombuffer(raw.shared.view(), np.float32)
    view[:6] = 5
    goes_on, wait = threading.Event(), RingServer._wait

    def wait_late(self: RingServer, *, spins: bool) -> None:
        assert goes_on.wait(60)
        wait(self, spins=spins)

    monkeypatch.setattr(RingServer, "_wait", wait_late)
    raw.ring.put(SUBMISSION.pack(0, False, -1.0, 2.0))
    raw.taken()
    view[16:] = 0
    for number, offset in ((1, 128), (0, 160)):
        outputs = (Argument(pool=0, offset=offset, length=24),)
        arguments = pack_arguments(Request(inputs=REQUEST.inputs, outputs=outputs, pools=()), (1,))
        raw.ring.announce_packet()
        raw.connection.send(request_packet(number, raw.handle, arguments, kind=ONGOING_REQUEST))
    raw.ring.put(SUBMISSION.pack(0, False, -1.0, 2.0))
    goes_on.set()
    raw.taken()
    assert np.flatnonzero(view[16:]).tolist() == [*range(160 // 4 - 16, 160 // 4 - 10)]


def test_a_refused_request_refuses_its_submission(raw: Raw, bystander: Callable[[], None]) -> None:
    """The next ones are of no request, which breaks the protocol."""
    raw.prepare()
    for number in (0, 1):
        raw.ring.announce_packet()
        raw.connection.send(request_packet(number, raw.handle, b"", kind=ONGOING_REQUEST))
        raw.ring.put(SUBMISSION.pack(number, False, -1.0, 2.0))
        assert COMPLETION.unpack_from(raw.taken())[0] == 1
        raw.ask(request_packet(0, raw.handle, pack_arguments(REQUEST, (1,))))
        raw.run()
    raw.ring.put(SUBMISSION.pack(1, False, -1.0, 2.0))
    assert raw.is_cut_off()


@pytest.mark.parametrize("packet", [bytes([ONGOING_REQUEST]), request_packet(64, 1, b"", ONGOING_REQUEST)])
def test_requests_without_a_number(raw: Raw, bystander: Callable[[], None], packet: bytes) -> None:
    raw.prepare()
    raw.connection.send(packet)
    assert raw.is_cut_off()


@pytest.mark.parametrize(
    "packet",
    [
        b"\0",
        bytes(100),
        bytes([RELEASE]),
        bytes([ANSWER, 0]),
        bytes([OUTCOME]) + bytes(20),
        b"\xff" * 20,
        bytes(70_000),
    ],
    ids=len,
)
def test_packets_that_are_none(raw: Raw, bystander: Callable[[], None], packet: bytes) -> None:
    raw.prepare()
    raw.run()
    raw.connection.send(packet)
    assert raw.is_cut_off()


@pytest.mark.parametrize(
    "submission",
    [
        SUBMISSION.pack(1, 0, -1.0, 2.0),
        SUBMISSION.pack(0xFFFFFFFF, 0, -1.0, 2.0),
        SUBMISSION.pack(0, 2, -1.0, 2.0),
        SUBMISSION.pack(0, 0, float("nan"), 2.0),
        SUBMISSION.pack(0, 0, -1.0, float("nan")),
        SUBMISSION.pack(0, 0, -1.0, -2.0),
    ],
)
def test_submissions_that_are_none(raw: Raw, bystander: Callable[[], None], submission: bytes) -> None:
    raw.prepare()
    raw.run()
    raw.ring.put(submission)
    assert raw.is_cut_off()


@pytest.mark.parametrize("number", [0, 3, 4, 0x7FFFFFFF, 0xFFFFFFFF])
def test_numbers_out_of_turn(raw: Raw, bystander: Callable[[], None], number: int) -> None:
    raw.prepare()
    raw.run()
    struct.pack_into("I", raw.memory.view(), 0, number)
    with contextlib.suppress(ConnectionError):  # a daemon that polls has seen the number already
        raw.connection.send(struct.pack("<BI", 0, number))
    assert raw.is_cut_off()


@pytest.mark.parametrize(
    "packet",
    [
        request_packet(64, HANDLE, pack_arguments(REQUEST, (1,))),
        request_packet(0, HANDLE, pack_arguments(REQUEST, (2,))),
        request_packet(0, HANDLE, pack_arguments(REQUEST, (0,))),
        request_packet(0, HANDLE, pack_arguments(REQUEST, (1,)) + b"x"),
        request_packet(0, HANDLE, pack_arguments(REQUEST, (1,))[:-1]),
        request_packet(0, HANDLE, b""),
        request_packet(0, HANDLE + 1, pack_arguments(REQUEST, (1,))),
        request_packet(0, 2**64 - 1, pack_arguments(REQUEST, (1,))),
        request_packet(0, HANDLE, struct.pack("<HH", 65535, 65535)),
        *(
            request_packet(
                0,
                HANDLE,
                pack_arguments(
                    Request(
                        inputs=(Argument(pool=0, offset=offset, length=length),),
                        outputs=REQUEST.outputs,
                        pools=(),
                    ),
                    (1,),
                ),
            )
            for offset, length in ((1001, 24), (2**64 - 24, 24), (2**64 - 1, 2**64 - 1), (0, 25))
        ),
        request_packet(
            0,
            HANDLE,
            pack_arguments(
                Request(
                    inputs=(Argument(pool=0, length=24, dimensions=(2**63, 2**63)),),
                    outputs=REQUEST.outputs,
                    pools=(),
                ),
                (1,),
            ),
        ),
    ],
    ids=len,
)
def test_requests_that_are_none(raw: Raw, bystander: Callable[[], None], packet: bytes) -> None:
    raw.prepare()
    with pytest.raises(BadData):
        raw.ask(packet)
    # That is not breaking the rules, and what was known still is.
    raw.run()


def test_memories_that_are_none(raw: Raw, bystander: Callable[[], None]) -> None:
    raw.prepare()
    unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 1024)
    reader, writer = os.pipe()
    for descriptor in (unsealed, reader):
        with pytest.raises(BadData):
            raw.ask(MEMORY_HEAD.pack(MEMORY, 2, 1024, False), descriptor)
    for size in (0, 1023, 2**64 - 1):
        with pytest.raises(BadData):
            raw.ask(MEMORY_HEAD.pack(MEMORY, 2, size, False), raw.shared.fd)
    with pytest.raises(BadData):
        raw.ask(MEMORY_HEAD.pack(MEMORY, 2, 1024, True), raw.shared.fd)  # not constant at all
    for slot in (0, 1):
        with pytest.raises(BadData, match="in use"):
            raw.ask(MEMORY_HEAD.pack(MEMORY, slot, 1024, False), raw.shared.fd)
    with pytest.raises(BadData):
        raw.ask(MEMORY_HEAD.pack(MEMORY, 2, 1024, False)[:-1], raw.shared.fd)
    raw.run()
    for descriptor in (unsealed, reader, writer):
        os.close(descriptor)


def test_more_slots_than_there_are(raw: Raw) -> None:
    for slot in range(1, MAX_SLOTS + 1):
        raw.ask(MEMORY_HEAD.pack(MEMORY, slot, 1024, False), raw.shared.fd)
    with pytest.raises(Error, match="slots"):
        raw.ask(MEMORY_HEAD.pack(MEMORY, MAX_SLOTS + 1, 1024, False), raw.shared.fd)
    raw.connection.send(RELEASE_HEAD.pack(RELEASE, 5))
    raw.ask(MEMORY_HEAD.pack(MEMORY, MAX_SLOTS + 1, 1024, False), raw.shared.fd)


@pytest.mark.parametrize("descriptors", [0, 2])
def test_a_wrong_number_of_descriptors(raw: Raw, bystander: Callable[[], None], descriptors: int) -> None:
    before = open_files()
    packet = MEMORY_HEAD.pack(MEMORY, 2, 1024, False)
    raw.connection.sendmsg([packet], rights([raw.shared.fd] * descriptors) if descriptors else [])
    assert raw.is_cut_off()

    def are_closed() -> bool:
        """Returns whether the descriptors of the ring and those with the packet are closed."""
        now = open_files()
        is_kept = any(inode == os.fstat(raw.shared.fd).st_ino for _, _, inode in now - before)
        return bool(before - now) and not is_kept

    wait_until(are_closed)


def test_a_released_slot_takes_its_requests_along(raw: Raw, bystander: Callable[[], None]) -> None:
    raw.prepare()
    raw.run()
    raw.connection.send(RELEASE_HEAD.pack(RELEASE, 1))
    with pytest.raises(BadData, match="no memory"):
        raw.ask(request_packet(1, raw.handle, pack_arguments(REQUEST, (1,))))
    raw.ring.put(SUBMISSION.pack(0, False, -1.0, 2.0))
    assert raw.is_cut_off()


def test_a_released_prepared_model_is_not_run(raw: Raw, peer: Peer, bystander: Callable[[], None]) -> None:
    raw.prepare()
    raw.run()
    peer.call("ReleasePreparedModel", device_pb2.ReleasePreparedModelRequest(prepared_model=raw.handle))
    assert COMPLETION.unpack_from(raw.run())[0] == 1
    with pytest.raises(BadData, match="not known"):
        raw.ask(request_packet(1, raw.handle, pack_arguments(REQUEST, (1,))))
    # The ring itself goes on.
    raw.handle = peer.prepare()
    raw.ask(request_packet(0, raw.handle, pack_arguments(REQUEST, (1,))))
    raw.run()


def test_answers_that_nobody_reads(raw: Raw, bystander: Callable[[], None]) -> None:
    packet = request_packet(0, HANDLE, b"")
    with contextlib.suppress(ConnectionError):
        for _ in range(100_000):
            raw.connection.send(packet)
    assert raw.is_cut_off()


def test_words_that_flip(raw: Raw, bystander: Callable[[], None]) -> None:
    raw.prepare()
    raw.run()
    view, stop = raw.memory.view(), threading.Event()

    def flip() -> None:
        random = np.random.default_rng(0)
        while not stop.is_set():
            offset = int(random.integers(8, 48))
            view[offset] = int(random.integers(256))

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(200):
            raw.ring.put(SUBMISSION.pack(0, False, -1.0, 2.0))
            try:
                while not raw.ring.sleep(5):
                    if not raw.connection.recv(1 << 16):
                        return
            except ConnectionError:
                return
            raw.ring.take()
            bystander()
    finally:
        stop.set()
        thread.join()


def test_a_client_that_vanishes(raw: Raw, bystander: Callable[[], None]) -> None:
    raw.prepare()
    raw.run()
    raw.ring.put(SUBMISSION.pack(0, False, -1.0, 2.0))
    raw.connection.close()
    wait_until(lambda: ring_threads() == 1)


def test_a_client_that_keeps_the_daemons_end(peer: Peer, server: DeviceServer) -> None:
    raw = Raw(peer)
    raw.prepare()
    raw.run()
    # The description is one: what is set here is set for the daemon too.
    flags = fcntl.fcntl(raw.theirs, fcntl.F_GETFL)
    fcntl.fcntl(raw.theirs, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
    stop = threading.Event()

    def steal() -> None:
        raw.theirs.settimeout(0.01)
        while not stop.is_set():
            with contextlib.suppress(OSError):
                raw.theirs.recv(1 << 16)

    thread = threading.Thread(target=steal)
    thread.start()
    for _ in range(200):
        with contextlib.suppress(OSError):
            raw.connection.send(request_packet(0, HANDLE, b""))
    stop.set()
    thread.join()
    peer.close()
    wait_until(lambda: ring_threads() == 0)
    raw.close()


def test_rings_that_cannot_be(peer: Peer, bystander: Callable[[], None]) -> None:
    assert peer.side is not None
    ring, large = SharedMemory.create(RING_BYTES), SharedMemory.create(RING_BYTES * 2)
    constant = SharedMemory.constant(memoryview(bytes(RING_BYTES)))
    stream, other = socket.socketpair()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with stream, other, ours, theirs, Path("/dev/null").open() as file:
        given = [each.fileno() for each in (stream, theirs)]
        given += [memory.fd for memory in (ring, large, constant)]
        before = [copies(each) for each in given]  # the mappings of this process have some, too
        for connection, memory in ((theirs, large), (theirs, constant), (stream, ring)):
            with pytest.raises(BadData):
                peer.side.open_ring(connection, memory)
        with pytest.raises(BadData, match="connection"):
            peer.side.open_ring(file, ring)  # type: ignore[arg-type]
        # The threads of the daemon may still be closing theirs.
        wait_until(lambda: [copies(each) for each in given] == before)


# Clients


def test_answers_to_a_client_that_was_interrupted(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers that it has not read are not taken for those to its next packets."""
    remote = connect(str(server.address))
    prepared = remote.prepare_model(addition(np.ones(6)), PrepareOptions())
    sleep = RingPeer._sleep

    def interrupt(self: RingPeer, timeout_s: float) -> bool:
        monkeypatch.setattr(RingPeer, "_sleep", sleep)
        raise KeyboardInterrupt

    monkeypatch.setattr(RingPeer, "_sleep", interrupt)
    first, second = SharedMemory.create(1024), SharedMemory.create(1024)
    with pytest.raises(KeyboardInterrupt):
        prepared.execute(replace(REQUEST, pools=(first,)), RUN)
    view = np.frombuffer(second.view(), np.float32)
    wanted = replace(REQUEST, pools=(second,))
    for value in range(5):
        view[:6] = value
        prepared.execute(wanted, RUN)
        assert view[16:22].tolist() == [value + 1.0] * 6
    assert not np.frombuffer(first.view(), np.float32).any()
    remote.close()

"""Fuzzes rings: a hostile client against a daemon, and a hostile daemon against a client.

An input is a JSON list of actions. The first one names the hostile side, `client`, `daemon`, or
`native client`, whose daemon serves rings by native code; the others are

    packet   bytes sent over the ring's socket, with some descriptors of memories
    ring     bytes written anywhere into the ring
    put      an entry put into the ring in turn, with the number and the packet that go with it
    take     wait for a packet or an entry from the other side
    close    the socket is closed

The other side is the real implementation. A daemon must answer or disconnect the client, and still
serve another client's burst; a client's execution must end with a result or an nd.Error. Afterwards
the other side's resources must not have grown.
"""

import contextlib
import json
import os
import random
import select
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.leaks import Leaks
from fuzz.target import Finding, as_text, from_text, kind_of, mutate_bytes
from support.daemon.peer import Peer, ring_threads
from support.models.addition import AddingDevice, addition, request

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.device import ExecuteOptions, OutputShape, PrepareOptions
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server import native_executions
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.packet import receive_packet, rights
from neurald.hal.rpc.transport.ring_end import RING_BYTES, RingEnd, RingSide
from neurald.hal.rpc.transport.ring_packet import (
    COMPLETION,
    MEMORY,
    MEMORY_HEAD,
    ONGOING_REQUEST,
    RELEASE,
    RELEASE_HEAD,
    SUBMISSION,
    UNKNOWN_NS,
    answer_packet,
    error_packet,
    pack_arguments,
    request_packet,
    shapes_packet,
)

_MEMORY_BYTES = 1024
_REQUEST = Request(
    inputs=(Argument(pool=0, length=24),), outputs=(Argument(pool=0, offset=64, length=24),), pools=()
)
#: Time limit for a reaction of the other side; a take without result ends earlier.
_REACTION_S, _TAKE_S = 10.0, 0.05
_EXECUTION_S = 1.0
_LARGEST_PACKET = 70_000
#: The handle of the client's only prepared model.
_HANDLE = 1
_NATIVE = "native client"

Action = dict[str, Any]


def _packet(content: bytes, descriptors: int = 0) -> Action:
    return {"kind": "packet", "data": as_text(content), "fds": descriptors}


def _put(content: bytes) -> Action:
    return {"kind": "put", "data": as_text(content)}


_TAKE: Action = {"kind": "take"}


def _client_seeds(kind: str) -> list[list[Action]]:
    """Returns the actions of a correct client."""
    start = [
        {"kind": kind},
        _packet(MEMORY_HEAD.pack(MEMORY, 1, _MEMORY_BYTES, False), 1),
        _TAKE,
        _packet(request_packet(0, _HANDLE, pack_arguments(_REQUEST, (1,)))),
        _TAKE,
    ]
    run = [_put(SUBMISSION.pack(0, True, 1.0, 2.0)), _TAKE]
    second = [_packet(request_packet(1, _HANDLE, pack_arguments(_REQUEST, (1,)))), _TAKE]
    release = [_packet(RELEASE_HEAD.pack(RELEASE, 1)), *second]
    ongoing = [_packet(request_packet(1, _HANDLE, pack_arguments(_REQUEST, (1,)), ONGOING_REQUEST))]
    its_run = [_put(SUBMISSION.pack(1, False, -1.0, 2.0)), _TAKE]
    return [
        start + run,
        start + run + run,
        start + run + second,
        start + run + ongoing + its_run + run,
        start + run + release,
        start,
    ]


def _seeds() -> list[list[Action]]:
    return [*_client_seeds("client"), *_client_seeds(_NATIVE), *_daemon_seeds()]


def _daemon_seeds() -> list[list[Action]]:
    """Returns the actions of a correct daemon."""
    start = [
        {"kind": "daemon"},
        _TAKE,
        _packet(answer_packet(None)),
        _TAKE,
        _packet(answer_packet(None)),
        _TAKE,
    ]
    shape = OutputShape(dimensions=(3,), sufficient=True)
    done = _put(COMPLETION.pack(False, 0, 10, 20, 5))
    told = [
        _packet(shapes_packet(1, [shape])),
        _put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS)),
    ]
    failed = [
        _packet(error_packet(1, OpFailed("no"))),
        _put(COMPLETION.pack(True, 0, UNKNOWN_NS, UNKNOWN_NS, UNKNOWN_NS)),
    ]
    refused = [{"kind": "daemon"}, _TAKE, _packet(answer_packet(BadData("no")))]
    return [[*start, done], start + told, start + failed, refused]


class RingTarget:
    """Implements `Target`; daemon and clients run in this process."""

    limit_s = 60.0
    address_space = 2 << 30

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nf")
        self._server: DeviceServer | None = None
        self._native: DeviceServer | None = None
        self._errors: list[str] = []
        threading.excepthook = lambda arguments: self._errors.append(
            f"{arguments.exc_type.__name__}: {arguments.exc_value} in thread {arguments.thread.name if arguments.thread else ''}"
        )

    def _start(self) -> None:
        self._server = DeviceServer(AddingDevice(), Address.parse(f"unix://{self._folder.name}/d.sock"))
        self._server.start()
        self._peer = Peer(self._server)
        if self._peer.prepare() != _HANDLE:
            raise RuntimeError(f"the first prepared model has another handle than {_HANDLE}")
        self._shared = SharedMemory.create(_MEMORY_BYTES)
        self._bystander = connect(str(self._server.address))
        self._honest = self._bystander.prepare_model(addition(np.ones(3)), PrepareOptions()).create_burst()
        self._values, self._result = np.zeros(3, np.float32), np.zeros(3, np.float32)
        self._wanted = request(self._values, self._result)
        self._victim = connect(str(self._server.address))
        self._prepared = self._victim.prepare_model(addition(np.ones(3)), PrepareOptions())
        # As long as an execution took less, its next ones are native code's.
        native_executions._MAX_NATIVE_S = 1000.0  # type: ignore[misc]
        self._native = DeviceServer(CpuDevice(), Address.parse(f"unix://{self._folder.name}/n.sock"))
        self._native.start()
        self._native_peer = Peer(self._native)
        if self._native_peer.prepare() != _HANDLE:
            raise RuntimeError(f"the first prepared model has another handle than {_HANDLE}")
        self._check_bystander()
        # The process may keep what it opens for the first ring of each kind.
        self._from_client(_client_seeds("client")[0][1:], self._peer)
        for _ in range(3):
            self._from_client(_client_seeds(_NATIVE)[1][1:], self._native_peer)
        self._from_daemon(_daemon_seeds()[0][1:])
        self._leaks = Leaks("bursts", _open_descriptors, ring_threads, _REACTION_S)

    def _check_bystander(self) -> None:
        self._values[:] += 1
        try:
            self._honest.execute(self._wanted, ExecuteOptions(deadline_s=time.monotonic() + _REACTION_S))
        except nd.Error as error:
            raise Finding(f"another client's burst fails: {error.code.name}: {error}") from None
        if self._result.tolist() != (self._values + 1).tolist():
            raise Finding(f"another client's burst gives {self._result.tolist()} for {self._values.tolist()}")

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        return [json.dumps(actions).encode() for actions in _seeds()]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`."""
        head, *actions = json.loads(content)
        others = [action for seed in _seeds() if seed[0]["kind"] == head["kind"] for action in seed[1:]]
        names = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            at = rng.randrange(len(actions) + 1)
            kind = rng.choice(
                ("change", "change", "change", "remove", "repeat", "swap", "add", "ring", "ring", "close")
            )
            names.append(kind)
            if kind == "change" and actions:
                _change(rng.choice(actions), rng)
            elif kind == "remove":
                del actions[at : at + 1]
            elif kind == "repeat":
                actions[at:at] = [dict(action) for action in actions[at : at + 1]] * rng.choice((1, 2, 50))
            elif kind == "swap" and actions:
                other = rng.randrange(len(actions))
                at = min(at, len(actions) - 1)
                actions[at], actions[other] = actions[other], actions[at]
            elif kind == "add":
                actions.insert(at, dict(rng.choice(others)))
            elif kind == "ring":
                offset = rng.choice((0, 4, 8, 64, 68, 72, 128, 132, 192, 196, rng.randrange(RING_BYTES - 8)))
                data = rng.choice((rng.randbytes(4), rng.randbytes(32), bytes(4), b"\xff" * 8, b"\2\0\0\0"))
                actions.insert(at, {"kind": "ring", "offset": offset, "data": as_text(data)})
            elif kind == "close" and rng.random() < 0.3:
                actions.insert(at, {"kind": "close"})
        return json.dumps([head, *actions[:200]]).encode(), "+".join(names)

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        if self._server is None:
            self._start()
        head, *actions = json.loads(content)
        if head["kind"] == "daemon":
            outcome = self._from_daemon(actions)
        else:
            outcome = self._from_client(actions, self._native_peer if head["kind"] == _NATIVE else self._peer)
        self._check_bystander()
        self._leaks.check()
        if self._errors:
            found = self._errors[:]
            self._errors.clear()
            raise Finding(f"a thread died: {'; '.join(found)}")
        return f"{head['kind']}: {outcome}"

    def _from_client(self, actions: Sequence[Action], peer: Peer) -> str:
        """Runs a hostile client against the daemon that this peer belongs to."""
        memory = SharedMemory.create(RING_BYTES)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                assert peer.side is not None
                peer.side.open_ring(theirs, memory)
            return self._played(ours, RingEnd(memory, ours, RingSide.CLIENT), memory, actions)

    def _from_daemon(self, actions: Sequence[Action]) -> str:
        """Runs a hostile daemon against a client."""
        kept: list[tuple[socket.socket, SharedMemory]] = []

        def configure(_: Connection, connection: socket.socket, ring: SharedMemory, *limits: object) -> None:
            kept.append((connection.dup(), ring))

        honest = Connection.open_ring
        Connection.open_ring = configure  # type: ignore[method-assign, assignment]
        try:
            burst = self._prepared.create_burst()
        finally:
            Connection.open_ring = honest  # type: ignore[method-assign]
        ours, memory = kept[0]
        result: list[str] = []

        def execute() -> None:
            values, output = np.ones(3, np.float32), np.zeros(3, np.float32)
            options = ExecuteOptions(deadline_s=time.monotonic() + _EXECUTION_S)
            try:
                burst.execute(request(values, output), options)
                result.append("done")
            except nd.Error as error:
                result.append(f"{error.code.name} {kind_of(str(error))}")

        thread = threading.Thread(target=execute, name="victim")
        with ours:
            thread.start()
            self._played(ours, RingEnd(memory, ours, RingSide.DAEMON), memory, actions)
        thread.join(_REACTION_S + _EXECUTION_S)
        if thread.is_alive():
            raise Finding(f"an execution with a deadline of {_EXECUTION_S:g} s does not end")
        burst.close()
        if not result:
            raise Finding(f"the client's call ended otherwise: {self._errors}")
        return result[0]

    def _played(
        self, ours: socket.socket, ring: RingEnd, memory: SharedMemory, actions: Sequence[Action]
    ) -> str:
        """Plays the hostile side's actions.

        Returns a few words on the other side's last reaction.
        """
        ours.setblocking(False)
        view, last = memory.view(), "nothing"
        for action in actions:
            kind = action["kind"]
            data = from_text(action.get("data", ""))
            try:
                if kind == "packet":
                    descriptors = [self._shared.fd] * action["fds"]
                    ours.sendmsg([data], rights(descriptors) if descriptors else [])
                elif kind == "ring":
                    offset = action["offset"]
                    view[offset : offset + len(data)] = data[: RING_BYTES - offset]
                elif kind == "put":
                    ring.put(data[:32])
                elif kind == "take":
                    last = self._taken(ours, ring, last)
                elif kind == "close":
                    ours.close()
                    return f"{last}, closed"
            except BlockingIOError:
                last = "full"
            except OSError:
                return f"{last}, cut off"
        return last

    def _taken(self, ours: socket.socket, ring: RingEnd, last: str) -> str:
        """Returns the other side's reaction within a moment."""
        if not select.select([ours], [], [], _TAKE_S)[0]:
            return last
        packet = receive_packet(ours, 1 << 16, 4)
        packet.close_descriptors()
        if not packet.data:
            raise ConnectionResetError
        # Entries in the ring are announced by a packet, or were there before.
        with contextlib.suppress(nd.Error, IndexError):
            ring.take()
        return f"kind {packet.data[0]} {packet.data[1:2].hex() if packet.data[0] == 4 else ''}"

    def pieces(self, content: bytes) -> Sequence[Action]:
        """See `Target.pieces`."""
        actions: list[Action] = json.loads(content)
        return actions[1:]

    def joined(self, pieces: Sequence[Action], content: bytes) -> bytes:
        """See `Target.joined`."""
        return json.dumps([json.loads(content)[0], *pieces]).encode()

    def close(self) -> None:
        """See `Target.close`."""
        if self._server is not None:
            self._honest.close()
            self._bystander.close()
            self._victim.close()
            self._peer.close()
            self._server.stop()
            self._server = None
        if self._native is not None:
            self._native_peer.close()
            self._native.stop()
            self._native = None
        self._folder.cleanup()


def _change(action: Action, rng: random.Random) -> None:
    if "data" in action:
        data = mutate_bytes(from_text(action["data"]), rng)[0]
        if rng.random() < 0.02:
            data += bytes(_LARGEST_PACKET)
        action["data"] = as_text(data)
    if "fds" in action and rng.random() < 0.2:
        action["fds"] = rng.randint(0, 3)


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only


def create(models: Path | None) -> RingTarget:
    """Creates the target."""
    del models
    return RingTarget()

"""Fuzzes the worker's end of lanes, which untrusted clients of `nd.connect_service` write to.

An input is a JSON list of actions of a hostile client. The first one names the model; others are

    order    a packet of these values, with a descriptor of one of the kinds of `_FILES`, or none
    packet   a packet of any bytes
    ring     bytes written anywhere into the ring
    repeat   the number of an order put into the ring
    take     wait for a packet of the worker
    close    the socket is closed

The worker must answer or close the lane, and still serve another lane of the same model. Nothing
may be left of a lane, no thread may die, and no traceback may be logged.
"""

import contextlib
import copy
import fcntl
import json
import logging
import os
import random
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from fuzz.leaks import Leaks
from fuzz.target import Finding, as_text, from_text, kind_of, mutate_bytes
from support.inference import zoo
from support.inference.lanes import Repeater
from support.inference.loading import load

import neurald as nd
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import KEPT_ORDERS, MAX_PACKET_BYTES, RunAnswer, TensorAt, decode_answer
from neurald.hal.lanes.repeats import SUBMISSION
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.transport.ring_end import RING_BYTES, WAKE, RingEnd, RingSide
from neurald.service.inference.worker.lane_server import LaneServer

_ARENA_BYTES: Final = 4096
_REACTION_S = 10.0
#: How long a client waits for a packet or an entry, and how long after it has once got none.
_TAKE_S, _LATER_TAKE_S = 0.5, 0.01
_INTEGERS: Final = (-1, 0, 1, 2, 3, 31, 32, 33, 64, 4095, 4096, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)
_REALS: Final = (0.5, float("1e300"))
_TEXTS: Final = ("", "int32", "float32", "bytes", "bool", "uint64", "object", "x" * 300, "\0")
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
#: Descriptors of lanes.
_OF_LANES: Final = ("socket:", "pipe:", "/memfd:fuzz", "/memfd:neurald lane")
#: Places of the ring that have a meaning, among any others.
_WORDS: Final = (0, 4, 8, 64, 68, 72, 128, 132, 136, 192, 196, 2048, 2112)

Action = dict[str, Any]


def _memory(size: int, seals: int = _SEALS) -> int:
    descriptor = os.memfd_create("fuzz", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _reopened(descriptor: int, flags: int) -> int:
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)
    finally:
        os.close(descriptor)


def _socket() -> int:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()


def _pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


#: Creates the descriptors that come with packets; the first two are what a correct client sends.
_FILES: Final[Mapping[str, Callable[[], int]]] = {
    "arena": lambda: _memory(_ARENA_BYTES),
    "ring": lambda: _memory(RING_BYTES),
    "unsealed": lambda: _memory(_ARENA_BYTES, 0),
    "shrinkable": lambda: _memory(_ARENA_BYTES, fcntl.F_SEAL_GROW),
    "constant": lambda: _memory(_ARENA_BYTES, _SEALS | fcntl.F_SEAL_WRITE),
    "future": lambda: _memory(_ARENA_BYTES, _SEALS | 0x10),
    "empty": lambda: _memory(0),
    "byte": lambda: _memory(1),
    "sparse": lambda: _memory(1 << 46),
    "largest": lambda: _memory((1 << 63) - 4096),
    "read-only": lambda: _reopened(_memory(_ARENA_BYTES), os.O_RDONLY),
    "path": lambda: _reopened(_memory(_ARENA_BYTES), os.O_PATH),
    "directory": lambda: os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
    "zero": lambda: os.open("/dev/zero", os.O_RDWR | os.O_CLOEXEC),
    "null": lambda: os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC),
    "process": lambda: os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC),
    "socket": _socket,
    "pipe": _pipe,
    "event": lambda: os.eventfd(0),
}


def _order(*values: Any, file: str | None = None) -> Action:
    return {"kind": "order", "values": list(values), "file": file}


_TAKE: Action = {"kind": "take"}
_REPEAT: Action = {"kind": "repeat", "slot": 0}


def _tensor(kind: str, shape: Sequence[int], offset: int, size: int) -> list[Any]:
    return [kind, list(shape), offset, size]


def _seed(model: str, inputs: list[Any], wanted: Sequence[int], results: Sequence[Any] = ()) -> list[Action]:
    """Returns the actions of a correct client, which runs a model with an order and repeats it."""
    run = _order("run", 1, 0, inputs, 1024, list(wanted), 2048, list(results))
    return [
        {"model": model},
        _order("ring", RING_BYTES, file="ring"),
        _order("arena", _ARENA_BYTES, file="arena"),
        run,
        _TAKE,
        *([_REPEAT, _TAKE] * 5),
        _order("run", 7, 3, inputs, 2048, list(wanted)),
        _TAKE,
    ]


_MODELS: Final[Mapping[str, Callable[[], bytes]]] = {
    "addition": zoo.addition,
    "open": zoo.open_addition,
    "texts": zoo.two_texts,
    "counting": zoo.counting,
}


def _seeds() -> list[list[Action]]:
    whole = [_tensor("int32", (1, 4), 0, 16), _tensor("int32", (1, 4), 512, 16)]
    rows = [_tensor("float32", (4, 3), 0, 48)]
    return [
        _seed("addition", whole, (0, 1)),
        _seed("addition", whole, (0,), [_tensor("int32", (1, 4), 1536, 16)]),
        _seed("open", rows, (0,)),
        _seed("open", [_tensor("float32", (0, 3), 0, 0)], (0,)),
        _seed("texts", [_tensor("bytes", (1, 4), 0, 16), _tensor("bytes", (1, 4), 64, 16)], (0, 1)),
        _seed("counting", [_tensor("int32", (), 0, 4)], (0,)),
    ]


class _Tracebacks(logging.Handler):
    """Keeps the messages that were logged with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.found.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


class LaneTarget:
    """Implements `Target`; workers and clients run in this process."""

    limit_s = 60.0
    address_space = 2 << 30

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nf")
        self._models = {name: load(content()) for name, content in _MODELS.items()}
        self._log = _Tracebacks()
        logging.getLogger("neurald").addHandler(self._log)
        threading.excepthook = lambda arguments: self._log.found.append(
            f"{arguments.exc_type.__name__}: {arguments.exc_value} in {arguments.thread}"
        )
        self._honest: Repeater | None = None
        self._leaks: Leaks

    def _start(self) -> None:
        self._honest = Repeater(self._models["addition"])
        self._check_bystander()
        for actions in _seeds():
            self._played(actions)
        self._leaks = Leaks("lanes", _open_descriptors, _lane_threads, _REACTION_S)

    def _check_bystander(self) -> None:
        assert self._honest is not None
        values = np.frombuffer(self._honest.arena.view(), np.int32)
        values[:4] += 1
        inputs = [TensorAt(kind="int32", shape=(1, 4), offset=offset, size=16) for offset in (0, 0)]
        try:
            answer, _ = self._honest.run(*inputs)
        except (OSError, nd.Error) as error:
            raise Finding(f"another client's lane fails: {error}") from None
        if not isinstance(answer, RunAnswer):
            raise Finding(f"another client's run fails: {answer}")
        found = answer.outputs[0].in_arena(self._honest.arena.view()).reshape(-1).tolist()
        if found != (2 * values[:4]).tolist():
            raise Finding(f"another client's run gives {found} for {values[:4].tolist()}")

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        return [json.dumps(actions).encode() for actions in _seeds()]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`."""
        head, *actions = json.loads(content)
        others = [action for seed in _seeds() for action in seed[1:]]
        names = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            at = rng.randrange(len(actions) + 1)
            kind = rng.choice(
                (
                    "value",
                    "value",
                    "value",
                    "value",
                    "file",
                    "bytes",
                    "ring",
                    "repeat",
                    "remove",
                    "add",
                    "close",
                )
            )
            orders = [action for action in actions if action["kind"] == "order"]
            if kind == "value" and rng.random() < 0.8:
                # Without a ring or an arena, the worker refuses whatever follows.
                orders = [action for action in orders if action["values"][:1] == ["run"]]
            if kind == "value" and orders:
                _change(rng.choice(orders)["values"], rng)
            elif kind == "file" and orders:
                rng.choice(orders)["file"] = rng.choice((None, *_FILES))
            elif kind == "bytes" and orders:
                data = mutate_bytes(msgspec.msgpack.encode(rng.choice(orders)["values"]), rng)[0]
                file = rng.choice((None, None, *_FILES))
                actions.insert(at, {"kind": "packet", "data": as_text(data), "file": file})
            elif kind == "ring":
                offset = rng.choice((*_WORDS, rng.randrange(RING_BYTES - 8)))
                data = rng.choice((rng.randbytes(4), rng.randbytes(32), bytes(4), b"\xff" * 8))
                actions.insert(at, {"kind": "ring", "offset": offset, "data": as_text(data)})
            elif kind == "repeat":
                slot = rng.choice((0, 0, 3, KEPT_ORDERS, 2**32 - 1))
                actions.insert(at, {"kind": "repeat", "slot": slot})
            elif kind == "remove":
                del actions[at : at + 1]
            elif kind == "add":
                actions.insert(at, copy.deepcopy(rng.choice(others)))
            elif kind == "close" and rng.random() < 0.3:
                actions.insert(at, {"kind": "close"})
            names.append(kind)
        return json.dumps([head, *actions[:60]]).encode(), "+".join(names)

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        if self._honest is None:
            self._start()
        actions = json.loads(content)
        outcome = self._played(actions)
        self._check_bystander()
        self._leaks.check()
        if self._log.found:
            found = self._log.found[:]
            self._log.found.clear()
            raise Finding(f"a worker logs or raises: {'; '.join(found)}")
        return f"{actions[0]['model']}: {outcome}"

    def _played(self, actions: Sequence[Action]) -> str:
        """Plays the actions; returns a few words on the last reaction of the worker."""
        head, *others = actions
        ours, theirs = socket_end.pair()
        LaneServer(theirs, self._models[head["model"]], is_trusted=False).start()
        with ours:
            ours.setblocking(False)
            try:
                return _Client(ours).played(others)
            finally:
                with contextlib.suppress(OSError):
                    ours.shutdown(socket.SHUT_RDWR)

    def pieces(self, content: bytes) -> Sequence[Action]:
        """See `Target.pieces`."""
        actions: list[Action] = json.loads(content)
        return actions[1:]

    def joined(self, pieces: Sequence[Action], content: bytes) -> bytes:
        """See `Target.joined`."""
        return json.dumps([json.loads(content)[0], *pieces]).encode()

    def close(self) -> None:
        """See `Target.close`."""
        if self._honest is not None:
            self._honest.end.close()
            self._honest = None
        logging.getLogger("neurald").removeHandler(self._log)
        self._folder.cleanup()


class _Client:
    """A hostile client's end of a lane."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._last = "nothing"
        self._take_s = _TAKE_S
        self._view: memoryview | None = None
        self._ring: RingEnd | None = None

    def played(self, actions: Sequence[Action]) -> str:
        """Plays actions; returns a few words on the last reaction."""
        for action in actions:
            if action["kind"] == "close":
                return f"{self._last}, closed"
            try:
                self._play(action)
            except BlockingIOError:
                self._last = "full"
            except OSError:
                return f"{self._last}, cut off"
        return self._last

    def _play(self, action: Action) -> None:
        kind = action["kind"]
        if kind == "order":
            self._send(msgspec.msgpack.encode(action["values"]), action["file"])
        elif kind == "packet":
            self._send(from_text(action["data"]), action["file"])
        elif kind == "ring" and self._view is not None:
            data, offset = from_text(action["data"]), action["offset"]
            data = data[: RING_BYTES - offset]
            self._view[offset : offset + len(data)] = data
        elif kind == "repeat" and self._ring is not None:
            self._ring.put(SUBMISSION.pack(action["slot"]))
        elif kind == "take":
            self._take()

    def _send(self, data: bytes, file: str | None) -> None:
        if not data or len(data) > MAX_PACKET_BYTES:
            return
        descriptor = None if file is None else _FILES[file]()
        try:
            if self._ring is not None:
                self._ring.announce_packet()
            socket_end.send(self._end, data, descriptor)
            if file == "ring" and self._ring is None and descriptor is not None:
                memory = SharedMemory.received(os.dup(descriptor), RING_BYTES, constant=False)
                self._view = memory.view()
                self._ring = RingEnd(memory, self._end, RingSide.CLIENT)
                memory.close()
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _take(self) -> None:
        if self._ring is not None:
            # What a hostile client has written into the ring may make its own end refuse it.
            with contextlib.suppress(nd.Error):
                if self._ring.sleep(self._take_s):
                    self._last = f"repeated {self._ring.take()[0]}"
                    return
        if not select.select([self._end], [], [], 0 if self._ring is not None else self._take_s)[0]:
            self._take_s = _LATER_TAKE_S
            return
        packet, descriptor = socket_end.receive(self._end)
        if descriptor is not None:
            os.close(descriptor)
        if not packet:
            raise ConnectionResetError
        if packet[0] == WAKE:
            if self._ring is not None:
                with contextlib.suppress(nd.Error):
                    self._ring.note_wake(packet)
            self._take()
            return
        try:
            answer = decode_answer(packet)
        except DECODE_ERRORS as error:
            raise Finding(f"a worker answers what is no answer: {error}") from None
        self._last = "ran" if isinstance(answer, RunAnswer) else f"failed {kind_of(answer.message)}"


def _change(values: list[Any], rng: random.Random) -> None:
    """Changes a value at any depth."""
    at = rng.randrange(len(values))
    while isinstance(values[at], list) and values[at] and rng.random() < 0.8:
        values = values[at]
        at = rng.randrange(len(values))
    old = values[at]
    kind = rng.choice(("change", "change", "change", "change", "remove", "repeat", "swap"))
    if kind == "remove":
        del values[at]
    elif kind == "repeat":
        values[at:at] = [copy.deepcopy(old)] * rng.choice((1, 2, 31, 2000))
    elif kind == "swap":
        values[at] = copy.deepcopy(rng.choice(values))
    elif isinstance(old, int):
        values[at] = rng.choice((*_INTEGERS, *_INTEGERS, old + 1, old - 1, 2 * old, *_REALS))
    elif isinstance(old, str):
        values[at] = rng.choice(_TEXTS)
    else:
        values[at] = rng.choice(([], None, "", 0, [0, 2**40, 2**40], [2**62] * 3, [1] * 32, [1] * 33))


def _lane_threads() -> int:
    return sum(thread.name == "neurald lane" for thread in threading.enumerate())


def _open_descriptors() -> int:
    """Returns how many there are that belong to lanes, and not to models."""
    count = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith(_OF_LANES)  # noqa: PTH115
    return count


def create(models: Path | None) -> LaneTarget:
    """Creates the target."""
    del models
    return LaneTarget()

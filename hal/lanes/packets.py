"""The packets of a lane.

A lane is a SEQPACKET socket and an arena, shared memory of the caller. The caller writes inputs
into the arena and sends `RunOrder`. The worker writes the outputs behind the inputs, and then
answers with `RunAnswer` or `RunFailure`. One run at a time is under way in a lane. Outputs that do
not fit come in a memory of their own, which is attached to the answer. Runs that repeat one of the
last orders need no packets, see `neurald.hal.lanes.repeats`.

A caller that the worker trusts may also give it *windows*: files of others, who may change and
truncate them at any time. Tensors of a run may be in windows. Behind the part of the arena that a
run may use, the worker then leaves for each of its windows whether it has lost pages (`CUT`).

The socket carries descriptions only, and each is copied before it is checked, so that nobody can
change it afterwards. Numbers, shapes and ranges of a packet are not trusted by either side.
"""

import math
import struct
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from neurald.hal.decoding import msgpack_decoder
from neurald.hal.errors import BadData
from neurald.hal.lanes.byte_strings import decode_byte_strings
from neurald.hal.memory.pool import checked_range

#: Tensors begin at multiples of this in an arena, as kernels prefer.
ALIGNMENT: Final = 64
#: The largest packet, and the most dimensions of a tensor.
MAX_PACKET_BYTES: Final = 1 << 16
MAX_RANK: Final = 32
#: The most elements of a tensor, also of an empty one if lengths of 0 are left out: NumPy has no
#: array with more bytes than an address can count, 8 for an element.
MAX_ELEMENTS: Final = (2**63 - 1) // 8
#: How many orders a worker keeps.
KEPT_ORDERS: Final = 32
#: How many windows a worker keeps. One more takes the place of the oldest, and has the worker
#: forget all orders.
KEPT_WINDOWS: Final = 32
#: For each window of a run whether pages of it are lost, 1 or 0.
CUT: Final = struct.Struct("<Q")
#: The type of tensors of byte strings; other types are named as in NumPy.
BYTES: Final = "bytes"

_TYPES: Final = {
    np.dtype(name).name: np.dtype(name)
    for name in ("?", "u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8")
}

Array = np.ndarray[Any, np.dtype[Any]]


class TensorAt(msgspec.Struct, frozen=True, array_like=True):
    """A tensor in an arena, or in a window.

    Attributes:
        kind: name of its element type, or `BYTES`.
        shape: its lengths.
        offset: the offset of its first byte.
        size: the size in bytes.
        window: the number of its window; 0 if it is in the arena.
    """

    kind: str
    shape: tuple[int, ...]
    offset: int
    size: int
    window: int = 0

    def check(self, arena_bytes: int) -> None:
        """Raises BadData unless the tensor fits an arena of this size, and its shape."""
        if len(self.shape) > MAX_RANK or any(length < 0 for length in self.shape):
            raise BadData(f"a tensor has the shape {list(self.shape[:MAX_RANK])}, which is not valid")
        if math.prod(filter(None, self.shape)) > MAX_ELEMENTS:
            raise BadData(f"a tensor has the shape {list(self.shape)}; no array can be that large")
        checked_range(self.offset, self.size, arena_bytes, "a tensor in an arena")
        if self.kind != BYTES:
            expected = math.prod(self.shape) * type_named(self.kind).itemsize
            if self.size != expected:
                raise BadData(
                    f"a tensor {self.kind}{list(self.shape)} has {self.size} bytes; it takes {expected}"
                )

    def in_arena(self, arena: memoryview, owner: str = "") -> Array:
        """Returns the tensor as an array on the arena's memory; a copy if it holds strings.

        Args:
            arena: the memory.
            owner: whose strings they are, see `decode_byte_strings`.

        Raises:
            BadData: it is not in the arena, or not valid.
        """
        self.check(arena.nbytes)
        content = arena[self.offset : self.offset + self.size]
        if self.kind == BYTES:
            return decode_byte_strings(content, self.shape, owner)
        return np.frombuffer(content, type_named(self.kind)).reshape(self.shape)


class RunOrder(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """Asks to run the model once.

    Attributes:
        number: the number of the run, which the answer repeats.
        slot: where the worker keeps the order, less than `KEPT_ORDERS`.
        inputs: the inputs in the order of the model.
        results_at: offset in the arena from which outputs are written.
        wanted: positions of the wanted outputs.
        results_end: where outputs must have ended that are written to the arena; 0 for its end.
        results: the wanted outputs, and where the worker writes them if they have these types and
            shapes, and if the model can be run so. If not, or if none are given, outputs are
            written from `results_at` on.
    """

    number: int
    slot: int
    inputs: tuple[TensorAt, ...]
    results_at: int
    wanted: tuple[int, ...]
    results_end: int = 0
    results: tuple[TensorAt, ...] = ()

    @property
    def windows(self) -> list[int]:
        """The numbers of the windows in which there are tensors."""
        return sorted({each.window for each in (*self.inputs, *self.results) if each.window})


class Receipt(msgspec.Struct, frozen=True, array_like=True):
    """The place and the duration of a run of the model.

    Attributes:
        devices: the devices that ran it, in the order of the steps.
        drivers: the versions of their drivers.
        is_substituted: whether the CPU took over from one of them.
        read_ns, run_ns, written_ns: how long reading inputs, running, and writing outputs took.
    """

    devices: tuple[str, ...]
    drivers: tuple[str, ...]
    is_substituted: bool
    read_ns: int
    run_ns: int
    written_ns: int

    @property
    def origin(self) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """The receipt without its durations."""
        return self.devices, self.drivers, self.is_substituted


class RunAnswer(msgspec.Struct, frozen=True, array_like=True, tag="ran"):
    """The outputs of a run.

    Attributes:
        number: the number of the run.
        outputs: those that were wanted, in the arena, or in the memory that is attached.
        attached_bytes: size of that memory; 0 without.
        receipt: the receipt of the run.
    """

    number: int
    outputs: tuple[TensorAt, ...]
    attached_bytes: int
    receipt: Receipt


class RunFailure(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The error of a run.

    Attributes:
        number: the number of the run.
        code: a `ResultCode`.
        message: the error message.
        is_cancelled: whether the caller cancelled it.
    """

    number: int
    code: int
    message: str
    is_cancelled: bool = False


class Arena(msgspec.Struct, frozen=True, array_like=True, tag="arena"):
    """Gives the worker an arena in place of the one before, whose orders it forgets.

    Its memory is attached.

    Attributes:
        size: the size in bytes.
    """

    size: int


class RingMemory(msgspec.Struct, frozen=True, array_like=True, tag="ring"):
    """Gives the worker the ring for repeated runs; its memory is attached.

    Attributes:
        size: the size in bytes.
    """

    size: int


class LaneWindow(msgspec.Struct, frozen=True, array_like=True, tag="window"):
    """Gives the worker a window on a part of the attached file, whose owner may change it.

    Attributes:
        number: the number of the window, which no other one of the lane has had.
        offset: where the part begins in the file.
        size: the size in bytes.
    """

    number: int
    offset: int
    size: int


Answer = RunAnswer | RunFailure
Order = RunOrder | Arena | RingMemory | LaneWindow

_P = TypeVar("_P")
_ENCODER: Final = msgspec.msgpack.Encoder()
decode_order: Final = msgpack_decoder(Order).decode
decode_answer: Final = msgpack_decoder(Answer).decode


def encode(packet: Order | Answer) -> bytes:
    """Encodes a packet.

    Raises:
        BadData: it is too large, since it describes too many tensors.
    """
    data = _ENCODER.encode(packet)
    if len(data) > MAX_PACKET_BYTES:
        raise BadData(f"the tensors of a run take {len(data)} bytes to describe; {MAX_PACKET_BYTES} may be")
    return data


def type_named(name: str) -> "np.dtype[Any]":
    """Returns the element type of this name.

    Raises:
        BadData: lanes carry no such elements.
    """
    found = _TYPES.get(name)
    if found is None:
        raise BadData(f"tensors of the type {name!r} cannot be passed to other processes")
    return found


def kind_of(dtype: "np.dtype[Any]") -> str:
    """Returns the name of an element type.

    Raises:
        BadData: lanes carry no such elements.
    """
    if dtype.hasobject:
        return BYTES
    type_named(dtype.name)
    return dtype.name


def aligned(offset: int) -> int:
    """Returns the next offset at which a tensor may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT

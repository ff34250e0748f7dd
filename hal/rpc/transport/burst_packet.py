"""What the two ends of a burst tell each other in packets: all that is not said again in every execution.

    client -> daemon:   MEMORY (slot, size, whether constant; with its descriptor), answered
                        RELEASE (slot)
                        REQUEST (number, arguments), answered
                        WAKE, see `neurald.hal.rpc.transport.burst_ring`
    daemon -> client:   ANSWER (result code, text)
                        OUTCOME (number of the completion, result code, then shapes or a text)
                        WAKE

Slots are numbered from 1 upwards and never again. A request number stands for the last request given under it, until one
of its slots is released. An execution then names the request by number only, and its completion says no more
than that the shapes are those told last for it, unless an OUTCOME came before.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neurald.hal.device import OutputShape
from neurald.hal.errors import BadData, Error, OpFailed, ResultCode, error_for
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Argument, Dimensions, Request
from neurald.hal.operations.machinery.signature import MAX_RANK

PACKET_BYTES = 1 << 16
#: How many of each a burst keeps.
MAX_SLOTS = 128
MAX_REQUESTS = 64
#: Inputs and outputs together; with so many the largest packet has room for all of them.
MAX_ARGUMENTS = 256

MEMORY, RELEASE, REQUEST, ANSWER, OUTCOME = range(1, 6)

MEMORY_HEAD = struct.Struct("<BQQ?")
RELEASE_HEAD = struct.Struct("<BQ")
_REQUEST_HEAD = struct.Struct("<BI")
_COUNTS = struct.Struct("<HH")
_ARGUMENT = struct.Struct("<QQQb")
_ANSWER_HEAD = struct.Struct("<BB")
_OUTCOME_HEAD = struct.Struct("<BIB")
_SHAPE = struct.Struct("<?qb")
_NONE = -1
_TEXT_BYTES = 4096

#: A submission: request, whether to measure, seconds that are left (negative: no limit), loop timeout in seconds.
SUBMISSION = struct.Struct("<II dd")
#: A completion: whether an OUTCOME came before it, padding, time on the device, in the driver and in queues (negative:
#: unknown).
COMPLETION = struct.Struct("<II qqq")


class _Reader:
    """Reads values off a packet; whatever is missing or too much is BadData."""

    def __init__(self, packet: bytes) -> None:
        self._packet = packet
        self._offset = 0

    def read(self, kind: struct.Struct) -> tuple[int, ...]:
        try:
            values = kind.unpack_from(self._packet, self._offset)
        except struct.error:
            raise BadData(f"a packet of a burst ends after {len(self._packet)} bytes") from None
        self._offset += kind.size
        return values

    def rest(self) -> str:
        return self._packet[self._offset :].decode("utf-8", "replace")

    def read_dimensions(self, rank: int) -> Dimensions:
        if rank == _NONE:
            return None
        if not 0 <= rank <= MAX_RANK:
            raise BadData(f"rank {rank} in a packet of a burst; at most {MAX_RANK} is allowed")
        return self.read(struct.Struct(f"<{rank}Q"))

    def require_end(self) -> None:
        if self._offset != len(self._packet):
            raise BadData(f"{len(self._packet) - self._offset} bytes too many in a packet of a burst")


def _dimensions(dimensions: Dimensions) -> tuple[int, bytes]:
    if dimensions is None:
        return _NONE, b""
    return len(dimensions), struct.pack(f"<{len(dimensions)}Q", *dimensions)


def _text(message: str) -> bytes:
    return message.encode("utf-8", "replace")[:_TEXT_BYTES]


# Requests


def request_packet(number: int, arguments: bytes) -> bytes:
    """A REQUEST; `arguments` are those of `pack_arguments`."""
    return _REQUEST_HEAD.pack(REQUEST, number) + arguments


def pack_arguments(request: Request, slots: Sequence[int]) -> bytes:
    """A request whose pools lie in `slots`, as bytes. Equal requests are equal bytes.

    Raises:
        BadData: a number is larger than its field.
    """
    try:
        parts = [_COUNTS.pack(len(request.inputs), len(request.outputs))]
        for argument in (*request.inputs, *request.outputs):
            rank, dimensions = _dimensions(argument.dimensions)
            slot = 0 if argument.pool is None else slots[argument.pool]
            parts += [_ARGUMENT.pack(slot, argument.offset, argument.length, rank), dimensions]
    except struct.error as error:
        raise BadData(f"the request cannot be sent: {error}") from None
    return b"".join(parts)


def read_request(packet: bytes, memory: Callable[[int], Memory]) -> tuple[int, frozenset[int], Request]:
    """Number, slots and request of a REQUEST, to be validated against its model; `memory` finds those of slots.

    Raises:
        BadData: it is none.
    """
    reader = _Reader(packet)
    _, number = reader.read(_REQUEST_HEAD)
    inputs, outputs = reader.read(_COUNTS)
    if number >= MAX_REQUESTS or inputs + outputs > MAX_ARGUMENTS:
        raise BadData(
            f"request {number} with {inputs + outputs} arguments; a burst has {MAX_REQUESTS} "
            f"with {MAX_ARGUMENTS}"
        )
    pools: dict[int, int] = {}
    arguments = []
    for _ in range(inputs + outputs):
        slot, offset, length, rank = reader.read(_ARGUMENT)
        pool = pools.setdefault(slot, len(pools)) if slot else None
        dimensions = reader.read_dimensions(rank)
        arguments.append(Argument(pool=pool, offset=offset, length=length, dimensions=dimensions))
    reader.require_end()
    request = Request(
        inputs=tuple(arguments[:inputs]), outputs=tuple(arguments[inputs:]), pools=tuple(map(memory, pools))
    )
    return number, frozenset(pools), request


# Answers


def answer_packet(error: Error | None) -> bytes:
    """An ANSWER: that all went well, or what did not."""
    if error is None:
        return _ANSWER_HEAD.pack(ANSWER, ResultCode.NO_ERROR)
    return _ANSWER_HEAD.pack(ANSWER, error.code) + _text(str(error))


def require_success(packet: bytes) -> None:
    """Raises the error that an ANSWER tells, if it does."""
    reader = _Reader(packet)
    _, code = reader.read(_ANSWER_HEAD)
    if code != ResultCode.NO_ERROR:
        raise _error(code, reader.rest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an OUTCOME tells: shapes, or else an error."""

    number: int
    shapes: tuple[OutputShape, ...] = ()
    error: Error | None = None


def shapes_packet(number: int, shapes: Sequence[OutputShape]) -> bytes:
    """An OUTCOME with the shapes of all outputs."""
    parts = [_OUTCOME_HEAD.pack(OUTCOME, number, ResultCode.NO_ERROR)]
    for shape in shapes:
        rank, dimensions = _dimensions(shape.dimensions)
        length = _NONE if shape.length is None else shape.length
        parts += [_SHAPE.pack(shape.sufficient, length, rank), dimensions]
    return b"".join(parts)


def error_packet(number: int, error: Error) -> bytes:
    """An OUTCOME with an error."""
    return _OUTCOME_HEAD.pack(OUTCOME, number, error.code) + _text(str(error))


def read_outcome(packet: bytes, outputs: int) -> Outcome:
    """What an OUTCOME of a model with that many outputs tells.

    Raises:
        BadData: it is none.
    """
    reader = _Reader(packet)
    _, number, code = reader.read(_OUTCOME_HEAD)
    if code != ResultCode.NO_ERROR:
        return Outcome(number=number, error=_error(code, reader.rest()))
    shapes = []
    for _ in range(outputs):
        sufficient, length, rank = reader.read(_SHAPE)
        dimensions = reader.read_dimensions(rank)
        shapes.append(
            OutputShape(
                dimensions=dimensions, sufficient=bool(sufficient), length=None if length < 0 else length
            )
        )
    reader.require_end()
    return Outcome(number=number, shapes=tuple(shapes))


def _error(code: int, text: str) -> Error:
    try:
        return error_for(ResultCode(code), text)
    except (ValueError, KeyError):
        return OpFailed(f"the daemon answered with result code {code}: {text}")

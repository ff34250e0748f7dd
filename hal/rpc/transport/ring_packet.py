"""The packets of a ring: everything that is not repeated in every execution.

    client -> daemon:   MEMORY (slot, size, whether constant; with its descriptor), answered
                        RELEASE (slot)
                        REQUEST (number, handle of a prepared model, arguments), answered
                        ONGOING_REQUEST (the same), not answered: the next submission is of it
                        WAKE, see `neurald.hal.rpc.transport.ring_end`
    daemon -> client:   ANSWER (result code, text)
                        OUTCOME (number of the completion, result code, then shapes or a text)
                        WAKE

Slots are numbered from 1 upwards and never reused. A request number refers to the last request sent
under it, until one of its slots or its prepared model is released. An execution only names the
number of the request, and its completion only says that the shapes are the last ones sent for it,
unless an OUTCOME was sent before. If an ONGOING_REQUEST is refused, its submission is too.
"""

import struct
from collections.abc import Callable, Sequence

from msgspec import Struct

from neurald.hal.device import OutputShape
from neurald.hal.errors import BadData, Error, OpFailed, ResultCode, error_for
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions
from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.hal.rpc.transport.ring_layout import MAX_REQUESTS as MAX_REQUESTS

PACKET_BYTES = 1 << 16
#: How many slots a ring keeps.
MAX_SLOTS = 128
#: Inputs and outputs of a request together; that many fit into a packet.
MAX_ARGUMENTS = 256

MEMORY, RELEASE, REQUEST, ANSWER, OUTCOME, ONGOING_REQUEST = range(1, 7)
#: The packets that a client announces in the ring right before it sends them.
ANNOUNCED = frozenset({MEMORY, REQUEST, ONGOING_REQUEST})

MEMORY_HEAD = struct.Struct("<BQQ?")
RELEASE_HEAD = struct.Struct("<BQ")
_REQUEST_HEAD = struct.Struct("<BIQ")
_COUNTS = struct.Struct("<HH")
_ARGUMENT = struct.Struct("<QQQb")
_ANSWER_HEAD = struct.Struct("<BB")
_OUTCOME_HEAD = struct.Struct("<BIB")
_SHAPE = struct.Struct("<?qb")
_ABSENT = -1
_MAX_TEXT_BYTES = 4096

#: A submission: request, whether to measure, remaining seconds (negative: no limit), loop timeout
#: in seconds.
SUBMISSION = struct.Struct("<II dd")
#: A completion: whether an OUTCOME was sent before it, padding, time on the device, in the driver
#: and in queues.
COMPLETION = struct.Struct("<II QQQ")
#: The value of an unknown time in a completion.
UNKNOWN_NS = 2**64 - 1


class _PacketReader:
    """Reads values from a packet; missing or surplus bytes raise BadData."""

    def __init__(self, packet: bytes) -> None:
        self._packet = packet
        self._offset = 0

    def read(self, kind: struct.Struct) -> tuple[int, ...]:
        try:
            values = kind.unpack_from(self._packet, self._offset)
        except struct.error:
            raise BadData(f"a packet of a ring ends after {len(self._packet)} bytes") from None
        self._offset += kind.size
        return values

    def rest(self) -> str:
        return self._packet[self._offset :].decode("utf-8", "replace")

    def read_dimensions(self, rank: int) -> Dimensions:
        if rank == _ABSENT:
            return None
        if not 0 <= rank <= MAX_RANK:
            raise BadData(f"rank {rank} in a packet of a ring; at most {MAX_RANK} is allowed")
        return self.read(struct.Struct(f"<{rank}Q"))

    def require_end(self) -> None:
        if self._offset != len(self._packet):
            raise BadData(f"a packet of a ring has {len(self._packet) - self._offset} surplus bytes")


def _dimensions(dimensions: Dimensions) -> tuple[int, bytes]:
    if dimensions is None:
        return _ABSENT, b""
    return len(dimensions), struct.pack(f"<{len(dimensions)}Q", *dimensions)


def _text(message: str) -> bytes:
    return message.encode("utf-8", "replace")[:_MAX_TEXT_BYTES]


# Requests


def request_packet(number: int, handle: int, arguments: bytes, kind: int = REQUEST) -> bytes:
    """Encodes a REQUEST of a prepared model, or an ONGOING_REQUEST.

    Args:
        number: the number of the request.
        handle: the handle of the prepared model.
        arguments: see `pack_arguments`.
        kind: the kind of the packet.
    """
    return _REQUEST_HEAD.pack(kind, number, handle) + arguments


def request_number(packet: bytes) -> int:
    """Returns the number of a REQUEST or an ONGOING_REQUEST.

    Raises:
        BadData: the packet has none, or one that is too large.
    """
    _, number, _ = _PacketReader(packet).read(_REQUEST_HEAD)
    if number >= MAX_REQUESTS:
        raise BadData(f"request {number} of a ring; numbers below {MAX_REQUESTS} are allowed")
    return number


def pack_arguments(request: Request, slots: Sequence[int]) -> bytes:
    """Encodes the arguments of a request whose pools are in `slots`; equal ones give equal bytes.

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


class NumberedRequest(Struct, frozen=True, kw_only=True):
    """The content of a REQUEST, which must still be validated against its prepared model.

    Attributes:
        number: the number that executions name.
        handle: the handle of the prepared model.
        slots: the slots of its memories.
        request: the request.
    """

    number: int
    handle: int
    slots: frozenset[int]
    request: Request


def read_request(packet: bytes, memory: Callable[[int], Memory]) -> NumberedRequest:
    """Decodes a REQUEST.

    Args:
        packet: the packet.
        memory: returns the memory of a slot.

    Raises:
        BadData: the packet is not valid.
    """
    reader = _PacketReader(packet)
    _, number, handle = reader.read(_REQUEST_HEAD)
    inputs, outputs = reader.read(_COUNTS)
    if number >= MAX_REQUESTS or inputs + outputs > MAX_ARGUMENTS:
        raise BadData(
            f"request {number} has {inputs + outputs} arguments; numbers below {MAX_REQUESTS} and at most "
            f"{MAX_ARGUMENTS} arguments are allowed"
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
    return NumberedRequest(number=number, handle=handle, slots=frozenset(pools), request=request)


# Answers


def answer_packet(error: Error | None) -> bytes:
    """Encodes an ANSWER: success, or an error."""
    if error is None:
        return _ANSWER_HEAD.pack(ANSWER, ResultCode.NO_ERROR)
    return _ANSWER_HEAD.pack(ANSWER, error.code) + _text(str(error))


def require_success(packet: bytes) -> None:
    """Raises the error of an ANSWER, if it has one."""
    reader = _PacketReader(packet)
    _, code = reader.read(_ANSWER_HEAD)
    if code != ResultCode.NO_ERROR:
        raise _error(code, reader.rest())


class RingOutcome(Struct, frozen=True, kw_only=True):
    """The content of an OUTCOME: shapes, or an error."""

    number: int
    shapes: tuple[OutputShape, ...] = ()
    error: Error | None = None


def shapes_packet(number: int, shapes: Sequence[OutputShape]) -> bytes:
    """Encodes an OUTCOME with the shapes of all outputs."""
    parts = [_OUTCOME_HEAD.pack(OUTCOME, number, ResultCode.NO_ERROR)]
    for shape in shapes:
        rank, dimensions = _dimensions(shape.dimensions)
        length = _ABSENT if shape.length is None else shape.length
        parts += [_SHAPE.pack(shape.sufficient, length, rank), dimensions]
    return b"".join(parts)


def error_packet(number: int, error: Error) -> bytes:
    """Encodes an OUTCOME with an error."""
    return _OUTCOME_HEAD.pack(OUTCOME, number, error.code) + _text(str(error))


def read_outcome(packet: bytes, outputs: int) -> RingOutcome:
    """Decodes an OUTCOME of a model with that many outputs.

    Raises:
        BadData: the packet is not valid.
    """
    reader = _PacketReader(packet)
    _, number, code = reader.read(_OUTCOME_HEAD)
    if code != ResultCode.NO_ERROR:
        return RingOutcome(number=number, error=_error(code, reader.rest()))
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
    return RingOutcome(number=number, shapes=tuple(shapes))


def _error(code: int, text: str) -> Error:
    try:
        return error_for(ResultCode(code), text)
    except (ValueError, KeyError):
        return OpFailed(f"the daemon answered with unknown result code {code}: {text}")

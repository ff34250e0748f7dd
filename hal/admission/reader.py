"""Makes messages of the bytes that clients send: of what was counted beforehand, in turns, with room for what is made of it."""

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from neurald.hal.accounting.memory_room import Room
from neurald.hal.admission.admission_queue import AdmissionQueue
from neurald.hal.model.types import Priority
from neurald.hal.rpc.transport.message_scan import count_parts, parse_in_pieces
from neurald.hal.rpc.transport.status import parse, token_of

_M = TypeVar("_M", bound=Message)

#: Messages inside of a message, and byte strings: a model of 40,000 operations has as many.
MAX_PARTS: Final = 400_000
#: Smaller messages cannot hold much, and are parsed without further ado.
_SMALL_BYTES: Final = 1 << 12
#: Larger ones take long enough for their clients to take turns.
_LARGE_BYTES: Final = 1 << 16
#: What becomes of a message: an operand takes about so many bytes, and a number so many for each of its own.
_PART_BYTES: Final = 400
_BYTE_FACTOR: Final = 8
#: Of what is made of messages, in all and for one client.
_ROOM_BYTES: Final = 1 << 30
_ROOM_OF_ONE_BYTES: Final = 1 << 28
_ROOM_WAIT_S: Final = 5.0


class Reader:
    """Makes messages of bytes. Thread-safe."""

    def __init__(self) -> None:
        self._queue = AdmissionQueue(1)
        self._room = Room(_ROOM_BYTES, _ROOM_OF_ONE_BYTES, wait_s=_ROOM_WAIT_S)

    @contextlib.contextmanager
    def reading(
        self, kind: type[_M], data: bytes, context: grpc.ServicerContext
    ) -> Iterator[Callable[[], _M]]:
        """Gives a function that returns the message, of which much is to be made for as long as this lasts.

        That function raises:
            BadData: there is no message of that kind, or it has fields that are not known here.
            ResourceExhaustedPersistent: it holds more than a message may.
            ResourceExhaustedTransient: there is no room beside other messages.
        """
        if len(data) <= _SMALL_BYTES:
            yield lambda: parse(kind, data)
            return
        owner = token_of(context)
        with contextlib.ExitStack() as held:

            def read() -> _M:
                if len(data) <= _LARGE_BYTES:
                    return self._read(kind, data, owner, held)
                ticket = self._queue.acquire(Priority.MEDIUM, client=owner)
                try:
                    return self._read(kind, data, owner, held)
                finally:
                    self._queue.release(ticket)

            yield read

    def _read(self, kind: type[_M], data: bytes, owner: Hashable, held: contextlib.ExitStack) -> _M:
        parts = count_parts(kind, data, MAX_PARTS)
        held.enter_context(self._room.taken(owner, parts * _PART_BYTES + len(data) * _BYTE_FACTOR))
        return parse_in_pieces(kind, data)

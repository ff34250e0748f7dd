"""Decodes large requests of clients within a budget of memory, one at a time."""

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from neurald.hal.accounting.memory_budget import MemoryBudget
from neurald.hal.admission.admission_queue import AdmissionQueue
from neurald.hal.model.types import Priority
from neurald.hal.rpc.transport.message_scan import count_parts, parse_in_pieces
from neurald.hal.rpc.transport.status import parse, token_of

_M = TypeVar("_M", bound=Message)

#: How many nested messages and byte strings a message may have: as many as a model of 40,000
#: operations.
MAX_MESSAGE_PARTS: Final = 400_000
#: Smaller messages cannot hold much, and are parsed directly.
_SMALL_BYTES: Final = 1 << 12
#: Larger messages are parsed one at a time, since that takes long.
_LARGE_BYTES: Final = 1 << 16
#: The estimated memory of a decoded message: bytes for each part, such as an operand, and for each
#: encoded byte.
_PART_BYTES: Final = 400
_BYTE_FACTOR: Final = 8
#: Memory of decoded messages, of all clients and of one client.
_MAX_BYTES: Final = 1 << 30
_MAX_CLIENT_BYTES: Final = 1 << 28
_BUDGET_WAIT_S: Final = 5.0


class MessageReader:
    """Decodes requests. Thread-safe."""

    def __init__(self) -> None:
        self._queue = AdmissionQueue(1)
        self._budget = MemoryBudget(_MAX_BYTES, _MAX_CLIENT_BYTES, wait_s=_BUDGET_WAIT_S)

    @contextlib.contextmanager
    def reading(
        self, kind: type[_M], data: bytes, context: grpc.ServicerContext
    ) -> Iterator[Callable[[], _M]]:
        """Yields a function that decodes a request, whose memory counts until the context ends.

        That function raises:
        - BadData: the bytes are not a message of that kind, or have fields that are not known here.
        - ResourceExhaustedPersistent: the message has more parts than a message may have.
        - ResourceExhaustedTransient: other messages take too much memory.

        Args:
            kind: the type of the message.
            data: the encoded message.
            context: of the call.
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
        parts = count_parts(kind, data, MAX_MESSAGE_PARTS)
        held.enter_context(self._budget.taken(owner, parts * _PART_BYTES + len(data) * _BYTE_FACTOR))
        return parse_in_pieces(kind, data)

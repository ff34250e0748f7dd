"""Decodes large requests of clients within a budget of memory, one at a time."""

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, TypeVar

from google.protobuf.message import Message

from neurald.hal.accounting.memory_budget import MemoryBudget
from neurald.hal.admission.executions.admission_queue import AdmissionQueue
from neurald.hal.admission.executions.serving_turns import ServingTurns
from neurald.hal.admission.sessions.session import Session
from neurald.hal.model.types import Priority
from neurald.hal.rpc.transport.message_scan import count_parts, parse_in_pieces
from neurald.hal.rpc.transport.status import parse

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
    """Decodes requests. Thread-safe.

    Args:
        turns: the turns of the threads that serve clients; a thread ends its turn before it waits
            here.
        weights: the weights of users, see `AdmissionQueue`.
    """

    def __init__(self, turns: ServingTurns, weights: Mapping[Hashable, float]) -> None:
        self._turns = turns
        self._queue = AdmissionQueue(1, weights=weights)
        self._budget = MemoryBudget(_MAX_BYTES, _MAX_CLIENT_BYTES, wait_s=_BUDGET_WAIT_S)

    @contextlib.contextmanager
    def reading(self, kind: type[_M], data: bytes) -> Iterator[Callable[[Session | None], _M]]:
        """Yields a function that decodes a request, whose memory counts until the context ends.

        That function takes the session of the call, None for a call that needs none. It raises:
        - BadData: the bytes are not a message of that kind, or have fields that are not known here.
        - ResourceExhaustedPersistent: the message has more parts than a message may have.
        - ResourceExhaustedTransient: other messages take too much memory.

        Args:
            kind: the type of the message.
            data: the encoded message.
        """
        if len(data) <= _SMALL_BYTES:
            yield lambda session: parse(kind, data)
            return
        with contextlib.ExitStack() as held:

            def read(session: Session | None) -> _M:
                owner, user = (None, None) if session is None else (session.token, session.user)
                self._turns.end_own()
                if len(data) <= _LARGE_BYTES:
                    return self._read(kind, data, owner, held)
                ticket = self._queue.acquire(Priority.MEDIUM, client=owner, user=user)
                try:
                    return self._read(kind, data, owner, held)
                finally:
                    self._queue.release(ticket)

            yield read

    def _read(self, kind: type[_M], data: bytes, owner: Hashable, held: contextlib.ExitStack) -> _M:
        parts = count_parts(kind, data, MAX_MESSAGE_PARTS)
        held.enter_context(self._budget.taken(owner, parts * _PART_BYTES + len(data) * _BYTE_FACTOR))
        return parse_in_pieces(kind, data)

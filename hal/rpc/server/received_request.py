"""A request that a client sent through a ring, and the cancellation of its executions."""

import weakref

from msgspec import Struct

from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.buffers.staging import ByteCopy, Staged
from neurald.hal.device import OutputShape
from neurald.hal.model.request import Request
from neurald.hal.model.types import OperandType
from neurald.hal.rpc.transport.ring_end import RingEnd
from neurald.hal.sync.cancellation import Cancellation


class RunCancellation(Cancellation):
    """A cancellation by the end of the session, or for one execution, by the client in the ring."""

    def __init__(self, ring: RingEnd) -> None:
        super().__init__()
        self._ring = ring

    def begin(self) -> None:
        """Begins to watch the ring for a cancellation of the submission that was taken last."""
        self.watch(self._ring.cancelled_address, self._ring.taken_number)

    @property
    def is_cancelled(self) -> bool:
        """See `Cancellation.is_cancelled`."""
        return self._is_cancelled or self._ring.is_cancelled


class ReceivedRequest(Struct, kw_only=True, eq=False):
    """A request that the client sent.

    Attributes:
        registered: the prepared model to run; None once the client has released it.
        types: the types of its outputs.
        request: as sent, validated.
        slots: the slots of its memories.
        staged: what is run instead if arguments must be copied.
        shapes: the last ones of its outputs that the client was sent.
        output_copies: the copies to make for these shapes.
        entry: what breadcrumbs say while it runs.
        processor_s: how long the last execution by Python used a processor, workers aside.
        may_be_native: False if native code cannot run it.
    """

    registered: weakref.ref[RegisteredModel]
    types: tuple[OperandType, ...]
    request: Request
    slots: frozenset[int]
    staged: Staged | None = None
    shapes: tuple[OutputShape, ...] | None = None
    output_copies: list[ByteCopy] | None = None
    entry: bytes = b""
    processor_s: float = 0.0
    may_be_native: bool = True

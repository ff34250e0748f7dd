"""The client's end of a burst.

Everything that an execution needs is sent to the daemon once; after that an execution costs two
numbers and their signals. A repeated request, the same object or one with the same arguments, is
only named by its number. Arguments in shared memory stay in place; others are copied to and from an
arena of the burst.
"""

import contextlib
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from neurald.hal.buffers.staging import ByteCopy, Staged, copy, stage
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import BadState, Cancelled, Error, MissedDeadlinePersistent, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.types import OperandType, Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.rpc.client.burst_peer import BurstPeer
from neurald.hal.rpc.client.burst_slots import BurstSlots
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.transport.burst_packet import (
    MAX_ARGUMENTS,
    MAX_REQUESTS,
    MAX_SLOTS,
    SUBMISSION,
    pack_arguments,
    request_packet,
)
from neurald.hal.sync.deadline import remaining_s

_NO_LIMIT_S = -1.0
#: How long an execution waits for the end of an earlier one that was late or cancelled.
_SETTLE_S = 0.5
_RUN = ExecuteOptions()


@dataclass(slots=True, kw_only=True, eq=False)
class _SentRequest:
    """A request that the daemon knows by number.

    Attributes:
        number: None once the daemon no longer knows it.
        slots: the slots of its memories.
        result: the last one that the daemon sent, without timing.
        is_sufficient: of that result.
    """

    number: int | None
    slots: frozenset[int]
    result: ExecutionResult | None = None
    is_sufficient: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class _StagedRequest:
    """A request of the caller, as it is run. It is dropped with the request.

    Attributes:
        sent: what the daemon is asked to run.
        staged: how arguments are moved.
        result: the last one for which outputs were copied back.
        output_copies: the copies that were made for it.
    """

    sent: _SentRequest
    staged: Staged
    result: ExecutionResult | None = None
    output_copies: list[ByteCopy] = field(default_factory=list)


class RemoteBurst:
    """Implements `neurald.hal.device.Burst` for a prepared model in a daemon on this host.

    After a deadline that the daemon did not keep, or a cancellation that it did not notice, the
    burst cannot be used until the daemon has finished that execution.

    Args:
        prepared_model: whose executions these are; runs the requests that a burst cannot take.
        connection: to the daemon.
        handle: of the prepared model in the daemon.
        types: of its outputs.

    Raises:
        DeadObject: the daemon is gone.
        Error: the daemon refuses the burst.
    """

    def __init__(
        self,
        prepared_model: PreparedModel,
        connection: Connection,
        handle: int,
        types: tuple[OperandType, ...],
    ) -> None:
        self._prepared_model = prepared_model
        self._types = types
        self._peer = BurstPeer(connection, handle, len(types))
        self._slots = BurstSlots(self._peer.socket, self._peer.ask)
        self._lock = forkable_lock()
        self._sent: OrderedDict[bytes, _SentRequest] = OrderedDict()
        self._free_numbers = list(range(MAX_REQUESTS))
        self._staged_requests: dict[int, tuple[weakref.ref[Request], _StagedRequest]] = {}
        self._arena: SharedMemory | None = None
        self._under_way: _StagedRequest | None = None

    @property
    def slots_assigned(self) -> int:
        """How many memories were sent to the daemon so far."""
        return self._slots.assigned

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `Burst.execute`.

        Raises:
            BadState: another thread uses the burst, or the daemon has not finished an execution
                that was late or cancelled.
            Error: see `PreparedModel.execute`.
        """
        if not self._lock.acquire(blocking=False):
            raise BadState("the burst is executing; it runs one request at a time")
        try:
            if self._under_way is not None:
                self._settle(self._under_way, options)
            if options.attributes:
                # A submission cannot hold them.
                return self._prepared_model.execute(request, options)
            known = self._staged_requests.get(id(request))
            if known is not None and known[1].sent.number is not None:
                copy(known[1].staged.input_copies)
                return self._run(known[1], options)
            if _is_for_bursts(request):
                return self._run(self._stage(request), options)
            return self._prepared_model.execute(request, options)
        finally:
            self._lock.release()

    def _run(self, entry: _StagedRequest, options: ExecuteOptions) -> ExecutionResult:
        sent = entry.sent
        left_s = _NO_LIMIT_S
        if options.deadline_s is not None:
            left_s = options.deadline_s - time.monotonic()
            if not left_s > 0:
                raise MissedDeadlinePersistent("the deadline had passed before the call was made")
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("before the call was made")
        self._under_way = entry
        self._peer.submit(SUBMISSION.pack(sent.number, options.measure, left_s, options.loop_timeout_s))
        result = self._result(sent, options)
        if entry.staged.arenas and sent.is_sufficient:
            if entry.result is not sent.result:
                entry.output_copies = entry.staged.output_copies(self._types, result.output_shapes)
                entry.result = sent.result
            copy(entry.output_copies)
        return result

    def _result(self, sent: _SentRequest, options: ExecuteOptions) -> ExecutionResult:
        timing, outcome = self._peer.complete(options)
        self._under_way = None
        if outcome is not None:
            if outcome.error is not None:
                if options.cancellation is not None and options.cancellation.is_cancelled:
                    raise Cancelled(str(outcome.error))
                raise outcome.error
            sent.result = ExecutionResult(output_shapes=outcome.shapes)
            sent.is_sufficient = sent.result.is_sufficient
        if sent.result is None:
            raise OpFailed("the daemon sent no shapes of the outputs")
        return replace(sent.result, timing=timing) if options.measure else sent.result

    def _settle(self, under_way: _StagedRequest, options: ExecuteOptions) -> None:
        """Receives the result of an execution that was late or cancelled.

        Args:
            under_way: that execution.
            options: of the next execution, which waits for a short time.

        Raises:
            BadState: it is still under way.
            DeadObject: the burst is over.
        """
        self._peer.require_open()
        left_s = remaining_s(options.deadline_s)
        if not self._peer.is_done_within(_SETTLE_S if left_s is None else min(left_s, _SETTLE_S)):
            raise BadState(
                "the daemon has not finished the last execution, which was late or cancelled; try again later"
            )
        with contextlib.suppress(Error):
            self._result(under_way.sent, _RUN)

    # Requests

    def _stage(self, request: Request) -> _StagedRequest:
        """Stages a request, which copies its inputs, and sends it to the daemon if it is new."""
        staged = stage(request, is_passthrough=_is_shared, allocate=self._allocate)
        slots = tuple(
            self._slots.assign(pool, self._forget)
            for pool in staged.request.pools
            if isinstance(pool, SharedMemory)
        )
        entry = _StagedRequest(sent=self._send(pack_arguments(staged.request, slots), slots), staged=staged)
        entries, identity = self._staged_requests, id(request)
        reference = weakref.ref(request, lambda _: entries.pop(identity, None))
        entries[identity] = (reference, entry)
        return entry

    def _send(self, arguments: bytes, slots: tuple[int, ...]) -> _SentRequest:
        """Sends a request to the daemon, unless an equal one was sent."""
        sent = self._sent.get(arguments)
        if sent is not None:
            self._sent.move_to_end(arguments)
            return sent
        if not self._free_numbers:
            self._drop(next(iter(self._sent)))
        number = self._free_numbers[-1]
        self._peer.ask(request_packet(number, arguments))
        self._free_numbers.pop()
        sent = self._sent[arguments] = _SentRequest(number=number, slots=frozenset(slots))
        return sent

    def _forget(self, slot: int) -> None:
        """Drops the requests with memory in a slot, as the daemon does."""
        for arguments in [key for key, sent in self._sent.items() if slot in sent.slots]:
            self._drop(arguments)

    def _drop(self, arguments: bytes) -> None:
        sent = self._sent.pop(arguments)
        if sent.number is not None:
            self._free_numbers.append(sent.number)
        sent.number = None

    def _allocate(self, size_bytes: int) -> Memory:
        """Returns the arena of the burst; one request uses it at a time."""
        if self._arena is None or self._arena.size < size_bytes:
            old, self._arena = self._arena, SharedMemory.working(1 << (size_bytes - 1).bit_length())
            slot = None if old is None else self._slots.release(old)
            if slot is not None:
                self._forget(slot)
        return self._arena

    def close(self) -> None:
        """See `Burst.close`. An execution under way ends with DeadObject."""
        self._peer.shut_down()
        with self._lock:
            self._peer.close()
            self._staged_requests.clear()
            self._sent.clear()
            self._arena = None


def _is_shared(memory: Memory) -> bool:
    return isinstance(memory, SharedMemory)


def _is_for_bursts(request: Request) -> bool:
    """Returns whether a request has few enough arguments, in memory that can be sent or copied."""
    return (
        len(request.inputs) + len(request.outputs) <= MAX_ARGUMENTS
        and len(request.pools) < MAX_SLOTS
        and all(
            isinstance(pool, SharedMemory) or type(pool) in (HostMemory, Memory) for pool in request.pools
        )
    )

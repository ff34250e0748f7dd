"""The client's end of a burst. What an execution needs is told to the daemon once; then it costs two numbers and their signals.

A request that comes again, as the same object or with the same arguments, is only named. Arguments in shared memory
stay where they are; others are copied into an arena of the burst and out of it.
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
from neurald.hal.rpc.client.burst_slots import Slots
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
#: How long an execution waits for the end of one before it that was late or cancelled.
_SETTLE_S = 0.5
_RUN = ExecuteOptions()


@dataclass(slots=True, kw_only=True, eq=False)
class _Told:
    """A request that the daemon knows by number.

    Attributes:
        number: None once it knows it no more.
        slots: that the request lies in.
        result: what the daemon said last, without timing.
        is_sufficient: of that result.
    """

    number: int | None
    slots: frozenset[int]
    result: ExecutionResult | None = None
    is_sufficient: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class _Entry:
    """A request of the caller's, as it is run. Goes with the request.

    Attributes:
        told: what the daemon is asked to run.
        staged: how arguments are moved.
        result: the last one, for which outputs were copied back.
        output_copies: what was copied back then.
    """

    told: _Told
    staged: Staged
    result: ExecutionResult | None = None
    output_copies: list[ByteCopy] = field(default_factory=list)


class RemoteBurst:
    """Implements `neurald.hal.device.Burst` for a prepared model in a daemon on this host.

    After a deadline that the daemon did not keep, and after a cancellation that it did not notice, it is of no use until
    the daemon is done with that execution.

    Args:
        prepared_model: whose executions these are; runs the requests that no burst can take.
        connection: to the daemon.
        handle: of the prepared model there.
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
        self._slots = Slots(self._peer.socket, self._peer.ask)
        self._lock = forkable_lock()
        self._told: OrderedDict[bytes, _Told] = OrderedDict()
        self._free_numbers = list(range(MAX_REQUESTS))
        self._entries: dict[int, tuple[weakref.ref[Request], _Entry]] = {}
        self._arena: SharedMemory | None = None
        self._under_way: _Entry | None = None

    @property
    def slots_given(self) -> int:
        """How many memories were ever given to the daemon."""
        return self._slots.given

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `Burst.execute`.

        Raises:
            BadState: it executes already, or the daemon is not done with an execution that was not waited for.
            Error: see `PreparedModel.execute`.
        """
        if not self._lock.acquire(blocking=False):
            raise BadState("the burst is executing; it runs one request at a time")
        try:
            if self._under_way is not None:
                self._settle(self._under_way, options)
            if options.attributes:
                return self._prepared_model.execute(request, options)  # a submission has no room for them
            found = self._entries.get(id(request))
            if found is not None and found[1].told.number is not None:
                copy(found[1].staged.input_copies)
                return self._run(found[1], options)
            if _is_for_bursts(request):
                return self._run(self._enter(request), options)
            return self._prepared_model.execute(request, options)
        finally:
            self._lock.release()

    def _run(self, entry: _Entry, options: ExecuteOptions) -> ExecutionResult:
        told = entry.told
        left_s = _NO_LIMIT_S
        if options.deadline_s is not None:
            left_s = options.deadline_s - time.monotonic()
            if not left_s > 0:
                raise MissedDeadlinePersistent("the deadline had passed before the call was made")
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("before the call was made")
        self._under_way = entry
        self._peer.submit(SUBMISSION.pack(told.number, options.measure, left_s, options.loop_timeout_s))
        result = self._result(told, options)
        if entry.staged.arenas and told.is_sufficient:
            if entry.result is not told.result:
                entry.output_copies = entry.staged.output_copies(self._types, result.output_shapes)
                entry.result = told.result
            copy(entry.output_copies)
        return result

    def _result(self, told: _Told, options: ExecuteOptions) -> ExecutionResult:
        timing, outcome = self._peer.complete(options)
        self._under_way = None
        if outcome is not None:
            if outcome.error is not None:
                if options.cancellation is not None and options.cancellation.is_cancelled:
                    raise Cancelled(str(outcome.error))
                raise outcome.error
            told.result = ExecutionResult(output_shapes=outcome.shapes)
            told.is_sufficient = told.result.is_sufficient
        if told.result is None:
            raise OpFailed("the daemon told no shapes of the outputs")
        return replace(told.result, timing=timing) if options.measure else told.result

    def _settle(self, under_way: _Entry, options: ExecuteOptions) -> None:
        """Takes what came of an execution that was waited for in vain.

        Args:
            under_way: that execution.
            options: of the next one, which waits for a moment.

        Raises:
            BadState: it still is under way.
            DeadObject: nothing will come of it.
        """
        self._peer.require_open()
        left_s = remaining_s(options.deadline_s)
        if not self._peer.is_done_within(_SETTLE_S if left_s is None else min(left_s, _SETTLE_S)):
            raise BadState("the daemon is not done yet with the last execution, which was not waited for")
        with contextlib.suppress(Error):
            self._result(under_way.told, _RUN)

    # Requests

    def _enter(self, request: Request) -> _Entry:
        """A request as it is run, known to the daemon. Its inputs have been copied."""
        staged = stage(request, is_passthrough=_is_shared, allocate=self._allocate)
        slots = tuple(
            self._slots.give(pool, self._forget)
            for pool in staged.request.pools
            if isinstance(pool, SharedMemory)
        )
        entry = _Entry(told=self._tell(pack_arguments(staged.request, slots), slots), staged=staged)
        entries, identity = self._entries, id(request)
        reference = weakref.ref(request, lambda _: entries.pop(identity, None))
        entries[identity] = (reference, entry)
        return entry

    def _tell(self, arguments: bytes, slots: tuple[int, ...]) -> _Told:
        """What stands for a request in the daemon."""
        told = self._told.get(arguments)
        if told is not None:
            self._told.move_to_end(arguments)
            return told
        if not self._free_numbers:
            self._drop(next(iter(self._told)))
        number = self._free_numbers[-1]
        self._peer.ask(request_packet(number, arguments))
        self._free_numbers.pop()
        told = self._told[arguments] = _Told(number=number, slots=frozenset(slots))
        return told

    def _forget(self, slot: int) -> None:
        """Forgets the requests that lie in a slot, as the daemon does."""
        for arguments in [key for key, told in self._told.items() if slot in told.slots]:
            self._drop(arguments)

    def _drop(self, arguments: bytes) -> None:
        told = self._told.pop(arguments)
        if told.number is not None:
            self._free_numbers.append(told.number)
        told.number = None

    def _allocate(self, size_bytes: int) -> Memory:
        """The arena of the burst; one request uses it at a time."""
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
            self._entries.clear()
            self._told.clear()
            self._arena = None


def _is_shared(memory: Memory) -> bool:
    return isinstance(memory, SharedMemory)


def _is_for_bursts(request: Request) -> bool:
    """Whether its arguments are few enough, and lie in memory that can be shared or copied."""
    return (
        len(request.inputs) + len(request.outputs) <= MAX_ARGUMENTS
        and len(request.pools) < MAX_SLOTS
        and all(
            isinstance(pool, SharedMemory) or type(pool) in (HostMemory, Memory) for pool in request.pools
        )
    )

"""The client's end of a ring, through which one thread at a time runs prepared models.

Everything that an execution needs is sent to the daemon once; after that an execution costs two
numbers and their signals. A repeated request, the same object or one with the same arguments, is
only named by its number. Arguments in shared memory stay in place; others are copied to and from an
arena of the ring.
"""

import contextlib
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from neurald.hal.buffers.staging import ByteCopy, Staged, copy, stage
from neurald.hal.device import ExecuteOptions, ExecutionResult, Timing
from neurald.hal.errors import BadState, Cancelled, Error, MissedDeadlinePersistent, OpFailed, copied
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.request import Request
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace
from neurald.hal.rpc.client.rings.ring_peer import RingConnection, RingPeer
from neurald.hal.rpc.client.rings.ring_slots import RingSlots
from neurald.hal.rpc.transport.ring_packet import (
    MAX_ARGUMENTS,
    MAX_REQUESTS,
    MAX_SLOTS,
    ONGOING_REQUEST,
    SUBMISSION,
    RingOutcome,
    pack_arguments,
    request_packet,
)
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import remaining_s

_NO_LIMIT_S = -1.0
#: Requests with more memory do not go through rings.
_MAX_BYTES = 256 << 20
#: How long an execution waits for the end of an earlier one that was late or cancelled.
_SETTLE_S = 0.5
_RUN = ExecuteOptions()


class RemoteModel(Struct, frozen=True, kw_only=True):
    """A prepared model in a daemon, as a ring runs it.

    Attributes:
        handle: the handle of the prepared model in the daemon.
        types: the types of its outputs.
    """

    handle: int
    types: tuple[OperandType, ...]


class _SentRequest(Struct, kw_only=True, eq=False):
    """A request that the daemon knows by number.

    Attributes:
        number: None once the daemon no longer knows it.
        key: its prepared model and arguments.
        slots: the slots of its memories.
        outputs: how many outputs its prepared model has.
        result: the last one that the daemon sent, without timing.
        is_sufficient: whether the outputs of that result fit.
    """

    number: int | None
    key: tuple[int, bytes]
    slots: frozenset[int]
    outputs: int
    result: ExecutionResult | None = None
    is_sufficient: bool = False


class RingRequest(Struct, kw_only=True, eq=False):
    """A request of the caller, as a ring runs it. It is dropped with the request.

    Attributes:
        model: the model that runs it.
        sent: what the daemon is asked to run.
        staged: how arguments are moved.
        result: the last one for which outputs were copied back.
        output_copies: the copies that were made for it.
    """

    model: RemoteModel
    sent: _SentRequest
    staged: Staged
    result: ExecutionResult | None = None
    output_copies: list[ByteCopy] = field(default_factory=list)


class Ring:
    """One ring of a connection. Not thread-safe, except `shut_down`.

    After a deadline that the daemon did not keep, or a cancellation that it did not notice, the
    ring cannot be used until the daemon has finished that execution.

    Args:
        connection: the connection to a daemon on this host.
        deadline_s: the time by which it must be open, on the clock of
            `time.monotonic()`.
        cancellation: ends this.

    Attributes:
        used_s: when it was last used, on the clock of `time.monotonic()`, for its owner.

    Raises:
        DeadObject: the daemon is gone.
        Error: the daemon refuses the ring.
    """

    def __init__(
        self,
        connection: RingConnection,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        self.used_s = 0.0
        self._peer = RingPeer(connection, deadline_s, cancellation)
        self._slots = RingSlots(self._peer.socket, self._peer.ask)
        self._sent: OrderedDict[tuple[int, bytes], _SentRequest] = OrderedDict()
        self._free_numbers = list(range(MAX_REQUESTS))
        self._bound: dict[int, tuple[weakref.ref[Request], RingRequest]] = {}
        self._arena: SharedMemory | None = None
        self._under_way: _SentRequest | None = None

    @property
    def slots_assigned(self) -> int:
        """The number of memories that were sent to the daemon so far."""
        return self._slots.assigned

    @property
    def is_usable(self) -> bool:
        """True if the next request can run at once, as far as is known here."""
        return self._under_way is None and self._peer.is_open

    @property
    def was_interrupted(self) -> bool:
        """True if a signal has ended a run of an open ring before its submission or after its end.

        The end of such a run never comes, and what it told about the request is lost.
        """
        return self._under_way is not None and self._peer.is_open and not self._peer.has_submission

    def knows(self, request: Request) -> bool:
        """Returns whether the ring has run this request object before."""
        return self._known(request) is not None

    def result(self, request: Request) -> ExecutionResult | None:
        """Returns the last result of a request object, without timing; None if there is none."""
        known = self._known(request)
        return None if known is None else known.sent.result

    def _known(self, request: Request) -> RingRequest | None:
        """Returns a request object as the ring has run it; None if it has not."""
        known = self._bound.get(id(request))
        # A signal handler may have interrupted what removes a request that is gone, and another
        # one may be at its address.
        return known[1] if known is not None and known[0]() is request else None

    def bind(
        self,
        model: RemoteModel,
        request: Request,
        options: ExecuteOptions,
        *,
        is_ongoing: bool = False,
    ) -> RingRequest:
        """Prepares a request that is `is_for_rings`, and copies its inputs; `run` follows.

        Args:
            model: the model that runs it.
            request: the request.
            options: the options for the execution, whose deadline and cancellation limit how long
                the daemon may take to read the request.
            is_ongoing: not to wait for the daemon, whose refusal `run` then raises. It must follow.

        Raises:
            BadState: a memory of the request is closed.
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline has passed.
            Cancelled: the execution was cancelled.
            DeadObject: the daemon is gone.
            Error: the daemon refuses the request, or one of its memories.
        """
        known = self._known(request)
        if known is not None and known.sent.number is not None and known.model is model:
            copy(known.staged.input_copies)
            return known
        return self._bound_anew(model, request, options, is_ongoing=is_ongoing)

    def _bound_anew(
        self, model: RemoteModel, request: Request, options: ExecuteOptions, *, is_ongoing: bool
    ) -> RingRequest:
        """Prepares a request that has to be sent, or is like one that was; see `bind`."""
        _left_s(options.deadline_s)
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("before the call was made")
        self._peer.deadline_s, self._peer.cancellation = options.deadline_s, options.cancellation
        staged = stage(request, is_passthrough=_is_shared, allocate=self._allocate)
        slots = tuple(
            self._slots.assign(pool, self._forget)
            for pool in staged.request.pools
            if isinstance(pool, SharedMemory)
        )
        sent = self._send(model, pack_arguments(staged.request, slots), slots, is_ongoing=is_ongoing)
        entry = RingRequest(model=model, sent=sent, staged=staged)
        entries, identity = self._bound, id(request)
        reference = weakref.ref(request, lambda _: entries.pop(identity, None))
        entries[identity] = (reference, entry)
        return entry

    def run(self, bound: RingRequest, options: ExecuteOptions) -> ExecutionResult:
        """Runs a request and copies its outputs back; see `submit`."""
        completed = self._peer.exchange(self._submission(bound, options), bound.sent.outputs, options)
        return self._finished(bound, self._noted(bound.sent, options, *completed))

    def submit(self, bound: RingRequest, options: ExecuteOptions) -> None:
        """Starts to run a request; `finish` follows.

        Args:
            bound: the request, as the last `bind` returned it.
            options: the options for the execution, without attributes.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        self._peer.submit(self._submission(bound, options), bound.sent.outputs)

    def _submission(self, bound: RingRequest, options: ExecuteOptions) -> bytes:
        """Returns what the daemon is told of a request that is submitted next; see `submit`."""
        sent = bound.sent
        left_s = _left_s(options.deadline_s)
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("before the call was made")
        self._under_way = sent
        return SUBMISSION.pack(sent.number, options.measure, left_s, options.loop_timeout_s)

    def finish(
        self, bound: RingRequest, options: ExecuteOptions, timeout_s: float | None
    ) -> ExecutionResult | None:
        """Waits for the end of the execution that was submitted, and copies its outputs back.

        Args:
            bound, options: as for `submit`.
            timeout_s: how long to wait; 0 does not wait at all, None has no limit.

        Returns:
            The result; None if the execution is still under way.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        if timeout_s is None:
            return self._finished(bound, self._result(bound.sent, options))
        completed = self._peer.complete_within(options, timeout_s)
        return (
            None if completed is None else self._finished(bound, self._noted(bound.sent, options, *completed))
        )

    def canceller(self) -> Callable[[], None]:
        """Returns a function that cancels the execution under way. Any thread may call it."""
        return partial(self._peer.cancel, self._peer.submission)

    def _finished(self, bound: RingRequest, result: ExecutionResult) -> ExecutionResult:
        """Copies the outputs of a request back, and returns its result."""
        sent = bound.sent
        if bound.staged.arenas and sent.is_sufficient:
            if bound.result is not sent.result:
                bound.output_copies = bound.staged.output_copies(bound.model.types, result.output_shapes)
                bound.result = sent.result
            copy(bound.output_copies)
        return result

    def _result(self, sent: _SentRequest, options: ExecuteOptions) -> ExecutionResult:
        return self._noted(sent, options, *self._peer.complete(options))

    def _noted(
        self, sent: _SentRequest, options: ExecuteOptions, timing: Timing, outcome: RingOutcome | None
    ) -> ExecutionResult:
        """Notes the end of an execution and returns its result."""
        if outcome is not None and outcome.error is None:
            sent.result = ExecutionResult(output_shapes=outcome.shapes)
            sent.is_sufficient = sent.result.is_sufficient
        # Last, since an interruption before this makes the ring unusable.
        self._under_way = None
        if outcome is not None and outcome.error is not None:
            if sent.result is None and sent.number is not None:
                self._drop(sent.key)  # the daemon may have refused it
            if options.cancellation is not None and options.cancellation.is_cancelled:
                raise Cancelled(str(outcome.error))
            # A copy: frames that the error passes refer to the outcome, which would keep them.
            raise copied(outcome.error)
        if sent.result is None:
            raise OpFailed("the daemon sent no shapes of the outputs")
        return replace(sent.result, timing=timing) if options.measure else sent.result

    def settle(self, options: ExecuteOptions) -> None:
        """Receives the result of an execution that was late or cancelled, if there is one.

        Args:
            options: the options of the next execution, which waits for a short time.

        Raises:
            BadState: it is still under way.
            DeadObject: the ring is over.
        """
        under_way = self._under_way
        if under_way is None:
            return
        self._peer.require_open()
        self._peer.repeat_submission()
        left_s = remaining_s(options.deadline_s)
        if not self._peer.is_done_within(_SETTLE_S if left_s is None else min(left_s, _SETTLE_S)):
            raise BadState(
                "the daemon has not finished the last execution, which was late or cancelled; try again later"
            )
        with contextlib.suppress(Error):
            self._result(under_way, _RUN)

    # Requests

    def _send(
        self, model: RemoteModel, arguments: bytes, slots: tuple[int, ...], *, is_ongoing: bool
    ) -> _SentRequest:
        """Sends a request to the daemon, unless an equal one was sent."""
        key = (model.handle, arguments)
        sent = self._sent.get(key)
        if sent is not None:
            self._sent.move_to_end(key)
            return sent
        if not self._free_numbers:
            self._drop(next(iter(self._sent)))
        number = self._free_numbers[-1]
        if is_ongoing:
            self._peer.tell(request_packet(number, model.handle, arguments, ONGOING_REQUEST))
        else:
            self._peer.ask(request_packet(number, model.handle, arguments))
        self._free_numbers.pop()
        sent = self._sent[key] = _SentRequest(
            number=number, key=key, slots=frozenset(slots), outputs=len(model.types)
        )
        return sent

    def _forget(self, slot: int) -> None:
        """Drops the requests with memory in a slot, as the daemon does."""
        for key in [key for key, sent in self._sent.items() if slot in sent.slots]:
            self._drop(key)

    def _drop(self, key: tuple[int, bytes]) -> None:
        sent = self._sent.pop(key)
        number, sent.number = sent.number, None
        # Last, since a signal handler may interrupt this: no two requests have one number.
        if number is not None:
            self._free_numbers.append(number)

    def _allocate(self, size_bytes: int) -> Memory:
        """Returns the arena of the ring; one request uses it at a time."""
        if self._arena is None or self._arena.size < size_bytes:
            old, self._arena = self._arena, SharedMemory.working(1 << (size_bytes - 1).bit_length())
            slot = None if old is None else self._slots.release(old)
            if slot is not None:
                self._forget(slot)
        return self._arena

    def release_memories(self) -> None:
        """Makes the daemon release all memories of earlier requests before the next one."""
        self._slots.release_all()
        for key in tuple(self._sent):
            self._drop(key)
        self._arena = None

    def shut_down(self) -> None:
        """Ends the ring. An execution under way ends with DeadObject. Any thread may call this."""
        self._peer.shut_down()

    def close(self) -> None:
        """Ends the ring, which must not be in use, and releases what it holds."""
        self._peer.shut_down()
        self._peer.close()
        self._bound.clear()
        self._sent.clear()
        self._arena = None


def _left_s(deadline_s: float | None) -> float:
    """Returns the time until a deadline as a submission holds it.

    Raises:
        MissedDeadlinePersistent: it has passed.
    """
    if deadline_s is None:
        return _NO_LIMIT_S
    left_s = deadline_s - time.monotonic()
    if not left_s > 0:
        raise MissedDeadlinePersistent("the deadline had passed before the call was made")
    return left_s


def _is_shared(memory: Memory) -> bool:
    return isinstance(memory, SharedMemory)


def is_for_rings(request: Request) -> bool:
    """Returns whether a request has few enough arguments, in memory that can be sent or copied.

    Rings keep memory for later requests. Too much of it would be missing elsewhere, and to send it
    each time takes a small part of the time for this much data.
    """
    return (
        len(request.inputs) + len(request.outputs) <= MAX_ARGUMENTS
        and len(request.pools) < MAX_SLOTS
        and sum(pool.size for pool in request.pools) <= _MAX_BYTES
        and all(
            isinstance(pool, SharedMemory) or type(pool) in (HostMemory, Memory) for pool in request.pools
        )
    )

"""The calls that execute prepared models: with shared or carried data, at once or after fences."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.account import charging
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.executions.admission_queue import with_queue_time
from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.admission.sessions.session import Session
from neurald.hal.buffers.buffer_use import buffers_in_use
from neurald.hal.buffers.staging import output_types, stage
from neurald.hal.crashes.breadcrumbs import CrashPhase
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import BadData
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.memory.untouched_pages import UntouchedPages
from neurald.hal.model.extension import Extension
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.hal.rpc.server.call_trace import note_execution, phase, times_of_request
from neurald.hal.rpc.transport.data_chunks import Packer, Unpacker, clamped_part_bytes
from neurald.hal.rpc.transport.data_message import DataMessage, encode_in_parts
from neurald.hal.rpc.transport.status import CHUNK_BYTES
from neurald.hal.rpc.wire.device import execute_options_from_wire
from neurald.hal.rpc.wire.model import outcome_to_wire, request_from_wire, result_to_wire
from neurald.hal.rpc.wire.profile import profile_to_wire
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in
from neurald.hal.validation.request_rules import validate_request


class ExecutionHandler:
    """Executes the prepared models of many sessions. Thread-safe.

    Args:
        admission: the admission of the daemon.
        watch: learns what is under way.
        extensions: the extensions of the device.
    """

    def __init__(self, admission: Admission, watch: CrashWatch, extensions: Sequence[Extension]) -> None:
        self._admission = admission
        self._watch = watch
        self._extensions = extensions

    def execute(
        self, session: Session, message: device_pb2.ExecuteRequest, cancellation: Cancellation
    ) -> device_pb2.ExecuteReply:
        """Runs a valid request.

        Args:
            session: the session of the client.
            message: the message with the request.
            cancellation: the cancellation that ends the work once the client no longer waits.
        """
        results: list[Memory] = []
        pools = [self._request_pool(session, pool, results) for pool in message.request.pools]
        run = self._validated(session, message, pools, cancellation)
        with run.admitted(self._admission, session) as result:
            is_wanted = result.is_sufficient and not cancellation.is_cancelled
            tokens = [session.memories.add(memory, is_result=True) for memory in results if is_wanted]
        return result_to_wire(result, tokens)

    def receive_with_data(
        self,
        session: Session,
        first: DataMessage[device_pb2.ExecuteWithDataRequest],
        parts: Iterator[DataMessage[device_pb2.ExecuteWithDataRequest]],
        cancellation: Cancellation,
        times_ns: list[int] | None = None,
    ) -> "RunWithData":
        """Receives a valid request whose messages carry the content of its memories.

        Args:
            session: the session of the client.
            first: with the request.
            parts: the other messages, of which no more are taken than are needed.
            cancellation: the cancellation that ends the work once the client no longer waits.
            times_ns: when it arrived, if the first reply has its times; see `times_of_request`.
        """
        contents: list[Memory] = []
        results: list[Memory] = []
        message = first.head.request
        pools = [self._carried_pool(session, pool, contents, results) for pool in message.request.pools]
        run = self._validated(session, message, pools, cancellation, times_ns)
        unpacker = Unpacker(contents)
        content_bytes = sum(memory.size for memory in contents)
        pages = UntouchedPages(results)
        received_bytes = sum(map(unpacker.add, first.chunks))
        # Most requests are one message.
        if not unpacker.is_complete:
            with phase("receive"):
                while not unpacker.is_complete:
                    pages.touch(received_bytes / content_bytes)  # before the next part arrives
                    part = next(parts, None)
                    if part is None:
                        break
                    received_bytes = sum(map(unpacker.add, part.chunks))
        unpacker.require_complete()
        return RunWithData(run, results, first.head.bytes_per_s, first.head.part_bytes)

    def run_with_data(
        self, session: Session, received: "RunWithData", *, is_whole: bool = False
    ) -> Iterator[bytes]:
        """Runs a request that was received; yields a reply with the results that fit, and others.

        Args:
            session: the session of the client.
            received: by `receive_with_data`.
            is_whole: whether one message has all that fits into the largest one.
        """
        with received.run.admitted(self._admission, session) as result:
            message = device_pb2.ExecuteWithDataReply(reply=result_to_wire(result, ()))
            if received.run.times_ns is not None:
                # In the message within this one, since `split` looks at each field of this one.
                message.reply.times = times_of_request(received.run.times_ns)
        results = received.results if result.is_sufficient else ()
        part_bytes = CHUNK_BYTES
        if received.part_bytes and not is_whole:
            part_bytes = clamped_part_bytes(received.part_bytes)
        chunks = Packer(received.bytes_per_s).chunks(results, part_bytes)
        with self._admission.track():
            yield from encode_in_parts(message, chunks, part_bytes)

    def _validated(
        self,
        session: Session,
        message: device_pb2.ExecuteRequest,
        pools: Sequence[Memory],
        cancellation: Cancellation,
        times_ns: list[int] | None = None,
    ) -> "_ValidRun":
        """Decodes and checks a request, so that it can run."""
        registered = session.models.find(message.prepared_model)
        options = execute_options_from_wire(message.options, self._extensions)
        request = request_from_wire(message.request, pools)
        validate_request(registered.model, request)
        options = replace(options, cancellation=cancellation)
        return _ValidRun(registered, request, options, self._watch, times_ns)

    def _carried_pool(
        self,
        session: Session,
        message: types_pb2.RequestPool,
        contents: list[Memory],
        results: list[Memory],
    ) -> Memory:
        kind = message.WhichOneof("kind")
        if kind == "content_bytes":
            contents.append(session.memories.new(message.content_bytes))
            return contents[-1]
        if kind == "memory":
            raise BadData("a pool is a memory with a token; content, results or a buffer is expected")
        return self._request_pool(session, message, results)

    def execute_fenced(
        self, session: Session, message: device_pb2.ExecuteFencedRequest
    ) -> device_pb2.ExecuteFencedReply:
        """Starts a valid request that runs once its fences have signalled."""
        wait_for = [session.fences.take(token) for token in message.wait_for]
        fence = session.fences.take(message.fence)
        if any(pool.WhichOneof("kind") == "results_bytes" for pool in message.request.pools):
            raise BadData("a fenced execution cannot return results; it writes to memory of its client")
        pools = [self._request_pool(session, pool, []) for pool in message.request.pools]
        registered = session.models.find(message.prepared_model)
        options = execute_options_from_wire(message.options, self._extensions)
        request = request_from_wire(message.request, pools)
        validate_request(registered.model, request)
        after_fences_s = message.after_fences_s if message.HasField("after_fences_s") else None
        deadline_in(after_fences_s, "a time after fences")  # refuses invalid values at once

        def run(options: ExecuteOptions) -> ExecutionResult:
            with (
                self._admission.turns.turn(session.user, session.token),
                self._admission.execution(session, options, registered.priority, registered.pace) as ticket,
            ):
                with self._watch.under_way(CrashPhase.EXECUTE, registered.crumb, session.number):
                    result = run_on_private_copies(registered, request, options)
                return with_queue_time(result, options, ticket)

        handle = session.fences.start_run(FencedRun(run, wait_for, fence, options, after_fences_s))
        return device_pb2.ExecuteFencedReply(execution=handle)

    def get_fenced_execution_info(
        self, session: Session, message: device_pb2.GetFencedExecutionInfoRequest
    ) -> device_pb2.GetFencedExecutionInfoReply:
        """Returns the outcome of a fenced execution, which can be asked for once."""
        return outcome_to_wire(session.fences.take_run(message.execution).outcome)

    def profile(self, session: Session, message: device_pb2.ProfileRequest) -> device_pb2.ProfileReply:
        """Makes the device measure the kernels of a prepared model."""
        registered = session.models.find(message.prepared_model)
        with (
            self._admission.execution(session, ExecuteOptions(), registered.priority),
            charging(registered.account),
            self._watch.under_way(CrashPhase.PROFILE, registered.crumb, session.number),
        ):
            return profile_to_wire(registered.prepared_model.profile())

    def _request_pool(
        self, session: Session, message: types_pb2.RequestPool, results: list[Memory]
    ) -> Memory:
        kind = message.WhichOneof("kind")
        if kind == "memory":
            return session.memories.take(message.memory)
        if kind == "results_bytes":
            results.append(session.memories.new(message.results_bytes))
            return results[-1]
        if kind == "buffer":
            return session.buffers.find(message.buffer)
        raise BadData(f"a pool has kind {kind}; a memory, results or a buffer is expected")


@dataclass(frozen=True, slots=True)
class RunWithData:
    """A request that was received with its data; see `ExecutionHandler.receive_with_data`.

    Attributes:
        run: the request.
        results: the memories whose content the client gets.
        bytes_per_s: the speed of the link; 0 if the client has not measured it.
        part_bytes: how much content the client takes in a message; 0 if it does not say.
    """

    run: "_ValidRun"
    results: Sequence[Memory]
    bytes_per_s: float
    part_bytes: int


@dataclass(frozen=True, slots=True)
class _ValidRun:
    """A request that was checked against its model.

    Attributes:
        registered: the model.
        request: the request.
        options: how to execute it.
        watch: learns what is under way.
        times_ns: see `times_of_request`; None if none are wanted.
    """

    registered: RegisteredModel
    request: Request
    options: ExecuteOptions
    watch: CrashWatch
    times_ns: list[int] | None

    @contextlib.contextmanager
    def admitted(self, admission: Admission, session: Session) -> Iterator[ExecutionResult]:
        """Runs the request once the device is free; the device is busy until the context ends."""
        with contextlib.ExitStack() as admitted:
            arrived_ns = time.monotonic_ns()
            ticket = admitted.enter_context(
                admission.execution(session, self.options, self.registered.priority, self.registered.pace)
            )
            admitted_ns = time.monotonic_ns()
            with self.watch.under_way(CrashPhase.EXECUTE, self.registered.crumb, session.number):
                result = run_on_private_copies(self.registered, self.request, self.options)
            # Phases that are contexts would take several times as long.
            if self.times_ns is None:
                note_execution(arrived_ns, admitted_ns)
            else:
                self.times_ns.extend((arrived_ns, admitted_ns, time.monotonic_ns()))
            yield with_queue_time(result, self.options, ticket)


def run_on_private_copies(
    registered: RegisteredModel, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Runs a validated request on copies of memory that its client can write.

    Raises:
        Cancelled: the execution was cancelled, perhaps after its end. No outputs are copied back.
        Error: see `PreparedModel.execute`.
    """
    with (
        charging(registered.account),
        buffers_in_use(registered.prepared_model, registered.model.main, request) as use,
    ):
        staged = stage(
            use.request, is_passthrough=lambda pool: not is_writable(pool), allocate=registered.arenas.take
        )
        result = registered.prepared_model.execute(staged.request, options)
        if result.is_sufficient:
            if options.cancellation is not None:
                # A client that has given up may use the memory of its outputs otherwise by now.
                options.cancellation.require_not_cancelled("before its outputs were written")
            staged.write_back(output_types(registered.model), result.output_shapes)
            use.wrote(result)
    registered.arenas.give_back(staged.arenas)
    return result


def is_writable(memory: Memory) -> bool:
    """Returns whether the client can write to a memory."""
    return isinstance(memory, SharedMemory) and not memory.readonly

"""The calls of the contract (`proto/device.proto`) on one device. Knows messages and sessions, no transport.

Whatever comes from a client is checked before the device sees it: numbers and limits by `neurald.hal.rpc.wire.model`,
models and requests by `neurald.hal.validation.model_rules`. Each method raises an `Error` for what a client did wrong or
a device failed to do.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.account import charging
from neurald.hal.accounting.limits import Limits
from neurald.hal.accounting.pacing import Interpreter
from neurald.hal.admission.admission_queue import Turn, Turns, executions_at_once, timed
from neurald.hal.admission.buffer_tracker import RequestedRole
from neurald.hal.admission.session import Prepared, Session, Sessions
from neurald.hal.admission.watchdog import Watchdog
from neurald.hal.buffers.buffer_use import buffers_in_use
from neurald.hal.buffers.staging import output_types, stage
from neurald.hal.cache.artifact_seal import check_seal, make_seal, named_tokens
from neurald.hal.cache.variants import daemon_variants
from neurald.hal.compiling.pool import CompilePool
from neurald.hal.compiling.queue import CompileQueue
from neurald.hal.device import (
    Artifact,
    Device,
    ExecuteOptions,
    ExecutionResult,
    PreparedModel,
    PrepareOptions,
    declared_extensions,
)
from neurald.hal.errors import BadData, DeadObject, Error, MissedDeadlinePersistent, UnavailableDevice
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.extension_support import require_extensions
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.types import FeatureLevel, Model, Priority, Request
from neurald.hal.rpc.server.burst_server import BurstServer
from neurald.hal.rpc.transport.status import CHUNK_BYTES
from neurald.hal.rpc.wire.device import (
    Access,
    DaemonStatus,
    DeviceStatus,
    capabilities_to_wire,
    description_to_wire,
    execute_options_from_wire,
    kept_to_wire,
    prepare_options_from_wire,
    status_to_wire,
    verdicts_to_wire,
)
from neurald.hal.rpc.wire.model import (
    dimensions_from_wire,
    model_from_wire,
    outcome_to_wire,
    request_from_wire,
    result_to_wire,
)
from neurald.hal.rpc.wire.profile import profile_to_wire
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in
from neurald.hal.validation.model_rules import validate_model
from neurald.hal.validation.request_rules import validate_request
from neurald.hal.validation.shape_inference import forget_bindings

logger = logging.getLogger(__name__)

#: How long results may wait to be read once a daemon that is to stop has nothing else to do.
_UNREAD_S = 2.0
_DRAIN_LOOK_S = 0.05
#: The graphs of larger models are read one at a time: those of thousands of operations.
_LARGE_MODEL_BYTES = 1 << 16
#: Memory goes to clients in pieces of this size. gRPC and protobuf keep several copies of each until its client takes it.
_READ_BYTES = CHUNK_BYTES // 4


class DeviceHandler:
    """Serves one device to many sessions. Thread-safe.

    Args:
        device: what is served.
        limits: what a session may hold.
        compilers: compile in other processes for the device; None: it compiles in this one.
    """

    def __init__(self, device: Device, limits: Limits, compilers: CompilePool | None = None) -> None:
        self._device = device
        self._compilers = compilers
        #: Notes for whom each thread works, so that what takes long gives way to other clients.
        self.interpreter = Interpreter()
        self._compile_queue = CompileQueue(limits) if compilers is None else compilers.queue
        self._extensions = declared_extensions(device)
        self.sessions = Sessions(limits)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._calls = 0
        self._is_draining = False
        slots = executions_at_once(device)
        self._turns = Turns(slots, guests=slots)
        self._large_models = Turns(1, long_s=math.inf, what="large models")
        self._watchdog: Watchdog[tuple[Session, Turn]] = Watchdog(limits.execution_s, self._hangs)
        #: Is called with a session that is over because the device hangs, and with what its client is to be told.
        self.tell_end: Callable[[Session, Error], None] = lambda session, error: None
        #: Says who may call, and which restrictions of the process are in force; both are for people who ask.
        self.find_access: Callable[[], Access] = lambda: Access.UNKNOWN
        self.sandbox: tuple[str, ...] = ()

    # What any client may ask

    def describe(self) -> device_pb2.DescribeReply:
        """What the device says about itself."""
        return description_to_wire(self._device)

    def get_capabilities(self) -> device_pb2.GetCapabilitiesReply:
        """How good the device is at what."""
        return device_pb2.GetCapabilitiesReply(
            capabilities=capabilities_to_wire(self._device.capabilities(), self._extensions)
        )

    def get_status(self) -> device_pb2.GetStatusReply:
        """How busy the daemon is."""
        sessions = self.sessions.all()
        device = DeviceStatus.BUSY if self._calls else DeviceStatus.AVAILABLE
        return status_to_wire(
            DaemonStatus(
                device=DeviceStatus.OFFLINE if self._is_draining or self.is_hanging else device,
                sessions=len(sessions),
                prepared_models=sum(session.prepared_models for session in sessions),
                memories=sum(session.memories for session in sessions),
                calls=self._calls,
                access=self.find_access(),
                sandbox=self.sandbox,
            )
        )

    # Memory

    def write_memory(
        self, session: Session, parts: Iterator[device_pb2.WriteMemoryRequest]
    ) -> device_pb2.WriteMemoryReply:
        """Takes a memory in pieces, whose size comes first.

        Raises:
            BadData: the pieces do not make up that size.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: it is more than the session may hold.
        """
        first = next(parts, device_pb2.WriteMemoryRequest())
        if first.WhichOneof("part") != "size_bytes":
            raise BadData("the first message must announce the size of the memory")
        memory = session.new_memory(first.size_bytes)
        offset = 0
        for part in parts:
            chunk = part.chunk  # a new copy each time
            if part.WhichOneof("part") != "chunk" or not chunk:
                raise BadData(f"after {offset} bytes there is a message without any")
            if len(chunk) > memory.size - offset:
                raise BadData(f"more bytes come than the {memory.size} that were announced")
            # NumPy lets other threads run while it copies, and the system makes the pages that it copies to.
            np.asarray(memory.view(offset, len(chunk)))[...] = np.frombuffer(chunk, np.uint8)
            offset += len(chunk)
        if offset != memory.size:
            raise BadData(f"only {offset} bytes came of the {memory.size} that were announced")
        return device_pb2.WriteMemoryReply(memory=session.add_memory(memory))

    def read_memory(
        self, session: Session, message: device_pb2.ReadMemoryRequest
    ) -> Iterator[device_pb2.ReadMemoryReply]:
        """Gives a memory in pieces.

        Raises:
            BadData: the token is not known.
        """
        with self._at_work():
            memory = session.take_memory(message.memory)
            for offset in range(0, memory.size, _READ_BYTES):
                chunk = memory.view(offset, min(_READ_BYTES, memory.size - offset))
                yield device_pb2.ReadMemoryReply(chunk=chunk.tobytes())

    def release_memory(
        self, session: Session, message: device_pb2.ReleaseMemoryRequest
    ) -> device_pb2.ReleaseMemoryReply:
        """Lets go of memories whose tokens will not be used."""
        for token in message.memories:
            session.drop_memory(token)
        return device_pb2.ReleaseMemoryReply()

    # Models

    def get_supported_operations(
        self, session: Session, message: device_pb2.GetSupportedOperationsRequest
    ) -> device_pb2.GetSupportedOperationsReply:
        """What the device says about each operation of a valid model."""
        self._require_sound()
        with self._reading(session, message.model):
            model = self._model(session, message.model)
            validate_model(model)
        require_extensions(model, self._device)
        with charging(session.accounts.memory):
            return verdicts_to_wire(self._device.supported_operations(model))

    def prepare_model(
        self,
        session: Session,
        message: device_pb2.PrepareModelRequest,
        cancellation: Cancellation | None = None,
    ) -> device_pb2.PrepareModelReply:
        """Has the device prepare a valid model.

        Args:
            session: of the client.
            message: with the model.
            cancellation: cancelled once the client does not wait any more.
        """
        self._require_sound()
        with self._reading(session, message.model, cancellation):
            model = self._model(session, message.model)
            options = prepare_options_from_wire(message.options, self._extensions)
            session.check_prepared()
            level = validate_model(model)
            if self._compilers is not None:
                forget_bindings(model)  # here it only waits from now on, and may wait for long
        # What is in no released level is a matter between the model and the device.
        if self._device.feature_level < level < FeatureLevel.EXPERIMENTAL:
            raise BadData(
                f"the model needs feature level {level.name}; "
                f"{self._device.name} has {self._device.feature_level.name}"
            )
        require_extensions(model, self._device)
        # Only what a device caches is asked for.
        cache_key = options.cache_key if self._device.cache_files_needed else b""
        variants = daemon_variants(self._device, model, options) if cache_key else None
        compiler = None
        if self._compilers is not None:
            wire = message.model.SerializeToString()
            compiler = self._compilers.compiler(session, wire, model.pools, options)
        options = replace(options, variants=variants, compiler=compiler, cancellation=cancellation)
        with self.call(options), charging(session.accounts.memory):
            prepared = self._prepared(session, model, options)
        handle = session.add_prepared(model, prepared, options.priority, cache_key)
        kept = None if variants is None or variants.kept is None else kept_to_wire(variants.kept)
        return device_pb2.PrepareModelReply(prepared_model=handle, has_artifact=bool(cache_key), kept=kept)

    def _prepared(self, session: Session, model: Model, options: PrepareOptions) -> PreparedModel:
        """Has the device prepare a model; one that compiles in this process waits for its turn first."""
        if options.compiler is not None:
            return self._device.prepare_model(model, options)
        with self._compile_queue.turn(
            session, options.priority, options.deadline_s, options.cancellation
        ) as stop:
            return self._device.prepare_model(model, replace(options, cancellation=stop))

    def get_artifact(
        self, session: Session, message: device_pb2.GetArtifactRequest
    ) -> device_pb2.GetArtifactReply:
        """Gives what the device has compiled, sealed; nothing if there was no key, or there is nothing to give."""
        found = session.prepared(message.prepared_model)
        with self._at_work(), charging(found.account):
            artifact = found.prepared.artifact() if found.cache_key else None
            if artifact is None:
                return device_pb2.GetArtifactReply()
            seal = make_seal(self._device, found.model, found.cache_key, artifact)
            memories = (*artifact.model, *artifact.data)
            tokens = named_tokens(memories, session.add_results(memory for memory in memories if memory.size))
        count = len(artifact.model)
        return device_pb2.GetArtifactReply(
            artifact=device_pb2.Artifact(model_cache=tokens[:count], data_cache=tokens[count:], seal=seal)
        )

    def prepare_model_from_cache(
        self, session: Session, message: device_pb2.PrepareModelFromCacheRequest
    ) -> device_pb2.PrepareModelReply:
        """Has the device make a prepared model again from what it has compiled, if the seal says that it has."""
        self._require_sound()
        options = prepare_options_from_wire(message.options, self._extensions)
        artifact = Artifact(
            model=tuple(self._artifact_memory(session, token) for token in message.artifact.model_cache),
            data=tuple(self._artifact_memory(session, token) for token in message.artifact.data_cache),
            seal=message.artifact.seal,
        )
        session.check_prepared()
        with self.call(options), charging(session.accounts.memory):
            interface = check_seal(self._device, artifact, options.cache_key)
            prepared = self._device.prepare_model_from_cache(replace(artifact, seal=b""), options)
        handle = session.add_prepared(interface, prepared, options.priority)
        return device_pb2.PrepareModelReply(prepared_model=handle)

    def release_prepared_model(
        self, session: Session, message: device_pb2.ReleasePreparedModelRequest
    ) -> device_pb2.ReleasePreparedModelReply:
        """Lets go of a prepared model."""
        session.release(message.prepared_model)
        return device_pb2.ReleasePreparedModelReply()

    @contextlib.contextmanager
    def _reading(
        self, session: Session, message: types_pb2.Model, cancellation: Cancellation | None = None
    ) -> Iterator[None]:
        """The time in which a model is read and checked, which takes much more memory than it does itself: large ones take turns."""
        if message.ByteSize() <= _LARGE_MODEL_BYTES:
            yield
            return
        turn = self._large_models.take(
            Priority.MEDIUM, client=session.token, user=session.user, cancellation=cancellation
        )
        try:
            yield
        finally:
            self._large_models.pass_on(turn)

    def _model(self, session: Session, message: types_pb2.Model) -> Model:
        pools = [self._constant(session, token) for token in message.pools]
        session.check_model(sum(pool.size for pool in pools))
        return model_from_wire(message, pools, self._extensions)

    def _artifact_memory(self, session: Session, token: bytes) -> Memory:
        """See `named_tokens`; whether it is what was sealed is checked later."""
        return self._constant(session, token) if token else HostMemory(b"")

    def _constant(self, session: Session, token: bytes) -> Memory:
        memory = session.take_memory(token)
        if _is_shared(memory):
            raise BadData("a memory of the model can still be written; constants are to be sealed")
        return memory

    # Executions

    def execute(
        self, session: Session, message: device_pb2.ExecuteRequest, cancellation: Cancellation
    ) -> device_pb2.ExecuteReply:
        """Runs a valid request.

        Args:
            session: of the client.
            message: with the request.
            cancellation: cancelled once the client does not wait any more.
        """
        results: list[Memory] = []
        pools = [self._request_pool(session, pool, results) for pool in message.request.pools]
        found = session.prepared(message.prepared_model)
        options = execute_options_from_wire(message.options, self._extensions)
        options = replace(options, cancellation=cancellation)
        request = request_from_wire(message.request, pools)
        validate_request(found.model, request)
        with self._execution(session, found, options) as turn:
            result = timed(run_apart(found, request, options), options, turn)
            is_wanted = result.is_sufficient and not cancellation.is_cancelled
            tokens = [session.add_memory(memory, is_result=True) for memory in results if is_wanted]
        return result_to_wire(result, tokens)

    def execute_fenced(
        self, session: Session, message: device_pb2.ExecuteFencedRequest
    ) -> device_pb2.ExecuteFencedReply:
        """Starts a valid request that runs once its fences have signalled."""
        wait_for = [session.take_fence(token) for token in message.wait_for]
        fence = session.take_fence(message.fence)
        if any(pool.WhichOneof("kind") == "results_bytes" for pool in message.request.pools):
            raise BadData("a fenced execution writes to memory of its client's, not to results")
        pools = [self._request_pool(session, pool, []) for pool in message.request.pools]
        found = session.prepared(message.prepared_model)
        options = execute_options_from_wire(message.options, self._extensions)
        request = request_from_wire(message.request, pools)
        validate_request(found.model, request)
        after_fences_s = message.after_fences_s if message.HasField("after_fences_s") else None
        deadline_in(after_fences_s, "a time after fences")  # Refuses what is none before anything waits.

        def run(options: ExecuteOptions) -> ExecutionResult:
            with self._execution(session, found, options) as turn:
                return timed(run_apart(found, request, options), options, turn)

        handle = session.start_fenced(FencedRun(run, wait_for, fence, options, after_fences_s))
        return device_pb2.ExecuteFencedReply(execution=handle)

    def get_fenced_execution_info(
        self, session: Session, message: device_pb2.GetFencedExecutionInfoRequest
    ) -> device_pb2.GetFencedExecutionInfoReply:
        """What came of a fenced execution; asked for once."""
        return outcome_to_wire(session.take_fenced(message.execution).outcome)

    def profile(self, session: Session, message: device_pb2.ProfileRequest) -> device_pb2.ProfileReply:
        """Has the device time the kernels of a prepared model, which takes it as long as an execution."""
        found = session.prepared(message.prepared_model)
        with self._execution(session, found, ExecuteOptions()), charging(found.account):
            return profile_to_wire(found.prepared.profile())

    def configure_burst(self, session: Session, handle: int, connection: int, ring: int) -> None:
        """Starts a burst of a prepared model; takes over the descriptors of its socket and of its ring."""
        BurstServer.configured(session, handle, connection, ring, self).start()

    def _request_pool(
        self, session: Session, message: types_pb2.RequestPool, results: list[Memory]
    ) -> Memory:
        kind = message.WhichOneof("kind")
        if kind == "memory":
            return session.take_memory(message.memory)
        if kind == "results_bytes":
            results.append(session.new_memory(message.results_bytes))
            return results[-1]
        if kind == "buffer":
            return session.buffers.find(message.buffer)
        raise BadData(f"a pool of kind {kind}; a memory, results or a buffer are expected")

    # Device buffers

    def allocate(self, session: Session, message: device_pb2.AllocateRequest) -> device_pb2.AllocateReply:
        """Has the device allocate a buffer for valid roles."""
        roles = [
            _requested_role(session, role, is_output=is_output)
            for is_output, named in ((False, message.inputs), (True, message.outputs))
            for role in named
        ]
        dimensions = dimensions_from_wire(message)
        with self._at_work():
            token = session.buffers.allocate(self._device, dimensions, roles, session.hold)
        return device_pb2.AllocateReply(buffer=token)

    def copy_to_buffer(
        self, session: Session, message: device_pb2.CopyToBufferRequest
    ) -> device_pb2.CopyToBufferReply:
        """Gives a buffer a value."""
        memory = session.take_memory(message.memory)
        with self._at_work():
            session.buffers.find(message.buffer).write(memory, dimensions_from_wire(message))
        return device_pb2.CopyToBufferReply()

    def copy_from_buffer(
        self, session: Session, message: device_pb2.CopyFromBufferRequest
    ) -> device_pb2.CopyFromBufferReply:
        """Gives the value of a buffer, in memory of the client's or else in new memory."""
        memory = session.take_memory(message.memory) if message.memory else None
        buffer = session.buffers.find(message.buffer)
        with self._at_work():
            target = session.new_memory(buffer.value_bytes) if memory is None else memory
            buffer.read(target)
            token = session.add_memory(target, is_result=True) if memory is None else b""
        return device_pb2.CopyFromBufferReply(result=token)

    def release_buffer(
        self, session: Session, message: device_pb2.ReleaseBufferRequest
    ) -> device_pb2.ReleaseBufferReply:
        """Lets go of a buffer."""
        session.buffers.release(message.buffer)
        return device_pb2.ReleaseBufferReply()

    # The end

    @contextlib.contextmanager
    def call(self, options: PrepareOptions | ExecuteOptions) -> Iterator[None]:
        """Work for the device, which is refused where it is too late for it."""
        self.begin(options)
        try:
            yield
        finally:
            self.end()

    @contextlib.contextmanager
    def _execution(self, session: Session, found: Prepared, options: ExecuteOptions) -> Iterator[Turn]:
        """An execution on the device, which waits for its turn."""
        turn = self.begin_execution(session, options, found.priority)
        try:
            yield turn
        finally:
            self.end_execution(turn)

    def begin_execution(self, session: Session, options: ExecuteOptions, priority: Priority) -> Turn:
        """Waits until the device can run one more execution of the session; `end_execution` follows.

        Raises:
            DeadObject: the daemon is about to stop.
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline has passed.
            Cancelled: it was cancelled before its turn came.
        """
        self.begin(options)
        try:
            turn = self._turns.take(
                priority,
                options.deadline_s,
                client=session.token,
                user=session.user,
                cancellation=options.cancellation,
            )
        except BaseException:
            self.end()
            raise
        self._watchdog.begin((session, turn), options.deadline_s)
        turn.work = self.interpreter.begin(session.token)
        return turn

    @property
    def waiting(self) -> int:
        """How many executions wait for their turn."""
        return self._turns.waiting

    def end_execution(self, turn: Turn) -> None:
        """Lets the next execution run."""
        if turn.work is not None:
            self.interpreter.end(turn.work)
        if not self._watchdog.end():
            return  # it was given up, and others have had its turn
        try:
            self._turns.pass_on(turn)
        finally:
            self.end()

    def _hangs(self, execution: tuple[Session, Turn], taken_s: float) -> None:
        """Gives up an execution that does not end: its turn, its client's session, and what a drain waits for."""
        session, turn = execution
        logger.error("an execution has not ended within %.1f s; the driver hangs", taken_s)
        self._turns.pass_on(turn)
        self.end()
        self.tell_end(session, DeadObject(f"hangs: an execution has not ended within {taken_s:.1f} s"))
        self.sessions.close(session)

    def _require_sound(self) -> None:
        if self.is_hanging:
            raise UnavailableDevice(f"{self._device.name} hangs: an execution has not ended in time")

    @property
    def is_hanging(self) -> bool:
        """Whether the device has executions under way that were given up."""
        return self._watchdog.hanging > 0

    def begin(self, options: PrepareOptions | ExecuteOptions) -> None:
        """What `call` does at first; `end` follows."""
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the device could start")
        with self._lock:
            if self._is_draining:
                raise DeadObject("the daemon is about to stop")
            self._calls += 1

    @property
    def is_at_work(self) -> bool:
        """Whether the device has anything to do."""
        return self._calls > 0

    def end(self) -> None:
        """What `call` does at last."""
        with self._lock:
            self._calls -= 1
            if self._is_draining:
                self._idle.notify_all()

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """What a drain waits for."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            self.end()

    def drain(self, timeout_s: float, is_forced: Callable[[], bool]) -> bool:
        """Refuses new work and waits for that under way, and for a moment until its results are read.

        Args:
            timeout_s: how long to wait at most.
            is_forced: asked again and again whether to stop waiting.

        Returns:
            Whether all is done.
        """
        end = time.monotonic() + timeout_s
        with self._idle:
            self._is_draining = True
            while self._calls and time.monotonic() < end and not is_forced():
                self._idle.wait(_DRAIN_LOOK_S)
            # A client that wants its results reads them at once.
            end = min(end, time.monotonic() + _UNREAD_S)
            while self._has_work() and time.monotonic() < end and not is_forced():
                self._idle.wait(_DRAIN_LOOK_S)
            return not self._has_work()

    def _has_work(self) -> bool:
        return self._calls > 0 or any(session.has_unread for session in self.sessions.all())


def run_apart(found: Prepared, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Runs a validated request on copies of what its client can write; outputs are written unless it was cancelled."""
    with charging(found.account), buffers_in_use(found.prepared, found.model.main, request) as use:
        staged = stage(use.request, stays=lambda pool: not _is_shared(pool), allocate=found.arenas.take)
        result = found.prepared.execute(staged.request, options)
        is_awaited = options.cancellation is None or not options.cancellation.is_cancelled
        if result.is_sufficient and is_awaited:
            staged.write_back(output_types(found.model), result.output_shapes)
            use.wrote(result)
    found.arenas.give_back(staged.arenas)
    return result


def _requested_role(session: Session, message: device_pb2.BufferRole, *, is_output: bool) -> RequestedRole:
    found = session.prepared(message.prepared_model)
    return RequestedRole(
        model=found.model,
        prepared_model=found.prepared,
        index=message.index,
        is_output=is_output,
        probability=message.probability,
    )


def _is_shared(memory: Memory) -> bool:
    """Whether the client can write to it."""
    return isinstance(memory, SharedMemory) and not memory.readonly

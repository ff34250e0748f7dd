"""The calls of the contract (`proto/device.proto`) on one device, without any transport.

Everything from a client is checked before the device sees it: numbers and limits by
`neurald.hal.rpc.wire.model`, models and requests by `neurald.hal.validation`. Each method raises an
`Error` for a mistake of the client or a failure of the device.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.account import charging
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.admission_queue import with_queue_time
from neurald.hal.admission.session import RegisteredModel, Session, Sessions
from neurald.hal.admission.session_buffers import RequestedRole
from neurald.hal.admission.shared_models import SharedModels
from neurald.hal.buffers.buffer_use import buffers_in_use
from neurald.hal.buffers.staging import output_types, stage
from neurald.hal.cache.artifact_seal import check_seal, make_seal, named_tokens
from neurald.hal.cache.variants import daemon_variants
from neurald.hal.compiling.compile_admission import CompileAdmission
from neurald.hal.compiling.session_pool import SessionPool
from neurald.hal.crashes.breadcrumbs import CrashPhase, Crumb
from neurald.hal.crashes.watch import CrashWatch, encode_pattern
from neurald.hal.device import (
    Artifact,
    CacheRecord,
    Device,
    ExecuteOptions,
    ExecutionResult,
    PreparedModel,
    PrepareOptions,
    declared_extensions,
)
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.extension_support import require_extensions
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.types import FeatureLevel, Model, Request
from neurald.hal.records import replace
from neurald.hal.rpc.server.ring_server import RingServer
from neurald.hal.rpc.transport.data_chunks import Packer, Unpacker, unpacked
from neurald.hal.rpc.transport.data_message import DataMessage, encode
from neurald.hal.rpc.transport.status import CHUNK_BYTES
from neurald.hal.rpc.wire.device import (
    Access,
    DaemonStatus,
    DeviceStatus,
    cache_record_to_wire,
    capabilities_to_wire,
    description_to_wire,
    execute_options_from_wire,
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

#: Memory is sent to clients in pieces of this size. gRPC and protobuf keep several copies of each
#: until it is received.
_READ_BYTES = CHUNK_BYTES // 4


class DeviceHandler:
    """Serves one device to many sessions. Thread-safe.

    Args:
        device: to serve.
        limits: of sessions.
        compilers: compile for the device in other processes; None if it compiles in this one.
        watch: knows which models kill the driver; None for one that nobody reads.

    Attributes:
        sessions: the open sessions.
        admission: admits calls and executions to the device.
        sandbox: the restrictions of the process that are in force, for status calls.
    """

    def __init__(
        self,
        device: Device,
        limits: Limits,
        compilers: SessionPool | None = None,
        watch: CrashWatch | None = None,
    ) -> None:
        self.sessions = Sessions(limits)
        self.admission = Admission(device, limits, self.sessions)
        self._watch = watch or CrashWatch.alone()
        self.admission.mark_hanging = self._watch.breadcrumbs.mark_hanging
        self.sandbox: tuple[str, ...] = ()
        self._device = device
        self._compilers = compilers
        self._compile_admission = CompileAdmission(limits) if compilers is None else compilers.admission
        self._extensions = declared_extensions(device)
        self._shared = SharedModels()

    # Calls without a session

    def describe(self) -> device_pb2.DescribeReply:
        """Returns the properties of the device."""
        description = description_to_wire(self._device)
        description.carries_data = True
        return description

    def get_capabilities(self) -> device_pb2.GetCapabilitiesReply:
        """Returns the performance figures of the device."""
        return device_pb2.GetCapabilitiesReply(
            capabilities=capabilities_to_wire(self._device.capabilities(), self._extensions)
        )

    def get_status(self, access: Access = Access.UNKNOWN) -> device_pb2.GetStatusReply:
        """Returns how busy the daemon is.

        Args:
            access: who may call.
        """
        sessions = self.sessions.all()
        calls = self.admission.calls
        is_offline = self.admission.is_draining or self.admission.is_hanging or self.admission.is_lost
        online = DeviceStatus.BUSY if calls else DeviceStatus.AVAILABLE
        return status_to_wire(
            DaemonStatus(
                device=DeviceStatus.OFFLINE if is_offline else online,
                sessions=len(sessions),
                prepared_models=sum(session.prepared_models for session in sessions),
                memories=sum(session.memories for session in sessions),
                calls=calls,
                access=access,
                sandbox=self.sandbox,
            )
        )

    # Memory

    def write_memory(
        self, session: Session, parts: Iterator[device_pb2.WriteMemoryRequest]
    ) -> device_pb2.WriteMemoryReply:
        """Receives a memory in pieces; the first message has its size.

        Raises:
            BadData: the pieces do not add up to that size.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: it is more than the session may
                hold.
        """
        first = next(parts, device_pb2.WriteMemoryRequest())
        if first.WhichOneof("part") != "size_bytes":
            raise BadData("the first message has no size; it must announce the size of the memory")
        memory = session.new_memory(first.size_bytes)
        offset = 0
        for part in parts:
            if part.WhichOneof("part") == "packed":
                chunk = unpacked(part.packed, memory.size - offset)
            else:
                chunk = part.chunk  # every access copies
            if not chunk:
                raise BadData(f"a message after {offset} bytes has no content; a chunk is expected")
            if len(chunk) > memory.size - offset:
                raise BadData(f"more than the {memory.size} bytes arrived that were announced")
            # NumPy releases the GIL while it copies and the kernel allocates the pages.
            np.asarray(memory.view(offset, len(chunk)))[...] = np.frombuffer(chunk, np.uint8)
            offset += len(chunk)
        if offset != memory.size:
            raise BadData(f"only {offset} of the {memory.size} bytes arrived that were announced")
        return device_pb2.WriteMemoryReply(memory=session.add_memory(memory))

    def read_memory(
        self, session: Session, message: device_pb2.ReadMemoryRequest
    ) -> Iterator[device_pb2.ReadMemoryReply]:
        """Sends a memory in pieces.

        Raises:
            BadData: the token is not known.
        """
        with self.admission.track():
            memory = session.take_memory(message.memory)
            for offset in range(0, memory.size, _READ_BYTES):
                chunk = memory.view(offset, min(_READ_BYTES, memory.size - offset))
                yield device_pb2.ReadMemoryReply(chunk=chunk.tobytes())

    def release_memory(
        self, session: Session, message: device_pb2.ReleaseMemoryRequest
    ) -> device_pb2.ReleaseMemoryReply:
        """Drops memories whose tokens will not be used."""
        for token in message.memories:
            session.drop_memory(token)
        return device_pb2.ReleaseMemoryReply()

    # Models

    def get_supported_operations(
        self, session: Session, message: device_pb2.GetSupportedOperationsRequest
    ) -> device_pb2.GetSupportedOperationsReply:
        """Returns the device's verdict for each operation of a valid model."""
        self.admission.require_responsive()
        with self.admission.reading_model(session, message.model.ByteSize(), None):
            model = self._model(session, message.model)
            validate_model(model)
            crumb, _ = self._crumb(model, message.model)
        require_extensions(model, self._device)
        with charging(session.accounts.memory):
            verdicts = self._watch.supported(
                model, crumb, session.number, lambda: self._device.supported_operations(model)
            )
            return verdicts_to_wire(verdicts)

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
            cancellation: is cancelled once the client no longer waits.
        """
        self.admission.require_responsive()
        with self.admission.reading_model(session, message.model.ByteSize(), cancellation):
            model = self._model(session, message.model)
            options = prepare_options_from_wire(message.options, self._extensions)
            session.require_space_for_model()
            level = validate_model(model)
            crumb, wire = self._crumb(model, message.model)
            self._watch.guard.require_allowed(model)
            if self._compilers is not None:
                forget_bindings(model)  # it is not used here from now on, and may wait for long
        # Operations of no released level are left to the device.
        if self._device.feature_level < level < FeatureLevel.EXPERIMENTAL:
            raise BadData(
                f"the model needs feature level {level.name}; "
                f"{self._device.name} has {self._device.feature_level.name}"
            )
        require_extensions(model, self._device)
        # A device that caches nothing is not asked for an artifact.
        cache_key = options.cache_key if self._device.cache_files_needed else b""
        with (
            self.admission.admit(options),
            self._shared.claim(session, wire, model.pools, options, cancellation) as claim,
        ):
            record = claim.found_record
            if claim.found is None:
                options = replace(options, cancellation=cancellation)
                handle, record = self._add_prepared(session, model, wire, crumb, options)
            else:
                handle = session.add_shared(claim.found, options.priority, cache_key)
            claim.keep(session.model(handle), record)
        kept = None if record is None else cache_record_to_wire(record)
        return device_pb2.PrepareModelReply(prepared_model=handle, has_artifact=bool(cache_key), kept=kept)

    def _add_prepared(
        self, session: Session, model: Model, wire: bytes, crumb: Crumb, options: PrepareOptions
    ) -> tuple[int, CacheRecord | None]:
        """Has the device prepare a model; returns its handle, and its entry in the daemon's cache."""
        cache_key = options.cache_key if self._device.cache_files_needed else b""
        variants = daemon_variants(self._device, model, options) if cache_key else None
        compiler = None
        if self._compilers is not None:
            on_crash = partial(self._watch.helper_died, crumb)
            compiler = self._compilers.compiler(session, wire, model.pools, options, on_crash)
        options = replace(options, variants=variants, compiler=compiler)
        with charging(session.accounts.memory):
            prepared_model = self._executable(self._prepare(session, model, crumb, options))
        handle = session.add_model(model, prepared_model, options.priority, cache_key, crumb)
        return handle, None if variants is None else variants.record

    def _prepare(
        self, session: Session, model: Model, crumb: Crumb, options: PrepareOptions
    ) -> PreparedModel:
        """Has the device prepare a model; if it compiles in this process, it is admitted first."""
        if options.compiler is not None:
            with self._watch.under_way(CrashPhase.PREPARE, crumb, session.number):
                return self._device.prepare_model(model, options)
        with (
            self._compile_admission.slot(
                session, options.priority, options.deadline_s, options.cancellation
            ) as stop,
            self._watch.under_way(CrashPhase.PREPARE, crumb, session.number),
        ):
            return self._device.prepare_model(model, replace(options, cancellation=stop))

    def _executable(self, answer: PreparedModel) -> PreparedModel:
        """Returns what the driver answered to a preparation.

        Raises:
            OpFailed: it is no prepared model.
        """
        if not callable(getattr(answer, "execute", None)):
            raise OpFailed(
                f"the driver of {self._device.name} has a fault: a preparation returned a "
                f"{type(answer).__name__}; a prepared model is expected"
            )
        return answer

    def get_artifact(
        self, session: Session, message: device_pb2.GetArtifactRequest
    ) -> device_pb2.GetArtifactReply:
        """Sends the sealed artifact of a prepared model, if a key was given and there is one."""
        registered = session.model(message.prepared_model)
        with self.admission.track(), charging(registered.account):
            artifact = registered.prepared_model.artifact() if registered.cache_key else None
            if artifact is None:
                return device_pb2.GetArtifactReply()
            seal = make_seal(
                self._device,
                registered.model,
                registered.cache_key,
                artifact,
                encode_pattern(registered.crumb),
            )
            self._shared.add_artifact(session, registered, seal)
            memories = (*artifact.model, *artifact.data)
            tokens = named_tokens(memories, session.add_results(memory for memory in memories if memory.size))
        count = len(artifact.model)
        return device_pb2.GetArtifactReply(
            artifact=device_pb2.Artifact(model_cache=tokens[:count], data_cache=tokens[count:], seal=seal)
        )

    def prepare_model_from_cache(
        self, session: Session, message: device_pb2.PrepareModelFromCacheRequest
    ) -> device_pb2.PrepareModelReply:
        """Has the device restore a prepared model from its artifact, after checking the seal."""
        self.admission.require_responsive()
        options = prepare_options_from_wire(message.options, self._extensions)
        artifact = Artifact(
            model=tuple(self._artifact_memory(session, token) for token in message.artifact.model_cache),
            data=tuple(self._artifact_memory(session, token) for token in message.artifact.data_cache),
            seal=message.artifact.seal,
        )
        session.require_space_for_model()
        with self.admission.admit(options), charging(session.accounts.memory):
            seal = check_seal(self._device, artifact, options.cache_key)
            crumb = self._watch.crumb_of_artifact(seal.pattern, options.cache_key)
            self._watch.guard.require_pattern_allowed(crumb.pattern)
            with self._shared.claim(session, artifact.seal, (), options) as claim:
                if claim.found is not None:
                    handle = session.add_shared(claim.found, options.priority)
                else:
                    with self._watch.under_way(CrashPhase.LOAD, crumb, session.number):
                        prepared_model = self._executable(
                            self._device.prepare_model_from_cache(replace(artifact, seal=b""), options)
                        )
                    interface = seal.interface_model(self._extensions)
                    handle = session.add_model(interface, prepared_model, options.priority, crumb=crumb)
                claim.keep(session.model(handle), None)
        return device_pb2.PrepareModelReply(prepared_model=handle)

    def release_prepared_model(
        self, session: Session, message: device_pb2.ReleasePreparedModelRequest
    ) -> device_pb2.ReleasePreparedModelReply:
        """Releases a prepared model."""
        session.release_model(message.prepared_model)
        return device_pb2.ReleasePreparedModelReply()

    def _model(self, session: Session, message: types_pb2.Model) -> Model:
        pools = [self._constant(session, token) for token in message.pools]
        session.check_constants(sum(pool.size for pool in pools))
        return model_from_wire(message, pools, self._extensions)

    def _crumb(self, model: Model, message: types_pb2.Model) -> tuple[Crumb, bytes]:
        """Records a valid model; returns its crumb, and the model as a message without tokens."""
        del message.pools[:]
        graphs = message.SerializeToString()
        return self._watch.crumb(model, graphs), graphs

    def _artifact_memory(self, session: Session, token: bytes) -> Memory:
        """Returns the memory of a token, see `named_tokens`; its content is checked later."""
        return self._constant(session, token) if token else HostMemory(b"")

    def _constant(self, session: Session, token: bytes) -> Memory:
        memory = session.take_memory(token)
        if _is_shared(memory):
            raise BadData("a memory of the model can still be written; constants must be sealed")
        return memory

    # Executions

    def execute(
        self, session: Session, message: device_pb2.ExecuteRequest, cancellation: Cancellation
    ) -> device_pb2.ExecuteReply:
        """Runs a valid request.

        Args:
            session: of the client.
            message: with the request.
            cancellation: is cancelled once the client no longer waits.
        """
        results: list[Memory] = []
        pools = [self._request_pool(session, pool, results) for pool in message.request.pools]
        run = self._validated(session, message, pools, cancellation)
        with run.admitted(self.admission, session) as result:
            is_wanted = result.is_sufficient and not cancellation.is_cancelled
            tokens = [session.add_memory(memory, is_result=True) for memory in results if is_wanted]
        return result_to_wire(result, tokens)

    def receive_with_data(
        self,
        session: Session,
        first: DataMessage[device_pb2.ExecuteWithDataRequest],
        parts: Iterator[DataMessage[device_pb2.ExecuteWithDataRequest]],
        cancellation: Cancellation,
    ) -> "RunWithData":
        """Receives a valid request whose messages carry the content of its memories.

        Args:
            session: of the client.
            first: with the request.
            parts: the other messages, of which no more are taken than are needed.
            cancellation: is cancelled once the client no longer waits.
        """
        contents: list[Memory] = []
        results: list[Memory] = []
        message = first.head.request
        pools = [self._carried_pool(session, pool, contents, results) for pool in message.request.pools]
        run = self._validated(session, message, pools, cancellation)
        unpacker = Unpacker(contents)
        part: DataMessage[device_pb2.ExecuteWithDataRequest] | None = first
        while part is not None:
            for chunk in part.chunks:
                unpacker.add(chunk)
            part = None if unpacker.is_complete else next(parts, None)
        unpacker.require_complete()
        return RunWithData(run, results, first.head.bytes_per_s)

    def run_with_data(self, session: Session, received: "RunWithData") -> Iterator[bytes]:
        """Runs a request that was received; yields the reply, with results that fit, and the others.

        Args:
            session: of the client.
            received: by `receive_with_data`.
        """
        with received.run.admitted(self.admission, session) as result:
            message = device_pb2.ExecuteWithDataReply(reply=result_to_wire(result, ()))
        results = received.results if result.is_sufficient else ()
        chunks = Packer(received.bytes_per_s).chunks(results)
        with self.admission.track():
            if sum(memory.size for memory in results) <= CHUNK_BYTES:
                yield encode(message, chunks)
                return
            yield encode(message, ())
            nothing = device_pb2.ExecuteWithDataReply()
            for chunk in chunks:
                yield encode(nothing, (chunk,))

    def _validated(
        self,
        session: Session,
        message: device_pb2.ExecuteRequest,
        pools: Sequence[Memory],
        cancellation: Cancellation,
    ) -> "_ValidRun":
        """Decodes and checks a request, so that it can run."""
        registered = session.model(message.prepared_model)
        options = execute_options_from_wire(message.options, self._extensions)
        request = request_from_wire(message.request, pools)
        validate_request(registered.model, request)
        return _ValidRun(registered, request, replace(options, cancellation=cancellation), self._watch)

    def _carried_pool(
        self,
        session: Session,
        message: types_pb2.RequestPool,
        contents: list[Memory],
        results: list[Memory],
    ) -> Memory:
        kind = message.WhichOneof("kind")
        if kind == "content_bytes":
            contents.append(session.new_memory(message.content_bytes))
            return contents[-1]
        if kind == "memory":
            raise BadData("a pool is a memory with a token; content, results or a buffer is expected")
        return self._request_pool(session, message, results)

    def execute_fenced(
        self, session: Session, message: device_pb2.ExecuteFencedRequest
    ) -> device_pb2.ExecuteFencedReply:
        """Starts a valid request that runs once its fences have signalled."""
        wait_for = [session.take_fence(token) for token in message.wait_for]
        fence = session.take_fence(message.fence)
        if any(pool.WhichOneof("kind") == "results_bytes" for pool in message.request.pools):
            raise BadData("a fenced execution cannot return results; it writes to memory of its client")
        pools = [self._request_pool(session, pool, []) for pool in message.request.pools]
        registered = session.model(message.prepared_model)
        options = execute_options_from_wire(message.options, self._extensions)
        request = request_from_wire(message.request, pools)
        validate_request(registered.model, request)
        after_fences_s = message.after_fences_s if message.HasField("after_fences_s") else None
        deadline_in(after_fences_s, "a time after fences")  # refuses invalid values at once

        def run(options: ExecuteOptions) -> ExecutionResult:
            with self.admission.execution(session, options, registered.priority) as ticket:
                with self._watch.under_way(CrashPhase.EXECUTE, registered.crumb, session.number):
                    result = run_on_private_copies(registered, request, options)
                return with_queue_time(result, options, ticket)

        handle = session.start_fenced(FencedRun(run, wait_for, fence, options, after_fences_s))
        return device_pb2.ExecuteFencedReply(execution=handle)

    def get_fenced_execution_info(
        self, session: Session, message: device_pb2.GetFencedExecutionInfoRequest
    ) -> device_pb2.GetFencedExecutionInfoReply:
        """Returns the outcome of a fenced execution, which can be asked for once."""
        return outcome_to_wire(session.take_fenced(message.execution).outcome)

    def profile(self, session: Session, message: device_pb2.ProfileRequest) -> device_pb2.ProfileReply:
        """Has the device measure the kernels of a prepared model."""
        registered = session.model(message.prepared_model)
        with (
            self.admission.execution(session, ExecuteOptions(), registered.priority),
            charging(registered.account),
            self._watch.under_way(CrashPhase.PROFILE, registered.crumb, session.number),
        ):
            return profile_to_wire(registered.prepared_model.profile())

    def open_ring(self, session: Session, connection: int, memory: int) -> None:
        """Starts a ring of a session; takes over the descriptors of its socket and memory."""
        RingServer.opened(session, connection, memory, self.admission, self._watch).start()

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
        raise BadData(f"a pool has kind {kind}; a memory, results or a buffer is expected")

    # Device buffers

    def allocate(self, session: Session, message: device_pb2.AllocateRequest) -> device_pb2.AllocateReply:
        """Has the device allocate a buffer for valid roles."""
        roles = [
            _requested_role(session, role, is_output=is_output)
            for is_output, named in ((False, message.inputs), (True, message.outputs))
            for role in named
        ]
        dimensions = dimensions_from_wire(message)
        with self.admission.track():
            token = session.buffers.allocate(self._device, dimensions, roles, session.hold)
        return device_pb2.AllocateReply(buffer=token)

    def copy_to_buffer(
        self, session: Session, message: device_pb2.CopyToBufferRequest
    ) -> device_pb2.CopyToBufferReply:
        """Copies a value to a buffer."""
        memory = session.take_memory(message.memory)
        with self.admission.track():
            session.buffers.find(message.buffer).write(memory, dimensions_from_wire(message))
        return device_pb2.CopyToBufferReply()

    def copy_from_buffer(
        self, session: Session, message: device_pb2.CopyFromBufferRequest
    ) -> device_pb2.CopyFromBufferReply:
        """Copies the value of a buffer, to memory of the client or else to new memory."""
        memory = session.take_memory(message.memory) if message.memory else None
        buffer = session.buffers.find(message.buffer)
        with self.admission.track():
            target = session.new_memory(buffer.value_bytes) if memory is None else memory
            buffer.read(target)
            token = session.add_memory(target, is_result=True) if memory is None else b""
        return device_pb2.CopyFromBufferReply(result=token)

    def release_buffer(
        self, session: Session, message: device_pb2.ReleaseBufferRequest
    ) -> device_pb2.ReleaseBufferReply:
        """Releases a buffer."""
        session.buffers.release(message.buffer)
        return device_pb2.ReleaseBufferReply()


@dataclass(frozen=True, slots=True)
class RunWithData:
    """A request that was received with its data; see `DeviceHandler.receive_with_data`.

    Attributes:
        run: the request.
        results: the memories whose content the client gets.
        bytes_per_s: the speed of the link; 0 if the client has not measured it.
    """

    run: "_ValidRun"
    results: Sequence[Memory]
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class _ValidRun:
    """A request that was checked against its model."""

    registered: RegisteredModel
    request: Request
    options: ExecuteOptions
    watch: CrashWatch

    @contextlib.contextmanager
    def admitted(self, admission: Admission, session: Session) -> Iterator[ExecutionResult]:
        """Runs the request once the device is free; the device is busy until the context ends."""
        with admission.execution(session, self.options, self.registered.priority) as ticket:
            with self.watch.under_way(CrashPhase.EXECUTE, self.registered.crumb, session.number):
                result = run_on_private_copies(self.registered, self.request, self.options)
            yield with_queue_time(result, self.options, ticket)


def run_on_private_copies(
    registered: RegisteredModel, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Runs a validated request on copies of memory that its client can write.

    Outputs are copied back unless the execution was cancelled.
    """
    with (
        charging(registered.account),
        buffers_in_use(registered.prepared_model, registered.model.main, request) as use,
    ):
        staged = stage(
            use.request, is_passthrough=lambda pool: not _is_shared(pool), allocate=registered.arenas.take
        )
        result = registered.prepared_model.execute(staged.request, options)
        is_awaited = options.cancellation is None or not options.cancellation.is_cancelled
        if result.is_sufficient and is_awaited:
            staged.write_back(output_types(registered.model), result.output_shapes)
            use.wrote(result)
    registered.arenas.give_back(staged.arenas)
    return result


def _requested_role(session: Session, message: device_pb2.BufferRole, *, is_output: bool) -> RequestedRole:
    registered = session.model(message.prepared_model)
    return RequestedRole(
        model=registered.model,
        prepared_model=registered.prepared_model,
        index=message.index,
        is_output=is_output,
        probability=message.probability,
    )


def _is_shared(memory: Memory) -> bool:
    """Returns whether the client can write to a memory."""
    return isinstance(memory, SharedMemory) and not memory.readonly

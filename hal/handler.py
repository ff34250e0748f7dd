"""The calls of the contract (`proto/device.proto`) on one device. Knows messages and sessions, no transport.

Whatever comes from a client is checked before the device sees it: numbers and limits by `neurald.hal.wire`,
models and requests by `neurald.hal.validate`. Each method raises an `Error` for what a client did wrong or
a device failed to do.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from neurald._proto import device_pb2, types_pb2
from neurald.hal.device import Device, ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, DeadObject, MissedDeadlinePersistent
from neurald.hal.memory import Memory, SharedMemory
from neurald.hal.rpc import CHUNK_BYTES
from neurald.hal.session import Limits, Session, Sessions
from neurald.hal.staging import output_types, stage
from neurald.hal.types import FeatureLevel, Model
from neurald.hal.validate import validate_model, validate_request
from neurald.hal.wire import model_from_wire, request_from_wire, result_to_wire
from neurald.hal.wire_device import (
    DaemonStatus,
    DeviceStatus,
    capabilities_to_wire,
    description_to_wire,
    execute_options_from_wire,
    prepare_options_from_wire,
    status_to_wire,
    verdicts_to_wire,
)


class DeviceHandler:
    """Serves one device to many sessions. Thread-safe.

    Args:
        device: what is served.
        limits: what a session may hold.
    """

    def __init__(self, device: Device, limits: Limits) -> None:
        self._device = device
        self.sessions = Sessions(limits)
        self._idle = threading.Condition()
        self._calls = 0
        self._is_draining = False

    # What any client may ask

    def describe(self) -> device_pb2.DescribeReply:
        """What the device says about itself."""
        return description_to_wire(self._device)

    def get_capabilities(self) -> device_pb2.GetCapabilitiesReply:
        """How good the device is at what."""
        return device_pb2.GetCapabilitiesReply(capabilities=capabilities_to_wire(self._device.capabilities()))

    def get_status(self) -> device_pb2.GetStatusReply:
        """How busy the daemon is."""
        sessions = self.sessions.all()
        device = DeviceStatus.BUSY if self._calls else DeviceStatus.AVAILABLE
        return status_to_wire(
            DaemonStatus(
                device=DeviceStatus.OFFLINE if self._is_draining else device,
                sessions=len(sessions),
                prepared_models=sum(session.prepared_models for session in sessions),
                memories=sum(session.memories for session in sessions),
                calls=self._calls,
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
            if part.WhichOneof("part") != "chunk" or not part.chunk:
                raise BadData(f"after {offset} bytes there is a message without any")
            if len(part.chunk) > memory.size - offset:
                raise BadData(f"more bytes come than the {memory.size} that were announced")
            memory.view(offset, len(part.chunk))[:] = part.chunk
            offset += len(part.chunk)
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
            for offset in range(0, memory.size, CHUNK_BYTES):
                chunk = memory.view(offset, min(CHUNK_BYTES, memory.size - offset))
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
        model = self._model(session, message.model)
        validate_model(model)
        return verdicts_to_wire(self._device.supported_operations(model))

    def prepare_model(
        self, session: Session, message: device_pb2.PrepareModelRequest
    ) -> device_pb2.PrepareModelReply:
        """Has the device prepare a valid model."""
        model = self._model(session, message.model)
        for token in (*message.model_cache, *message.data_cache):
            session.take_memory(token)
        options = prepare_options_from_wire(message.options)
        session.check_prepared()
        level = validate_model(model)
        # What is in no released level is a matter between the model and the device.
        if self._device.feature_level < level < FeatureLevel.EXPERIMENTAL:
            raise BadData(
                f"the model needs feature level {level.name}; "
                f"{self._device.name} has {self._device.feature_level.name}"
            )
        with self._call(options):
            prepared = self._device.prepare_model(model, options)
        handle = session.add_prepared(model, prepared)
        return device_pb2.PrepareModelReply(prepared_model=handle)

    def release_prepared_model(
        self, session: Session, message: device_pb2.ReleasePreparedModelRequest
    ) -> device_pb2.ReleasePreparedModelReply:
        """Lets go of a prepared model."""
        session.release(message.prepared_model)
        return device_pb2.ReleasePreparedModelReply()

    def _model(self, session: Session, message: types_pb2.Model) -> Model:
        pools = [session.take_memory(token) for token in message.pools]
        if any(_is_shared(pool) for pool in pools):
            raise BadData("a memory of the model can still be written; constants are to be sealed")
        return model_from_wire(message, pools)

    # Executions

    def execute(
        self, session: Session, message: device_pb2.ExecuteRequest, is_awaited: Callable[[], bool]
    ) -> device_pb2.ExecuteReply:
        """Runs a valid request.

        Args:
            session: of the client.
            message: with the request.
            is_awaited: whether the client still waits; outputs that nobody waits for are not written any more.
        """
        results: list[Memory] = []
        pools = [self._request_pool(session, pool, results) for pool in message.request.pools]
        found = session.prepared(message.prepared_model)
        options = execute_options_from_wire(message.options)
        request = request_from_wire(message.request, pools)
        validate_request(found.model, request)
        staged = stage(request, stays=lambda pool: not _is_shared(pool), allocate=found.arenas.take)
        with self._call(options):
            result = found.prepared.execute(staged.request, options)
            tokens = []
            if result.is_sufficient and is_awaited():
                staged.write_back(output_types(found.model), result.output_shapes)
                tokens = [session.add_memory(memory, is_result=True) for memory in results]
        found.arenas.give_back(staged.arenas)
        return result_to_wire(result, tokens)

    def _request_pool(
        self, session: Session, message: types_pb2.RequestPool, results: list[Memory]
    ) -> Memory:
        kind = message.WhichOneof("kind")
        if kind == "memory":
            return session.take_memory(message.memory)
        if kind == "results_bytes":
            results.append(session.new_memory(message.results_bytes))
            return results[-1]
        raise BadData(f"a pool of kind {kind}; a memory or results are expected")

    # The end

    @contextlib.contextmanager
    def _call(self, options: PrepareOptions | ExecuteOptions) -> Iterator[None]:
        """Work for the device, which is refused where it is too late for it."""
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the device could start")
        with self._at_work():
            if self._is_draining:
                raise DeadObject("the daemon is about to stop")
            yield

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """What a drain waits for."""
        with self._idle:
            self._calls += 1
        try:
            yield
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def drain(self, timeout_s: float, is_forced: Callable[[], bool]) -> bool:
        """Refuses new work and waits for that under way, and until its results are read.

        Args:
            timeout_s: how long to wait at most.
            is_forced: asked again and again whether to stop waiting.

        Returns:
            Whether all is done.
        """
        end = time.monotonic() + timeout_s
        with self._idle:
            self._is_draining = True
            while self._has_work() and time.monotonic() < end and not is_forced():
                self._idle.wait(0.05)
            return not self._has_work()

    def _has_work(self) -> bool:
        return self._calls > 0 or any(session.has_unread for session in self.sessions.all())


def _is_shared(memory: Memory) -> bool:
    """Whether the client can write to it."""
    return isinstance(memory, SharedMemory) and not memory.readonly

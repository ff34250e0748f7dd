"""The calls of the contract (`proto/device.proto`) on one device, without any transport.

Everything from a client is checked before the device sees it: numbers and limits by
`neurald.hal.rpc.wire.model`, models and requests by `neurald.hal.validation`. Each method raises an
`Error` for a mistake of the client or a failure of the device.
"""

from collections.abc import Iterator

import numpy as np

from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.session_buffers import RequestedRole
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.compiling.session_pool import SessionPool
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.device import Device, declared_extensions
from neurald.hal.errors import BadData
from neurald.hal.rpc.server.execution_handler import ExecutionHandler
from neurald.hal.rpc.server.model_handler import ModelHandler
from neurald.hal.rpc.server.ring_server import RingServer
from neurald.hal.rpc.transport.data_chunks import unpacked
from neurald.hal.rpc.transport.status import CHUNK_BYTES
from neurald.hal.rpc.wire.device import (
    Access,
    DaemonStatus,
    DeviceStatus,
    capabilities_to_wire,
    description_to_wire,
    status_to_wire,
)
from neurald.hal.rpc.wire.model import dimensions_from_wire

#: Memory is sent to clients in pieces of this size. gRPC and protobuf keep several copies of each
#: until it is received.
_READ_BYTES = CHUNK_BYTES // 4


class DeviceHandler:
    """Serves one device to many sessions. Thread-safe.

    Args:
        device: the device to serve.
        limits: the limits of sessions.
        compilers: compile for the device in other processes; None if it compiles in this one.
        watch: knows which models kill the driver; None for one that no process reads.

    Attributes:
        sessions: the open sessions.
        admission: admits calls and executions to the device.
        models: the calls that ask about models, prepare and release them.
        executions: the calls that execute prepared models.
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
        self._extensions = declared_extensions(device)
        self.models = ModelHandler(device, limits, self.admission, self._watch, compilers)
        self.executions = ExecutionHandler(self.admission, self._watch, self._extensions)

    # Calls without a session

    def describe(self) -> device_pb2.DescribeReply:
        """Returns the properties of the device."""
        description = description_to_wire(self._device)
        description.carries_data = True
        description.takes_parts = True
        description.takes_ongoing_requests = True
        description.sends_times = True
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
                prepared_models=sum(len(session.models) for session in sessions),
                memories=sum(len(session.memories) for session in sessions),
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
        memory = session.memories.new(first.size_bytes)
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
        return device_pb2.WriteMemoryReply(memory=session.memories.add(memory))

    def read_memory(
        self, session: Session, message: device_pb2.ReadMemoryRequest
    ) -> Iterator[device_pb2.ReadMemoryReply]:
        """Sends a memory in pieces.

        Raises:
            BadData: the token is not known.
            DeadObject: the session is over.
        """
        with self.admission.track():
            memory = session.memories.take(message.memory)
            for offset in range(0, memory.size, _READ_BYTES):
                chunk = memory.view(offset, min(_READ_BYTES, memory.size - offset))
                yield device_pb2.ReadMemoryReply(chunk=chunk.tobytes())

    def release_memory(
        self, session: Session, message: device_pb2.ReleaseMemoryRequest
    ) -> device_pb2.ReleaseMemoryReply:
        """Drops memories whose tokens will not be used."""
        for token in message.memories:
            session.memories.drop(token)
        return device_pb2.ReleaseMemoryReply()

    # Rings

    def open_ring(self, session: Session, connection: int, memory: int) -> None:
        """Starts a ring of a session; takes over the descriptors of its socket and memory."""
        RingServer.opened(session, connection, memory, self.admission, self._watch).start()

    # Device buffers

    def allocate(self, session: Session, message: device_pb2.AllocateRequest) -> device_pb2.AllocateReply:
        """Makes the device allocate a buffer for valid roles."""
        roles = [
            _requested_role(session, role, is_output=is_output)
            for is_output, named in ((False, message.inputs), (True, message.outputs))
            for role in named
        ]
        dimensions = dimensions_from_wire(message)
        with self.admission.track():
            token = session.buffers.allocate(self._device, dimensions, roles, session.memories.make)
        return device_pb2.AllocateReply(buffer=token)

    def copy_to_buffer(
        self, session: Session, message: device_pb2.CopyToBufferRequest
    ) -> device_pb2.CopyToBufferReply:
        """Copies a value to a buffer."""
        memory = session.memories.take(message.memory)
        with self.admission.track():
            session.buffers.find(message.buffer).write(memory, dimensions_from_wire(message))
        return device_pb2.CopyToBufferReply()

    def copy_from_buffer(
        self, session: Session, message: device_pb2.CopyFromBufferRequest
    ) -> device_pb2.CopyFromBufferReply:
        """Copies the value of a buffer, to memory of the client or else to new memory."""
        memory = session.memories.take(message.memory) if message.memory else None
        buffer = session.buffers.find(message.buffer)
        with self.admission.track():
            target = session.memories.new(buffer.value_bytes) if memory is None else memory
            buffer.read(target)
            token = session.memories.add(target, is_result=True) if memory is None else b""
        return device_pb2.CopyFromBufferReply(result=token)

    def release_buffer(
        self, session: Session, message: device_pb2.ReleaseBufferRequest
    ) -> device_pb2.ReleaseBufferReply:
        """Releases a buffer."""
        session.buffers.release(message.buffer)
        return device_pb2.ReleaseBufferReply()


def _requested_role(session: Session, message: device_pb2.BufferRole, *, is_output: bool) -> RequestedRole:
    registered = session.models.find(message.prepared_model)
    return RequestedRole(
        model=registered.model,
        prepared_model=registered.prepared_model,
        index=message.index,
        is_output=is_output,
        probability=message.probability,
    )

"""Devices in daemons, which implement the same Protocols as devices in this process.

A daemon that dies takes its prepared models with it: their pending and later executions raise
DeadObject. The device itself reconnects with the next call. It counts as the same device if its
name and type are the same: it may have been updated to another version, and its measurements may
differ each time. Then both are taken over. A call during which the daemon dies is not repeated,
because it may have been the cause.
"""

import contextlib
import logging
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec import Struct

from neurald._proto import device_pb2
from neurald.hal.buffers.staging import ArenaPool, Staged, output_types, stage
from neurald.hal.cache.artifact_seal import read_seal
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    Burst,
    CacheFilesNeeded,
    CacheRecord,
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    KernelTime,
    Link,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import (
    AnotherDevice,
    BadData,
    DeadObject,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    UnavailableDevice,
    UnknownCall,
    Unreachable,
    Withdrawn,
)
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.execution.in_process import InProcessBurst, start_fenced
from neurald.hal.execution.pending import PendingExecution
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.extension import Extension
from neurald.hal.model.types import DeviceType, FeatureLevel, Model, Request
from neurald.hal.process.activation import is_standing_by, is_vacant
from neurald.hal.process.address import Address
from neurald.hal.process.fork import forkable_lock, require_grpc
from neurald.hal.records import replace
from neurald.hal.rpc.client.array_calls import create_array_function
from neurald.hal.rpc.client.artifacts import fetch_artifact, sealed_memory, send_artifact
from neurald.hal.rpc.client.buffer import RemoteBuffer, send_pools
from neurald.hal.rpc.client.burst import RemoteBurst
from neurald.hal.rpc.client.connection import CONNECT_TIMEOUT_S, Connection, Traffic
from neurald.hal.rpc.client.connection_life import ConnectionLife
from neurald.hal.rpc.client.fenced_execution import RemoteFencedExecution
from neurald.hal.rpc.client.link_speed import measure_link
from neurald.hal.rpc.client.reach import is_replaced, require_listener, require_running
from neurald.hal.rpc.client.ring import RemoteModel
from neurald.hal.rpc.client.ring_pool import RingPool
from neurald.hal.rpc.client.tls_refusal import refusal, serves_tls
from neurald.hal.rpc.transport.tls_files import TlsContent, TlsFiles
from neurald.hal.rpc.wire.device import (
    DaemonStatus,
    DeviceDescription,
    DeviceStatus,
    cache_record_from_wire,
    capabilities_from_wire,
    description_from_wire,
    execute_options_to_wire,
    prepare_options_to_wire,
    status_from_wire,
    verdicts_from_wire,
)
from neurald.hal.rpc.wire.model import dimensions_to_wire, model_to_wire, request_to_wire, result_from_wire
from neurald.hal.rpc.wire.profile import profile_from_wire
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
#: How long measuring a link may take, and how long a measurement is used.
_LINK_S = 2.0
_LINK_AGE_S = 60.0
#: How many arenas a prepared model keeps for its next executions.
_ARENA_CACHE_SIZE = 4
#: A daemon that did not answer for so long counts as silent. Further calls fail at once for
#: `_RETRY_AFTER_S`, so that the following calls of the same task need not wait again.
_SILENCE_S = 0.5
_RETRY_AFTER_S = 1.0
#: How many daemons one call may be given to, each of which withdraws and is replaced by the next.
MAX_SUCCESSORS = 8
#: For how long a client waits until a service manager listens in the place of a driver that died.
_MAX_GAP_S = 1.0
_GAP_POLL_S = 0.01
#: How many connections are opened while the process that accepts them is about to stop.
_MAX_REFUSALS = 12


def connect(
    address: str,
    deadline_s: float | None = None,
    token_file: Path | None = None,
    tls: TlsFiles | None = None,
) -> "RemoteDevice":
    """Connects to the device that a daemon serves at `unix:///path` or `host:port`.

    Args:
        address: of the daemon.
        deadline_s: by which it must have answered, on the clock of `time.monotonic()`; None for
            some seconds.
        token_file: a copy of the daemon's token file; None if the daemon is this user's own.
        tls: the client's files for mutual TLS; None without TLS.

    Raises:
        BadData: the address is not valid, or `tls` is given for a UNIX socket.
        BadState: a file cannot be read, or is not valid.
        UnavailableDevice: there is no listener, this user may not connect, or no daemon answers;
            the message says which.
    """
    return RemoteDevice(Address.parse(address), deadline_s, token_file, tls)


class _RecentSilence(Struct, frozen=True, kw_only=True):
    """A daemon that did not answer a moment ago.

    Attributes:
        until: when to try again at the earliest, on the clock of `time.monotonic()`.
        reason: why calls fail until then.
    """

    until: float
    reason: str


class RemoteDevice:
    """Implements `neurald.hal.device.Device`. Its name joins the device's and the daemon's by `@`.

    Attributes:
        traffic: counts the messages so far.
        token_file: a copy of the daemon's token file, for the next connection; None if the daemon
            is this user's own.
        tls: the client's files for mutual TLS, for the next connection; None without TLS.
    """

    is_remote = True

    def __init__(
        self,
        address: Address,
        deadline_s: float | None = None,
        token_file: Path | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        self._address = address
        self.token_file = token_file
        self.tls = tls
        self.traffic = Traffic()
        self._lock = forkable_lock()
        self._silence: _RecentSilence | None = None
        self._link_lock = forkable_lock()
        self._link: Link | None = None
        self._link_of: Connection | None = None
        self._link_until = 0.0
        self._connection, self._description, self._capabilities = _open(
            address, self.traffic, deadline_s, token_file, tls
        )

    @property
    def name(self) -> str:
        """See `Device.name`."""
        return f"{self._description.name}@{self._address.short_name}"

    @property
    def cache_name(self) -> str:
        """The name for cache keys, which does not change with the daemon's socket on its host."""
        return f"{self._description.name}@{self._address.host}"

    @property
    def address(self) -> str:
        """The address of the daemon."""
        return str(self._address)

    @property
    def type(self) -> DeviceType:
        """See `Device.type`."""
        return self._description.type

    @property
    def version(self) -> str:
        """See `Device.version`."""
        return self._description.version

    @property
    def feature_level(self) -> FeatureLevel:
        """See `Device.feature_level`."""
        return self._description.feature_level

    @property
    def extensions(self) -> tuple[str, ...]:
        """See `Device.extensions`."""
        return self._description.extensions

    @property
    def declared_extensions(self) -> tuple[Extension, ...]:
        """See `DeclaresExtensions.declared_extensions`."""
        return self._description.declared_extensions

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """See `Device.cache_files_needed`."""
        return self._description.cache_files_needed

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`; as of the last time that the daemon was connected to."""
        return self._capabilities

    def link(self) -> Link | None:
        """See `HasLink.link`; it is measured again after a minute, and after a new connection."""
        if self._address.path is not None:
            return None
        with self._link_lock:
            connection = self._connection
            now = time.monotonic()
            if self._link is None or self._link_of is not connection or now > self._link_until:
                try:
                    link = measure_link(connection, now + _LINK_S)
                except Error as error:
                    logger.warning("the link to %s cannot be measured: %s", self.name, error)
                    return None
                connection.bytes_per_s = link.bytes_per_s
                self._link, self._link_of, self._link_until = link, connection, now + _LINK_AGE_S
            return self._link

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`.

        Raises:
            BadData: the model is not valid.
            DeadObject: the daemon is gone.
        """
        sealed = seal_constants(model)
        message = device_pb2.GetSupportedOperationsRequest(model=model_to_wire(sealed, ()))

        def ask(connection: Connection) -> Sequence[Verdict]:
            tokens = connection.send_memories(sealed.pools)
            message.model.pools[:] = tokens
            reply = connection.call("GetSupportedOperations", message, tokens=tokens)
            return verdicts_from_wire(reply, len(model.main.operations))

        return self._reconnecting(ask)

    def prepare_model(self, model: Model, options: PrepareOptions) -> "RemotePreparedModel":
        """See `Device.prepare_model`."""
        _require_time(options.deadline_s)
        sealed = seal_constants(model)
        message = device_pb2.PrepareModelRequest(
            model=model_to_wire(sealed, ()), options=prepare_options_to_wire(options)
        )

        def prepare(connection: Connection) -> RemotePreparedModel:
            tokens = connection.send_memories(sealed.pools, options.deadline_s)
            message.model.pools[:] = tokens
            message.options.CopyFrom(prepare_options_to_wire(options))  # with the remaining time
            reply = connection.call("PrepareModel", message, options.deadline_s, tokens)
            return RemotePreparedModel(
                connection, model, reply.prepared_model, reply.has_artifact, cache_record_from_wire(reply)
            )

        return self._reconnecting(prepare)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> "RemotePreparedModel":
        """See `Device.prepare_model_from_cache`; a daemon must have sealed the artifact."""
        _require_time(options.deadline_s)
        interface = read_seal(artifact.seal).interface_model(self.declared_extensions)
        sealed = replace(
            artifact,
            model=tuple(map(sealed_memory, artifact.model)),
            data=tuple(map(sealed_memory, artifact.data)),
        )

        def prepare(connection: Connection) -> RemotePreparedModel:
            sent, tokens = send_artifact(connection, sealed, options.deadline_s)
            message = device_pb2.PrepareModelFromCacheRequest(
                options=prepare_options_to_wire(options), artifact=sent
            )
            reply = connection.call("PrepareModelFromCache", message, options.deadline_s, tokens)
            return RemotePreparedModel(connection, interface, reply.prepared_model)

        return self._reconnecting(prepare)

    def allocate(self, description: BufferDescription) -> RemoteBuffer:
        """See `Device.allocate`. The buffer belongs to the session of its prepared models."""
        connection = self._connection
        message = device_pb2.AllocateRequest(dimensions=dimensions_to_wire(description.dimensions))
        for what, roles, field in (
            ("input", description.input_roles, message.inputs),
            ("output", description.output_roles, message.outputs),
        ):
            for role in roles:
                prepared = role.prepared_model
                if not isinstance(prepared, RemotePreparedModel) or prepared.connection is not connection:
                    raise BadData(
                        f"{self.name}: a prepared model belongs to another device, or to an earlier connection"
                    )
                if not 0 <= role.index < 1 << 32:
                    raise BadData(f"{self.name}: there is no {what} {role.index}")
                field.add(prepared_model=prepared.handle, index=role.index, probability=role.probability)
        token = connection.call("Allocate", message).buffer
        if not token:
            raise OpFailed(f"{self.name} allocated a buffer, but returned no token for it")
        return RemoteBuffer(connection, token)

    def status(self) -> DaemonStatus:
        """Returns what the daemon holds for all its clients.

        Raises:
            DeadObject: the daemon is gone.
        """
        return self._reconnecting(
            lambda connection: status_from_wire(connection.call("GetStatus", device_pb2.GetStatusRequest()))
        )

    def require_ready(self, within_s: float) -> None:
        """Raises an error unless the device takes work.

        A daemon that is too busy to answer counts as ready, and so does one that another process
        has replaced.

        Args:
            within_s: how long the daemon has to answer.

        Raises:
            UnavailableDevice: the device hangs, its daemon is stopped, or gone.
        """
        connection = self._connection
        process = connection.peer
        try:
            reply = connection.call("GetStatus", device_pb2.GetStatusRequest(), time.monotonic() + within_s)
            status = status_from_wire(reply)
        except MissedDeadlineTransient:
            require_running(process, self._address)
            self._is_succeeded(process)
            return
        except (BadData, DeadObject) as error:
            raise UnavailableDevice(f"{self.name}: {error}") from None
        if status.device is DeviceStatus.OFFLINE and not self._is_succeeded(process):
            raise UnavailableDevice(f"{self.name}: it hangs or is lost, or its daemon is about to stop")

    def _is_succeeded(self, process: int) -> bool:
        """Returns whether another process than `process` serves the device, or starts it if needed.

        Raises:
            UnavailableDevice: the service manager has given up the process.
        """
        if not is_replaced(process, self._address):
            return False
        is_standing_by(self._address)
        return True

    @property
    def is_alive(self) -> bool:
        """True if the session still exists, as far as is known without a call."""
        return self._connection.is_open

    @property
    def is_closed(self) -> bool:
        """True if the application has ended the session, and no call has opened another."""
        return self._connection.is_closed

    def close(self) -> None:
        """Ends the session, and with it the prepared models; otherwise the last reference does.

        A later call on the device opens a new session.
        """
        self._connection.close()

    def reconnect(self, deadline_s: float | None = None, *, at_once: bool = False) -> None:
        """Opens a session if there is none, and updates the version and measurements of the device.

        Args:
            deadline_s: by which it must be open, on the clock of `time.monotonic()`.
            at_once: try even if the daemon was silent a moment ago.

        Raises:
            AnotherDevice: the daemon serves another device now.
            Unreachable: the daemon cannot be reached; the message says why.
        """
        connection = self._connection
        if not connection.is_open:
            self._connection_after(connection, deadline_s, at_once=at_once)

    def _reconnecting(self, call: Callable[[Connection], _T]) -> _T:
        connection = self._connection
        if not connection.is_open:
            connection = self._connection_after(connection)
        for _ in range(MAX_SUCCESSORS):
            started = time.monotonic()
            try:
                return call(connection)
            except Withdrawn as error:
                withdrawn = error
                try:
                    connection = self._connection_after(connection)
                except Unreachable:
                    break
            except Unreachable as error:
                self._note_silence(started, str(error))
                raise
        try:
            raise withdrawn from None
        finally:
            # The error refers to this frame, so the frame must not refer to it.
            del withdrawn

    def _note_silence(self, started: float, reason: str) -> None:
        """Makes the next calls fail at once if this one has just waited in vain."""
        now = time.monotonic()
        if now > started + _SILENCE_S:
            self._silence = _RecentSilence(until=now + _RETRY_AFTER_S, reason=reason)

    def _connection_after(
        self, dead: Connection, deadline_s: float | None = None, *, at_once: bool = False
    ) -> Connection:
        """Returns a connection other than `dead`: that of another thread, or a new one.

        Args:
            dead: a connection that has ended, or whose daemon takes no more work.
            deadline_s, at_once: see `reconnect`.
        """
        with self._lock:
            if self._connection is not dead:
                return self._connection
            started = time.monotonic()
            if not at_once and self._silence is not None and started < self._silence.until:
                raise Unreachable(self._silence.reason)
            try:
                connection, description, capabilities = _open(
                    self._address, self.traffic, deadline_s, self.token_file, self.tls
                )
            except UnavailableDevice as error:
                self._note_silence(started, f"{self.name}: {error}")
                raise Unreachable(f"{self.name}: {error}") from None
            found, known = (f"{each.type.name} {each.name}" for each in (description, self._description))
            if found != known:
                connection.close()
                raise AnotherDevice(
                    f"{self.name}: another device is served at {self._address} now, {found} instead of {known}; "
                    "connect again to use it"
                )
            if not dead.is_open:
                dead.close()
            # Otherwise its daemon completes what it has begun.
            self._description, self._capabilities = description, capabilities
            self._connection = connection
            return connection


class RemotePreparedModel:
    """Implements `neurald.hal.device.PreparedModel`; the last reference releases it in the daemon.

    Attributes:
        connection: through which it was prepared.
        handle: of the prepared model in the daemon.
        model: the prepared model, as rings run it.
        cache_record: the entry of the daemon's own cache; None if there is none.
    """

    def __init__(
        self,
        connection: Connection,
        model: Model,
        handle: int,
        has_artifact: bool = False,
        cache_record: CacheRecord | None = None,
    ) -> None:
        self.connection = connection
        self.cache_record = cache_record
        self._has_artifact = has_artifact
        # The model itself would keep its constants alive.
        self.model = RemoteModel(handle=handle, types=output_types(model))
        self._inputs, self._outputs = (
            tuple(model.main.operands[index] for index in indexes)
            for indexes in (model.main.inputs, model.main.outputs)
        )
        # A model from the cache has only its inputs and outputs.
        self._operations = len(model.main.operations) or None
        self.handle = handle
        self._arenas = ArenaPool(SharedMemory.working, max_kept=_ARENA_CACHE_SIZE, max_kept_bytes=sys.maxsize)
        message = device_pb2.ReleasePreparedModelRequest(prepared_model=handle)
        weakref.finalize(self, connection.call_in_background, "ReleasePreparedModel", message).atexit = False

    @property
    def rings(self) -> RingPool:
        """Run its executions if the daemon is on this host."""
        return self.connection.rings

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`: the daemon makes copies where it must."""
        return True

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        """See `PreparedModel.execute_fenced`.

        A thread of this process waits for the fences and executes the request then, which is faster
        than to send the fences to the daemon. The daemon waits for the fences of a request with
        device buffers, whose executions are calls.
        """
        connection = self.connection
        has_buffers = any(isinstance(pool, RemoteBuffer) for pool in request.pools)
        is_shared = all(isinstance(pool, SharedMemory | RemoteBuffer) for pool in request.pools)
        if connection.is_local and has_buffers and is_shared:
            return self.launch(request, wait_for, options, after_fences_s)
        run = start_fenced(self, request, wait_for, options, after_fences_s)
        forget = connection.life.call_at_end(partial(_lose, weakref.ref(run), connection.life))
        weakref.finalize(run, forget).atexit = False
        return run

    def launch(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> RemoteFencedExecution:
        """Starts an execution that waits for fences in the daemon; see `execute_fenced`.

        Args:
            request: in memory and device buffers that the daemon shares.
            wait_for, options, after_fences_s: see `PreparedModel.execute_fenced`.

        Raises:
            DeadObject: the daemon is gone.
            Error: the daemon refuses the request.
        """
        connection = self.connection
        _require_time(options.deadline_s)
        fence = Fence()
        pools, tokens = send_pools(connection, request.pools, (), options.deadline_s)
        message = device_pb2.ExecuteFencedRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, pools),
            options=execute_options_to_wire(options),
            wait_for=[connection.send_fence(other) for other in wait_for],
            fence=connection.send_fence(fence),
            after_fences_s=after_fences_s,
        )
        reply = connection.call("ExecuteFenced", message, options.deadline_s, tokens)
        return RemoteFencedExecution(
            connection, reply.execution, fence, len(request.outputs), options.deadline_s, request.pools
        )

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`; only for requests that rings run."""
        expected = self.rings.result(request)
        if expected is None:
            return None

        def run(cancellation: Cancellation) -> None:
            nonlocal expected
            result = self.execute(request, ExecuteOptions(cancellation=cancellation))
            if result is not expected:
                if result != expected:
                    raise OpFailed("the result differs from that of the previous run")
                expected = result

        return run

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`; none for variables, or for another host."""
        if variables or not self.connection.is_local:
            return None
        return create_array_function(self, self._inputs, self._outputs, shapes)

    def create_burst(self) -> Burst:
        """See `PreparedModel.create_burst`; for another host, every execution is a call."""
        if not self.connection.is_local:
            return InProcessBurst(self)
        return RemoteBurst(self, self.connection, self.model)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        return fetch_artifact(self.connection, self.handle) if self._has_artifact else None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`; a daemon of an older version does not support it."""
        message = device_pb2.ProfileRequest(prepared_model=self.handle)
        try:
            reply = self.connection.call("Profile", message)
        except UnknownCall:
            return ()
        try:
            return profile_from_wire(reply, self._operations)
        except BadData as error:
            raise OpFailed(f"invalid reply from the daemon: {error}") from None

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Arguments outside of shared memory are copied once.

        On one host the request goes through a ring, if it can and one is free; otherwise it is a
        call.
        """
        _require_time(options.deadline_s)
        if self.connection.is_local:
            result = self.rings.execute(self.model, request, options)
            if result is not None:
                return result
        return self.call(request, options)

    def submit(self, request: Request, options: ExecuteOptions) -> PendingExecution | None:
        """See `SubmitsExecutions.submit`; only for requests that rings run."""
        _require_time(options.deadline_s)
        if not self.connection.is_local:
            return None
        return self.rings.submit(self.model, request, options, partial(self.call, request, options))

    def call(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs a request by a call of gRPC; see `execute`."""
        connection = self.connection
        staged = stage(
            request,
            is_passthrough=lambda pool: (
                isinstance(pool, DeviceBuffer) or (connection.is_local and isinstance(pool, SharedMemory))
            ),
            allocate=self._arenas.take if connection.is_local else _host_memory,
            separate_output_arena=not connection.is_local,
        )
        message = device_pb2.ExecuteRequest(
            prepared_model=self.handle,
            request=request_to_wire(staged.request, ()),
        )
        if connection.carries_data:
            return self._call_with_data(staged, message, options)
        results = {} if connection.is_local else _output_pools(staged)
        pools, tokens = send_pools(connection, staged.request.pools, results, options.deadline_s)
        message.request.pools.extend(pools)
        message.options.CopyFrom(execute_options_to_wire(options))
        reply = connection.call("Execute", message, options.deadline_s, tokens, options.cancellation)
        try:
            result = result_from_wire(reply, len(request.outputs))
        except BadData as error:
            raise OpFailed(f"invalid reply from the daemon: {error}") from None
        if result.is_sufficient:
            if len(reply.results) != len(results):
                raise OpFailed(
                    f"the daemon returned {len(reply.results)} results; {len(results)} are expected"
                )
            for token, pool in zip(reply.results, results.values(), strict=True):
                connection.read_memory(token, pool, options.deadline_s)
            staged.write_back(self.model.types, result.output_shapes)
        # Not after a failure, since the daemon may still be writing to them.
        if connection.is_local:
            self._arenas.give_back(staged.arenas)
        return result

    def _call_with_data(
        self, staged: Staged, message: device_pb2.ExecuteRequest, options: ExecuteOptions
    ) -> ExecutionResult:
        """Runs a request by a call that carries its data; see `call`."""
        connection = self.connection
        results = _output_pools(staged)
        contents: list[Memory] = []
        for number, pool in enumerate(staged.request.pools):
            if isinstance(pool, RemoteBuffer):
                message.request.pools.append(pool.pool_for(connection))
            elif number in results:
                message.request.pools.add(results_bytes=pool.size)
            else:
                message.request.pools.add(content_bytes=pool.size)
                contents.append(pool)
        message.options.CopyFrom(execute_options_to_wire(options))
        reply = connection.execute_with_data(
            message, contents, tuple(results.values()), options.deadline_s, options.cancellation
        )
        try:
            result = result_from_wire(reply, len(staged.request.outputs))
        except BadData as error:
            raise OpFailed(f"invalid reply from the daemon: {error}") from None
        if result.is_sufficient:
            staged.write_back(self.model.types, result.output_shapes)
        return result


def _host_memory(size_bytes: int) -> Memory:
    return HostMemory(np.zeros(size_bytes, np.uint8))


def _output_pools(staged: Staged) -> dict[int, Memory]:
    """Returns the pools of outputs, by index, in order."""
    pools = staged.request.pools
    numbers = sorted({argument.pool for argument in staged.request.outputs if argument.pool is not None})
    return {number: pools[number] for number in numbers if not isinstance(pools[number], DeviceBuffer)}


def _lose(run: "weakref.ref[FencedRun]", life: ConnectionLife) -> None:
    """Ends a fenced execution that waits for fences when its connection has ended."""
    found = run()
    if found is not None:
        found.lose(life.death())


def _require_time(deadline_s: float | None) -> None:
    if deadline_s is not None and not deadline_s > time.monotonic():
        raise MissedDeadlinePersistent("the deadline had passed before the call was made")


def _open(
    address: Address,
    traffic: Traffic,
    deadline_s: float | None = None,
    token_file: Path | None = None,
    tls: TlsFiles | None = None,
) -> tuple[Connection, DeviceDescription, Capabilities]:
    """Opens a connection; returns it with the description and capabilities of its device.

    Raises:
        UnavailableDevice: there is no daemon, or it does not answer; the message says which.
        Error: the daemon refuses a session.
    """
    require_grpc()
    if tls is not None and address.path is not None:
        raise BadData(f"{address} is a UNIX socket; TLS is for TCP")
    began_s = time.monotonic()
    limit = began_s + CONNECT_TIMEOUT_S
    limit = limit if deadline_s is None else min(limit, deadline_s)
    refusals = 0
    while True:
        before = _listener(address)
        try:
            return _open_once(address, traffic, limit, token_file, tls)
        except Withdrawn as error:
            # On TCP its successor may listen at the same port, and get every second connection.
            refusals += 1
            if refusals >= _MAX_REFUSALS or time.monotonic() >= limit:
                raise UnavailableDevice(str(error)) from None
            time.sleep(_GAP_POLL_S)
        except UnavailableDevice:
            now_s = time.monotonic()
            if now_s < began_s + _MAX_GAP_S and address.path is not None and is_vacant(address.path):
                time.sleep(_GAP_POLL_S)
                continue
            # Another process may have taken over the address in the meantime.
            if _listener(address) == before or now_s >= limit:
                raise


def _listener(address: Address) -> object:
    """Returns a value that differs for different listeners at a UNIX socket."""
    if address.path is None:
        return None
    try:
        status = address.path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _open_once(
    address: Address, traffic: Traffic, limit: float, token_file: Path | None, tls: TlsFiles | None
) -> tuple[Connection, DeviceDescription, Capabilities]:
    """Opens a connection to the process that listens now; see `_open`."""
    content = None if tls is None else tls.read()
    if content is not None:
        content.require_timely("this client")
    require_listener(address, limit)
    try:
        connection = Connection(address, traffic, limit, token_file, content)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(connection.close)
            capabilities = connection.call("GetCapabilities", device_pb2.GetCapabilitiesRequest(), limit)
            description = description_from_wire(connection.description)
            measured = capabilities_from_wire(capabilities.capabilities, description.declared_extensions)
            cleanup.pop_all()
    except (DeadObject, MissedDeadlineTransient) as error:
        if isinstance(error, Withdrawn):
            raise
        # A daemon that is silent would not answer another handshake either.
        is_silent = isinstance(error, Unreachable | MissedDeadlineTransient)
        reason = "" if is_silent else _tls_failure(address, tls, content, limit)
        raise UnavailableDevice(reason or str(error)) from None
    except BadData as error:
        raise UnavailableDevice(
            f"the process at {address} is not a driver daemon of this version: {error}"
        ) from None
    return connection, description, measured


def _tls_failure(address: Address, tls: TlsFiles | None, content: TlsContent | None, limit_s: float) -> str:
    """Returns why client and daemon do not agree on TLS, as a sentence; empty if they do."""
    if address.path is not None:
        return ""
    if tls is not None and content is not None:
        return refusal(address, tls, content, limit_s)
    if serves_tls(address, limit_s):
        return f"the daemon at {address} uses TLS; pass the folder with your certificate as tls="
    return ""

"""Prepared models in daemons: their executions, in every way that a connection offers."""

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from neurald._proto import device_pb2
from neurald.hal.buffers.staging import ArenaPool, Staged, output_types, stage
from neurald.hal.device import (
    Artifact,
    Burst,
    CacheRecord,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    KernelTime,
    PreparedModel,
)
from neurald.hal.errors import BadData, OpFailed, UnknownCall
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.execution.in_process import InProcessBurst, start_fenced
from neurald.hal.execution.pending import PendingExecution
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.rpc.client.array_calls import create_array_function
from neurald.hal.rpc.client.artifacts import fetch_artifact
from neurald.hal.rpc.client.buffer import RemoteBuffer, send_pools
from neurald.hal.rpc.client.burst import RemoteBurst
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.connection_life import ConnectionLife
from neurald.hal.rpc.client.fenced_execution import RemoteFencedExecution
from neurald.hal.rpc.client.improvement import call_when_improved
from neurald.hal.rpc.client.open_calls import RemoteOpenFunction, create_open_function
from neurald.hal.rpc.client.rings.ring import RemoteModel
from neurald.hal.rpc.client.rings.ring_pool import RingPool
from neurald.hal.rpc.wire.device import execute_options_to_wire
from neurald.hal.rpc.wire.model import request_to_wire, result_from_wire
from neurald.hal.rpc.wire.profile import profile_from_wire
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

#: How many arenas a prepared model keeps for its next executions.
_ARENA_CACHE_SIZE = 4


class RemotePreparedModel:
    """Implements `neurald.hal.device.PreparedModel`; the last reference releases it in the daemon.

    Attributes:
        connection: through which it was prepared.
        handle: the handle of the prepared model in the daemon.
        model: the prepared model, as rings run it.
        cache_record: the entry of the daemon's own cache; None if there is none.
    """

    def __init__(
        self,
        connection: Connection,
        model: Model,
        reply: device_pb2.PrepareModelReply,
        cache_record: CacheRecord | None = None,
    ) -> None:
        handle = reply.prepared_model
        self.connection = connection
        self.cache_record = cache_record
        self._has_artifact = reply.has_artifact
        self._improves_later = reply.improves_later
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
            request: the request in memory and device buffers that the daemon shares.
            wait_for, options, after_fences_s: see `PreparedModel.execute_fenced`.

        Raises:
            DeadObject: the daemon is gone.
            Error: the daemon refuses the request.
        """
        connection = self.connection
        options.require_time()
        fence = Fence()
        pools, tokens = send_pools(connection, request.pools, (), options)
        message = device_pb2.ExecuteFencedRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, pools),
            options=execute_options_to_wire(options),
            wait_for=[connection.send_fence(other) for other in wait_for],
            fence=connection.send_fence(fence),
            after_fences_s=after_fences_s,
        )
        reply = connection.call("ExecuteFenced", message, options.deadline_s, tokens, options.cancellation)
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
        function = create_array_function(self, self._inputs, self._outputs, shapes)
        if function is not None:
            return function
        opened = self.create_open_function()
        return None if opened is None else opened.for_shapes(shapes)

    def create_open_function(self) -> RemoteOpenFunction | None:
        """See `RunsAnyShapes.create_open_function`; none for another host."""
        if not self.connection.is_local:
            return None
        return create_open_function(self, self._inputs, self._outputs)

    def create_burst(self) -> Burst:
        """See `PreparedModel.create_burst`; for another host, every execution is a call."""
        if not self.connection.is_local:
            return InProcessBurst(self)
        return RemoteBurst(self, self.connection, self.model)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        return fetch_artifact(self.connection, self.handle) if self._has_artifact else None

    def call_when_improved(self, callback: "Callable[[PreparedModel], None]") -> bool:
        """See `ImprovesLater.call_when_improved`; a thread asks the daemon from time to time."""
        if self._improves_later:
            call_when_improved(self, callback)
        return self._improves_later

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
        options.require_time()
        if self.connection.is_local:
            result = self.rings.execute(self.model, request, options)
            if result is not None:
                return result
        return self.call(request, options)

    def submit(self, request: Request, options: ExecuteOptions) -> PendingExecution | None:
        """See `SubmitsExecutions.submit`; only for requests that rings run."""
        options.require_time()
        if not self.connection.is_local:
            return None
        return self.rings.submit(self.model, request, options, partial(self.call, request, options))

    def call(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs a request by a call of gRPC; see `execute`."""
        connection = self.connection
        whole = _whole_inputs(request) if connection.carries_data else frozenset()
        staged = stage(
            request,
            is_passthrough=lambda pool: (
                isinstance(pool, DeviceBuffer)
                or (connection.is_local and isinstance(pool, SharedMemory))
                or id(pool) in whole
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
        pools, tokens = send_pools(connection, staged.request.pools, results, options)
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
                connection.read_memory(token, pool, options.deadline_s, options.cancellation)
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


def _whole_inputs(request: Request) -> frozenset[int]:
    """Returns the identities of memories that are one input and nothing else.

    They are sent from where they are.
    """
    pools = dict(enumerate(request.pools))
    arguments = (*request.inputs, *request.outputs)
    uses = Counter(id(pools.get(argument.pool)) for argument in arguments if argument.pool is not None)
    return frozenset(
        id(pool)
        for argument in request.inputs
        if argument.pool is not None
        and (pool := pools.get(argument.pool)) is not None
        and uses[id(pool)] == 1
        and 0 < argument.length == pool.size
    )


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

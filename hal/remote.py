"""Devices behind a socket. They implement the Protocols of `neurald.hal.device`, like those in this process.

A daemon that dies takes its prepared models with it: their pending and later executions raise DeadObject.
The device itself connects again, once in a call, and repeats the call if the same device is there. A device
that has become another one stays dead.
"""

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from neurald._proto import device_pb2, types_pb2
from neurald.hal.address import Address
from neurald.hal.connection import CONNECT_TIMEOUT_S, Connection, Traffic
from neurald.hal.constants import seal_constants
from neurald.hal.device import (
    CacheFilesNeeded,
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import (
    BadData,
    DeadObject,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    UnavailableDevice,
)
from neurald.hal.memory import HostMemory, Memory, SharedMemory
from neurald.hal.staging import Arenas, Staged, output_types, stage
from neurald.hal.types import DeviceType, FeatureLevel, Model, Request
from neurald.hal.wire import model_to_wire, request_to_wire, result_from_wire
from neurald.hal.wire_device import (
    DaemonStatus,
    DeviceDescription,
    capabilities_from_wire,
    description_from_wire,
    execute_options_to_wire,
    prepare_options_to_wire,
    status_from_wire,
    verdicts_from_wire,
)

_T = TypeVar("_T")
#: Arenas that a prepared model keeps for its next executions.
_ARENAS_KEPT = 4


def connect(address: str) -> "RemoteDevice":
    """The device that a daemon serves at `unix:///path` or `host:port`.

    Raises:
        BadData: that is no address.
        UnavailableDevice: nobody serves there.
    """
    return RemoteDevice(Address.parse(address))


class RemoteDevice:
    """Implements `neurald.hal.device.Device`. Its name is that of the device, `@`, and the place of the daemon.

    Attributes:
        wire: what went through messages so far.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self.wire = Traffic()
        self._lock = threading.Lock()
        self._connection, self._description, self._capabilities = _open(address, self.wire)
        self._is_another = False

    @property
    def name(self) -> str:
        """See `Device.name`."""
        return f"{self._description.name}@{self._address.place}"

    @property
    def address(self) -> str:
        """Where the daemon serves."""
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
    def cache_files_needed(self) -> CacheFilesNeeded:
        """See `Device.cache_files_needed`."""
        return self._description.cache_files_needed

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`; what the daemon said when it was connected to."""
        return self._capabilities

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
            message.options.CopyFrom(prepare_options_to_wire(options))  # less time is left by now
            reply = connection.call("PrepareModel", message, options.deadline_s, tokens)
            return RemotePreparedModel(connection, model, reply.prepared_model)

        return self._reconnecting(prepare)

    def status(self) -> DaemonStatus:
        """What the daemon holds for all its clients.

        Raises:
            DeadObject: it is gone.
        """
        return self._reconnecting(
            lambda connection: status_from_wire(connection.call("GetStatus", device_pb2.GetStatusRequest()))
        )

    @property
    def is_alive(self) -> bool:
        """Whether the session that calls go through still exists, as far as can be seen without a call."""
        return self._connection.is_open

    def close(self) -> None:
        """Ends the session, and with it the prepared models; without this it ends with the last reference.

        A later call on the device opens a new one.
        """
        self._connection.close()

    def _reconnecting(self, call: Callable[[Connection], _T]) -> _T:
        connection = self._connection
        try:
            return call(connection)
        except DeadObject:
            return call(self._connection_after(connection))

    def _connection_after(self, dead: Connection) -> Connection:
        """A connection that is not `dead`: another thread's, or a new one if the same device is there."""
        with self._lock:
            if self._connection is not dead:
                return self._connection
            if not self._is_another:
                try:
                    connection, *found = _open(self._address, self.wire)
                except UnavailableDevice as error:
                    raise DeadObject(f"{self.name}: {error}") from None
                if found == [self._description, self._capabilities]:
                    self._connection = connection
                    return connection
                connection.close()
                self._is_another = True
        raise DeadObject(
            f"{self.name}: another device is served at {self._address} now; connect anew to use it"
        )


class RemotePreparedModel:
    """Implements `neurald.hal.device.PreparedModel`; goes from the daemon with the last reference."""

    def __init__(self, connection: Connection, model: Model, handle: int) -> None:
        self._connection = connection
        self._types = output_types(model)  # and not the model: that would keep its constants here too
        self._handle = handle
        self._arenas = Arenas(SharedMemory.create, kept=_ARENAS_KEPT, kept_bytes=sys.maxsize)
        message = device_pb2.ReleasePreparedModelRequest(prepared_model=handle)
        weakref.finalize(self, connection.call_later, "ReleasePreparedModel", message).atexit = False

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Arguments in shared memory stay where they are, others are copied once."""
        _require_time(options.deadline_s)
        connection = self._connection
        staged = stage(
            request,
            stays=lambda pool: connection.is_local and isinstance(pool, SharedMemory),
            allocate=self._arenas.take if connection.is_local else _host_memory,
            outputs_apart=not connection.is_local,
        )
        message = device_pb2.ExecuteRequest(
            prepared_model=self._handle,
            request=request_to_wire(staged.request, ()),
        )
        results = {} if connection.is_local else _output_pools(staged)
        others = [pool for number, pool in enumerate(staged.request.pools) if number not in results]
        tokens = connection.send_memories(others, options.deadline_s)
        unused = iter(tokens)
        message.request.pools.extend(
            types_pb2.RequestPool(results_bytes=pool.size)
            if number in results
            else types_pb2.RequestPool(memory=next(unused))
            for number, pool in enumerate(staged.request.pools)
        )
        message.options.CopyFrom(execute_options_to_wire(options))
        reply = connection.call("Execute", message, options.deadline_s, tokens)
        result = result_from_wire(reply, len(request.outputs))
        if result.is_sufficient:
            if len(reply.results) != len(results):
                raise OpFailed(f"the daemon gave {len(reply.results)} results; {len(results)} are expected")
            for token, pool in zip(reply.results, results.values(), strict=True):
                connection.read_memory(token, pool, options.deadline_s)
            staged.write_back(self._types, result.output_shapes)
        # Not after a failure: the daemon may still be writing then.
        if connection.is_local:
            self._arenas.give_back(staged.arenas)
        return result


def _host_memory(size_bytes: int) -> Memory:
    return HostMemory(np.zeros(size_bytes, np.uint8))


def _output_pools(staged: Staged) -> dict[int, Memory]:
    """The pools that outputs lie in, by number, in order."""
    pools = staged.request.pools
    numbers = sorted({argument.pool for argument in staged.request.outputs if argument.pool is not None})
    return {number: pools[number] for number in numbers}


def _require_time(deadline_s: float | None) -> None:
    if deadline_s is not None and not deadline_s > time.monotonic():
        raise MissedDeadlinePersistent("the deadline had passed before the call was made")


def _open(address: Address, traffic: Traffic) -> tuple[Connection, DeviceDescription, Capabilities]:
    """A connection, and what the device there says about itself.

    Raises:
        UnavailableDevice: nobody serves there.
        Error: the daemon refuses a session.
    """
    limit = time.monotonic() + CONNECT_TIMEOUT_S
    try:
        connection = Connection(address, traffic)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(connection.close)
            description = connection.call("Describe", device_pb2.DescribeRequest(), limit)
            capabilities = connection.call("GetCapabilities", device_pb2.GetCapabilitiesRequest(), limit)
            found = description_from_wire(description), capabilities_from_wire(capabilities.capabilities)
            cleanup.pop_all()
    except (UnavailableDevice, DeadObject, MissedDeadlineTransient):
        raise UnavailableDevice(
            f"no driver daemon serves {address}; start one with: neurald driver NAME --listen {address}"
        ) from None
    except BadData as error:
        raise UnavailableDevice(
            f"what serves {address} is no driver daemon of this version: {error}"
        ) from None
    return connection, *found

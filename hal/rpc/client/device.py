"""Devices in daemons, which implement the same Protocols as devices in this process.

A daemon that dies takes its prepared models with it: their pending and later executions raise
DeadObject. The device itself reconnects with the next call. It counts as the same device if its
name and type are the same: it may have been updated to another version, and its measurements may
differ each time. Then both are taken over. A call during which the daemon dies is not repeated,
because it may have been the cause.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from neurald._proto import device_pb2
from neurald.hal.cache.artifact_seal import read_seal
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    Link,
    OpenDevice,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import (
    AnotherDevice,
    BadData,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
    UnavailableDevice,
    Unreachable,
    Withdrawn,
)
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.extension import Extension
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, FeatureLevel
from neurald.hal.process.activation import is_standing_by
from neurald.hal.process.address import Address
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.rpc.client.artifacts import sealed_memory, send_artifact
from neurald.hal.rpc.client.buffer import RemoteBuffer
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.link_speed import measure_link
from neurald.hal.rpc.client.opening import open_connection
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.reach import is_replaced, require_running
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.hal.rpc.wire.device import (
    DaemonStatus,
    DeviceStatus,
    cache_record_from_wire,
    prepare_options_to_wire,
    status_from_wire,
    verdicts_from_wire,
)
from neurald.hal.rpc.wire.model import dimensions_to_wire, model_to_wire

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
#: How long measuring a link may take, and how long a measurement is used.
_LINK_S = 2.0
_LINK_AGE_S = 60.0
#: A daemon that did not answer for this long counts as silent. Further calls fail at once for
#: `_RETRY_AFTER_S`, so that the following calls of the same task need not wait again, unless
#: another process has taken its place.
_SILENCE_S = 0.5
_RETRY_AFTER_S = 1.0
#: How many daemons one call may be given to, each of which withdraws and is replaced by the next.
MAX_SUCCESSORS = 8


def connect(
    address: str,
    deadline_s: float | None = None,
    token_file: Path | None = None,
    tls: TlsFiles | None = None,
) -> "RemoteDevice":
    """Connects to the device that a daemon serves at `unix:///path` or `host:port`.

    Args:
        address: the address of the daemon.
        deadline_s: the time by which it must have answered, on the clock of
            `time.monotonic()`; None for some seconds.
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


class RemoteDevice(OpenDevice):
    """Implements `neurald.hal.device.Device`. Its name joins the device's and the daemon's by `@`.

    Attributes:
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
        self._short_name = address.short_name
        self.token_file = token_file
        self.tls = tls
        self._lock = forkable_lock()
        self._silence: _RecentSilence | None = None
        self._link_lock = forkable_lock()
        self._link: Link | None = None
        self._link_of: Connection | None = None
        self._link_until = 0.0
        self._connection, self._description, self._capabilities = open_connection(
            address, deadline_s, token_file, tls
        )
        #: The process that was connected to last; 0 if it is not known.
        self._process = self._connection.peer

    @property
    def name(self) -> str:
        """See `Device.name`."""
        return f"{self._description.name}@{self._short_name}"

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
        options.require_time()
        sealed = seal_constants(model)
        message = device_pb2.PrepareModelRequest(
            model=model_to_wire(sealed, ()), options=prepare_options_to_wire(options)
        )

        def prepare(connection: Connection) -> RemotePreparedModel:
            tokens = connection.send_memories(sealed.pools, options.deadline_s)
            message.model.pools[:] = tokens
            message.options.CopyFrom(prepare_options_to_wire(options))  # with the remaining time
            reply = connection.call("PrepareModel", message, options.deadline_s, tokens)
            return RemotePreparedModel(connection, model, reply, cache_record_from_wire(reply))

        return self._reconnecting(prepare, options.deadline_s)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> "RemotePreparedModel":
        """See `Device.prepare_model_from_cache`; a daemon must have sealed the artifact."""
        options.require_time()
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
            return RemotePreparedModel(connection, interface, reply)

        return self._reconnecting(prepare, options.deadline_s)

    def allocate(self, description: BufferDescription) -> RemoteBuffer:
        """See `Device.allocate`. The buffer belongs to the session of its prepared models.

        Raises:
            DeadObject: the daemon of a prepared model is gone, even if another one serves by now.
        """
        connection = self._connection
        message = device_pb2.AllocateRequest(dimensions=dimensions_to_wire(description.dimensions))
        for what, roles, field in (
            ("input", description.input_roles, message.inputs),
            ("output", description.output_roles, message.outputs),
        ):
            for role in roles:
                prepared = role.prepared_model
                if not isinstance(prepared, RemotePreparedModel):
                    raise BadData(f"{self.name}: a prepared model belongs to another device")
                if prepared.connection is not connection:
                    if not prepared.connection.is_open:
                        raise DeadObject(
                            f"{self.name}: a prepared model was lost with an earlier connection to its driver"
                        )
                    raise BadData(f"{self.name}: a prepared model belongs to another device")
                if not 0 <= role.index < 1 << 32:
                    raise BadData(f"{self.name}: there is no {what} {role.index}")
                field.add(prepared_model=prepared.handle, index=role.index, probability=role.probability)
        token = _with_room(connection, lambda: connection.call("Allocate", message)).buffer
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
            require_running(process, f"the daemon at {self._address}")
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
            deadline_s: the time by which it must be open, on the clock of
                `time.monotonic()`.
            at_once: try even if the daemon was silent a moment ago.

        Raises:
            AnotherDevice: the daemon serves another device now.
            Unreachable: the daemon cannot be reached; the message says why.
        """
        connection = self._connection
        if not connection.is_open:
            self._connection_after(connection, deadline_s, at_once=at_once)

    def _reconnecting(self, call: Callable[[Connection], _T], deadline_s: float | None = None) -> _T:
        connection = self._connection
        if not connection.is_open:
            connection = self._connection_after(connection)
        for _ in range(MAX_SUCCESSORS):
            started = time.monotonic()
            try:
                return _with_room(connection, partial(call, connection), deadline_s)
            except Withdrawn as error:
                withdrawn = error.with_traceback(None)
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
        """Makes the next calls fail at once if this one has just waited without an answer."""
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
                if not (self._process and is_replaced(self._process, self._address)):
                    raise Unreachable(self._silence.reason)
                self._silence = None
            try:
                connection, description, capabilities = open_connection(
                    self._address, deadline_s, self.token_file, self.tls
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
            if dead.life.is_over:
                dead.close()
            # Otherwise its daemon completes what it has begun, or is about to say why it ends.
            self._description, self._capabilities = description, capabilities
            self._connection, self._process = connection, connection.peer
            return connection


def _with_room(connection: Connection, call: Callable[[], _T], deadline_s: float | None = None) -> _T:
    """Makes a call, and once more if the daemon refused it for want of what is just being released.

    Args:
        connection: the connection of the call.
        call: makes it.
        deadline_s: the deadline on the clock of `time.monotonic()`.
    """
    try:
        return call()
    except ResourceExhaustedTransient:
        if not connection.wait_for_releases(deadline_s):
            raise
    return call()

"""A device that exists before the process of its driver does."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    OpenDevice,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import DeadObject, UnavailableDevice, Unreachable
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, FeatureLevel
from neurald.hal.process.address import Address
from neurald.runtime.devices.measurements import Measurement

if TYPE_CHECKING:
    from neurald.hal.rpc.client.device import RemoteDevice
    from neurald.hal.rpc.wire.device import DaemonStatus


class OnDemandDevice(OpenDevice):
    """Implements `neurald.hal.device.Device` by the device of a driver that starts when it is used.

    Before that, its properties are those of the last time that its driver ran. Reading them starts
    nothing; a call that needs the device does.

    Args:
        address: the address of the driver's daemon.
        known: the properties of the device.
        connect: starts the driver unless it runs, and returns its device; the argument is a
            deadline on the clock of `time.monotonic()`.
    """

    is_remote = True

    def __init__(
        self, address: Address, known: Measurement, connect: "Callable[[float | None], RemoteDevice]"
    ) -> None:
        self._address = address
        self._known = known
        self._connect = connect
        self._started: RemoteDevice | None = None

    def is_like(self, known: Measurement) -> bool:
        """Returns whether the device is the one that was measured, perhaps in another version."""
        return (self._known.name, self._known.type) == (known.name, known.type)

    @property
    def is_started(self) -> bool:
        """True if there is a session with the driver, so that calls start nothing."""
        return self._started is not None and self._started.is_alive

    @property
    def _source(self) -> "RemoteDevice | Measurement":
        return self._known if self._started is None else self._started

    @property
    def name(self) -> str:
        """See `Device.name`."""
        return f"{self._known.name}@{self._address.short_name}"

    @property
    def cache_name(self) -> str:
        """See `RemoteDevice.cache_name`."""
        return f"{self._known.name}@{self._address.host}"

    @property
    def address(self) -> str:
        """The address of the daemon."""
        return str(self._address)

    @property
    def type(self) -> DeviceType:
        """See `Device.type`."""
        return self._source.type

    @property
    def version(self) -> str:
        """See `Device.version`."""
        return self._source.version

    @property
    def feature_level(self) -> FeatureLevel:
        """See `Device.feature_level`."""
        return self._source.feature_level

    @property
    def extensions(self) -> tuple[str, ...]:
        """See `Device.extensions`."""
        return self._source.extensions

    @property
    def declared_extensions(self) -> tuple[Extension, ...]:
        """See `DeclaresExtensions.declared_extensions`."""
        return self._source.declared_extensions

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """See `Device.cache_files_needed`."""
        return self._source.cache_files_needed

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`."""
        return self._known.capabilities if self._started is None else self._started.capabilities()

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`."""
        return self._device().supported_operations(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        """See `Device.prepare_model`."""
        return self._device(options.deadline_s).prepare_model(model, options)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        """See `Device.prepare_model_from_cache`."""
        return self._device(options.deadline_s).prepare_model_from_cache(artifact, options)

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`."""
        return self._device().allocate(description)

    def status(self) -> "DaemonStatus":
        """See `RemoteDevice.status`; starts the driver."""
        return self._device().status()

    def require_ready(self, within_s: float) -> None:
        """See `RemoteDevice.require_ready`; starts nothing."""
        if self._started is not None:
            self._started.require_ready(within_s)

    @property
    def is_alive(self) -> bool:
        """True if there is a session with the driver, as far as is known without a call."""
        return self.is_started

    @property
    def is_closed(self) -> bool:
        """True if the application has ended the session, and no call has opened another."""
        return self._started is not None and self._started.is_closed

    def close(self) -> None:
        """Ends the session, if there is one, and with it the prepared models."""
        if self._started is not None:
            self._started.close()

    def _device(self, deadline_s: float | None = None) -> "RemoteDevice":
        """Returns the driver's own device, and starts the driver if necessary.

        Raises:
            Unreachable: it cannot be started; the message says why.
        """
        started = self._started
        if started is not None and started.is_alive:
            return started
        try:
            found = self._connect(deadline_s)
        except (UnavailableDevice, DeadObject) as error:
            raise Unreachable(f"{self.name}: {error}") from None
        if found.name != self.name or found.type is not self._known.type:
            raise Unreachable(
                f"{self.name}: the driver at {self.address} has another device now, {found.name}; "
                "neurald.devices() lists it"
            )
        self._started = found
        return found

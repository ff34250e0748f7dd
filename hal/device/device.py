"""The Protocol of devices, and the optional interfaces that a device may implement besides."""

from collections.abc import Sequence
from typing import Final, Protocol, cast

from msgspec import Struct

from neurald.hal.device.capabilities import Capabilities, Link, Verdict
from neurald.hal.device.preparation import Artifact, CacheFilesNeeded, PrepareOptions
from neurald.hal.device.prepared_model import PreparedModel
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import first_few
from neurald.hal.model.types import DeviceType, Dimensions, FeatureLevel
from neurald.hal.unpicklable import Unpicklable

#: For a device that does not implement `RunsConcurrently`.
_DEFAULT_EXECUTIONS_AT_ONCE: Final = 4


class BufferRole(Struct, frozen=True, kw_only=True):
    """A use of a buffer: input or output `index` of a prepared model.

    Attributes:
        prepared_model: the prepared model.
        index: the index of its input or output.
        probability: how likely the buffer is used so, in (0, 1].
    """

    prepared_model: PreparedModel
    index: int
    probability: float = 1.0


class BufferDescription(Struct, frozen=True, kw_only=True):
    """The uses of a device buffer. All roles have the same operand type and quantisation."""

    dimensions: Dimensions
    input_roles: tuple[BufferRole, ...] = ()
    output_roles: tuple[BufferRole, ...] = ()


class OpenDevice(Unpicklable):
    """Base of devices that this package has: consoles show what they are, and none is pickled."""

    instead_of_pickling = "Pass on its name, by which nd.devices() or nd.open_device() find it again"

    def __repr__(self) -> str:
        device = cast("Device", self)
        return f"<{device.type.name} device {device.name!r}>"


class Device(Protocol):
    """An accelerator. Thread-safe; it outlives the models that it prepared."""

    @property
    def name(self) -> str:
        """Unique among the devices of a process."""
        ...

    @property
    def type(self) -> DeviceType:
        """The kind of hardware."""
        ...

    @property
    def version(self) -> str:
        """A version that differs between drivers whose artifacts or results differ."""
        ...

    @property
    def is_remote(self) -> bool:
        """True if the device is in another process, which can use only shared memory uncopied."""
        ...

    @property
    def feature_level(self) -> FeatureLevel:
        """The feature level of the newest operations that it may be asked to run."""
        ...

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the extensions whose operations it may be asked to run.

        `neurald.tflite` is part of this package. A vendor's extension is declared, see
        `DeclaresExtensions`.
        """
        ...

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """The number of cache files that a prepared model needs."""
        ...

    def capabilities(self) -> Capabilities:
        """Returns performance figures, measured relative to the CPU device."""
        ...

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """Returns a verdict for each operation of the main graph, without compiling anything.

        An IF or WHILE is supported only if every operation of the graphs that it refers to is.

        Args:
            model: a valid model.
        """
        ...

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        """Compiles a model. The device supports each of its operations.

        Raises:
            BadData: the device does not support an operation.
            MissedDeadlineTransient, MissedDeadlinePersistent: it was not ready before
                `options.deadline_s`.
            DeadObject: the driver is gone.
        """
        ...

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        """Restores the prepared model that `artifact` was taken from, without compiling.

        The caller has checked the integrity: these are the bytes that a device of this name and
        version returned for `options.cache_key`. The driver checks their meaning nevertheless.

        Raises:
            BadData, OpFailed: it is not an artifact of this device.
            DeadObject: the driver is gone.
        """
        ...

    def allocate(self, description: BufferDescription) -> Memory:
        """Allocates memory of the device for the described roles, for use in requests.

        Raises:
            BadData: the description contradicts itself, or a prepared model belongs to another
                device.
            OpFailed: the device offers no such memory.
        """
        ...


class HasLink(Protocol):
    """An optional interface of a `Device` that may be on another host."""

    def link(self) -> Link | None:
        """Returns its link; None if there is none, or if it cannot be measured now."""
        ...


class DeclaresExtensions(Protocol):
    """An optional interface of a device that supports vendor extensions."""

    @property
    def declared_extensions(self) -> tuple[Extension, ...]:
        """The vendor extensions that `Device.extensions` names, as their vendors declare them."""
        ...


class KnowsLoss(Protocol):
    """An optional interface of a device that can be lost, such as one that was unplugged."""

    @property
    def is_lost(self) -> bool:
        """True if this process can never use it again. A supervised daemon is then replaced."""
        ...


class MeasuresItself(Protocol):
    """An optional interface of a device whose `Device.capabilities` are measured, which takes long.

    Before, and if they are not kept of an earlier measurement, `Device.capabilities` returns
    estimates: no compilation or execution waits for the measurement.
    """

    def measure(self) -> None:
        """Measures the capabilities, unless they are known.

        A daemon calls this before it serves clients, and `neurald calibrate` before it measures.

        Raises:
            UnavailableDevice: no model can be prepared. A daemon then does not start, and
                `neurald devices` says why.
        """
        ...


class OpensAhead(Protocol):
    """An optional interface of a device that opens slowly, and does so for its first model."""

    def open_ahead(self) -> None:
        """Opens the device, if it is not open. A daemon calls this while its first client connects.

        Raises:
            Error: it cannot be opened, as the next call will find out, too.
        """
        ...


class RunsConcurrently(Protocol):
    """An optional interface of a `Device` that runs several executions at the same time."""

    @property
    def executions_at_once(self) -> int:
        """The number of executions that run efficiently at once, at least 1; further ones wait."""
        ...


def executions_at_once(device: Device) -> int:
    """Returns `RunsConcurrently.executions_at_once`, or 4 for a device without it."""
    count: int = getattr(device, "executions_at_once", _DEFAULT_EXECUTIONS_AT_ONCE)
    return max(1, count)


def declared_extensions(device: "Device") -> tuple[Extension, ...]:
    """Returns the declared extensions that the device also lists; none if it declares none."""
    declared: tuple[Extension, ...] = getattr(device, "declared_extensions", ())
    return tuple(extension for extension in declared if extension.name in device.extensions)


def require_supported(device: Device, model: Model) -> None:
    """Raises an error unless a device supports all operations of a model.

    Raises:
        BadData: it does not; the message has the first reasons.
    """
    refused = [verdict.reason for verdict in device.supported_operations(model) if not verdict.ok]
    if refused:
        raise BadData(f"{device.name}: {first_few(refused)}")

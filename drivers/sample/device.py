"""The sample device: describes its hardware and prepares models.

To write a driver, copy this folder and replace four parts: the description of the device and of
supported operations (`flavour.py`), vendor operations, if any (`extension.py`), the prepared form
of a model and its execution (`prepared_model.py`), and its cached form (`artifact.py`). Keep the
order of steps in `prepare_model`, and the checks.
"""

import time
from collections.abc import Sequence

import numpy as np

from neurald._version import __version__
from neurald.drivers.sample.artifact import read_artifact
from neurald.drivers.sample.buffer import allocate
from neurald.drivers.sample.extension import why_not
from neurald.drivers.sample.flavour import ALL, FLOAT_FAST, FLOAT_SLOW, MINIMAL, QUANT, SampleConfig
from neurald.drivers.sample.prepared_model import SamplePreparedModel
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import BadData, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import TFLITE, extension_of
from neurald.hal.model.numbering import first_few
from neurald.hal.operations import DEFINITIONS
from neurald.hal.types import DeviceType, FeatureLevel, Model, Operation, Subgraph


class SampleDevice:
    """Implements `neurald.hal.device.Device`.

    Its prepared models run the reference implementations.

    Args:
        config: name, performance and supported operations.
        feature_level: the newest operations that it may be asked to run.
    """

    type = DeviceType.ACCELERATOR
    is_remote = False
    # Names everything that artifacts depend on: an artifact of another version is never read.
    version = f"neurald sample {__version__}, numpy {np.__version__}"
    #: One memory with the graph, which decides what is executed, and one with the constants.
    cache_files_needed = CacheFilesNeeded(model=1, data=1)

    def __init__(self, config: SampleConfig, *, feature_level: FeatureLevel = FeatureLevel.LEVEL_8) -> None:
        self.name = config.name
        self.feature_level = feature_level
        self._config = config
        #: Vendor extensions, and the names of all extensions: a device is never asked about
        #: operations of others.
        self.declared_extensions = config.extensions
        self.extensions = (TFLITE, *(extension.name for extension in config.extensions))

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`.

        A real driver measures once and caches the figures; these are fixed.
        """
        return self._config.capabilities

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`.

        Operations with a reference that the flavour supports.
        """
        return tuple(
            Verdict(ok=not reason, reason=reason)
            for reason in (
                self._unsupported_reason(model, model.main, each) for each in model.main.operations
            )
        )

    def _unsupported_reason(self, model: Model, graph: Subgraph, operation: Operation) -> str:
        """Returns the reason why an operation is not supported, or "".

        Control flow is supported if its graphs are; validation has limited their nesting.
        """
        if extension_of(operation.type) in self._config.extensions:
            return why_not(model, graph, operation)
        if operation.type not in DEFINITIONS:
            return f"{operation.type.name} has no reference"
        reason = self._config.unsupported_reason(operation, graph)
        for index in operation.inputs:
            referenced = graph.operands[index].subgraph
            if reason or referenced is None:
                continue
            inner = model.referenced[referenced]
            reasons = (self._unsupported_reason(model, inner, each) for each in inner.operations)
            reason = next((f"in a graph of {operation.type.name}: {each}" for each in reasons if each), "")
        return reason

    def prepare_model(self, model: Model, options: PrepareOptions) -> SamplePreparedModel:
        """See `Device.prepare_model`."""
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the model could be prepared")
        self._require_supported(model)
        prepared = SamplePreparedModel(model, device=self.name, options=options)
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlineTransient("the deadline passed while the model was prepared")
        return prepared

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> SamplePreparedModel:
        """See `Device.prepare_model_from_cache`."""
        model = read_artifact(artifact, self.declared_extensions)
        self._require_supported(model)
        return SamplePreparedModel(model, device=self.name, options=options)

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`."""
        return allocate(self.name, description)

    def _require_supported(self, model: Model) -> None:
        refused = [verdict.reason for verdict in self.supported_operations(model) if not verdict.ok]
        if refused:
            raise BadData(f"{self.name}: {first_few(refused)}")


def create_float_fast() -> SampleDevice:
    """Creates a fast float32 device. Like those below, it is called by `neurald.hal.registry`."""
    return SampleDevice(FLOAT_FAST)


def create_float_slow() -> SampleDevice:
    """Creates a slow, power-saving float32 device."""
    return SampleDevice(FLOAT_SLOW)


def create_quant() -> SampleDevice:
    """Creates a device for 8-bit asymmetric tensors that claims to be very slow."""
    return SampleDevice(QUANT)


def create_minimal() -> SampleDevice:
    """Creates a very fast device that only supports ADD, CONCATENATION and CONV_2D on float32."""
    return SampleDevice(MINIMAL)


def create_all() -> SampleDevice:
    """Creates a device that supports everything and is slightly slower than the CPU."""
    return SampleDevice(ALL)

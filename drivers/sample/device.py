"""The sample device, which describes its hardware and prepares models.

To write a driver, copy this folder and replace these parts:

- `config.py`: the name, the performance and the supported operations of the device;
- `prepared_model.py`: how a model is compiled and executed;
- `artifact.py`: the form in which a prepared model is cached;
- `buffer.py`: device memory, if there is any;
- `extension.py`: operations and operand types that Android NN lacks, if there are any.

Keep the checks in this file, and their order.
"""

from collections.abc import Sequence

import numpy as np

from neurald._version import __version__
from neurald.drivers.sample.artifact import read_artifact
from neurald.drivers.sample.buffer import allocate
from neurald.drivers.sample.config import ALL, FLOAT_FAST, FLOAT_SLOW, MINIMAL, QUANT, SampleConfig
from neurald.drivers.sample.extension import extension_unsupported_reason
from neurald.drivers.sample.prepared_model import SamplePreparedModel
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    OpenDevice,
    PrepareOptions,
    Verdict,
    require_supported,
)
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import TFLITE, extension_of
from neurald.hal.operations import DEFINITIONS
from neurald.hal.types import DeviceType, FeatureLevel, Model, Operation, Subgraph


class SampleDevice(OpenDevice):
    """Implements `neurald.hal.device.Device`. Its prepared models run the references of operations.

    Args:
        config: the name, performance and supported operations.
        feature_level: the feature level; the device is not asked about newer operations.
    """

    type = DeviceType.ACCELERATOR
    is_remote = False
    # This names everything that artifacts depend on. Artifacts of another version are not read.
    version = f"neurald sample {__version__}, numpy {np.__version__}"
    #: An artifact has one memory with the graph and one with the constants.
    cache_files_needed = CacheFilesNeeded(model=1, data=1)

    def __init__(self, config: SampleConfig, *, feature_level: FeatureLevel = FeatureLevel.LEVEL_8) -> None:
        self.name = config.name
        self.feature_level = feature_level
        self._config = config
        # The device is only asked about operations of the extensions that it lists.
        self.declared_extensions = config.extensions
        self.extensions = (TFLITE, *(extension.name for extension in config.extensions))

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`.

        The figures are fixed. A real driver measures them once and caches them.
        """
        return self._config.capabilities

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`."""
        return tuple(
            Verdict(ok=not reason, reason=reason)
            for reason in (
                self._unsupported_reason(model, model.main, each) for each in model.main.operations
            )
        )

    def _unsupported_reason(self, model: Model, graph: Subgraph, operation: Operation) -> str:
        """Returns the reason why an operation is not supported, or "".

        Control flow is supported if all operations of its graphs are. This recurses once per level
        of nesting, which validation limits.
        """
        if extension_of(operation.type) in self._config.extensions:
            return extension_unsupported_reason(model, graph, operation)
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
        options.require_time()
        require_supported(self, model)
        prepared = SamplePreparedModel(model, device=self.name, options=options)
        options.require_wanted("while the model was prepared")
        return prepared

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> SamplePreparedModel:
        """See `Device.prepare_model_from_cache`."""
        model = read_artifact(artifact, self.declared_extensions)
        require_supported(self, model)
        return SamplePreparedModel(model, device=self.name, options=options)

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`."""
        return allocate(self.name, description)


def create_float_fast() -> SampleDevice:
    """Creates a fast float32 device. `neurald.hal.registry` calls this function."""
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

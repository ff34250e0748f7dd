"""The reference device, which runs every operation on its NumPy reference.

The results of other devices are compared with those of this one.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from neurald._version import __version__
from neurald.hal.buffers.tracked_buffer import described_uses, host_memory_for
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    CacheFilesNeeded,
    Capabilities,
    OpenDevice,
    Performance,
    PrepareOptions,
    Verdict,
    require_supported,
)
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_support import supported_by_references
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, FeatureLevel, OperandType

if TYPE_CHECKING:
    # Imported when a model is prepared, so that listing devices stays fast.
    from neurald.hal.execution.reference_model import ReferenceModel

#: The device claims the performance of the CPU device instead of measuring its own.
_UNIT = Performance(exec_time=1.0, power_usage=1.0)


class ReferenceDevice(OpenDevice):
    """Implements `neurald.hal.device.Device`."""

    name = "reference"
    type = DeviceType.CPU
    is_remote = False
    feature_level = FeatureLevel.LEVEL_8
    extensions = ("neurald.tflite",)

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """See `Device.cache_files_needed`. The device caches nothing."""
        return CacheFilesNeeded()

    @property
    def version(self) -> str:
        """See `Device.version`."""
        return f"neurald {__version__}, numpy {np.__version__}"

    @property
    def executions_at_once(self) -> int:
        """See `RunsConcurrently`: one execution per core."""
        return len(os.sched_getaffinity(0))

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`. All figures are 1.0."""
        return Capabilities(
            operand_performance=dict.fromkeys(OperandType, _UNIT),
            relaxed_float32_scalar=_UNIT,
            relaxed_float32_tensor=_UNIT,
            if_performance=_UNIT,
            while_performance=_UNIT,
        )

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`. Operations with a reference are supported."""
        return supported_by_references(model, self)

    def prepare_model(self, model: Model, options: PrepareOptions) -> "ReferenceModel":
        """See `Device.prepare_model`."""
        options.require_time()
        require_supported(self, model)
        from neurald.hal.execution.reference_model import ReferenceModel

        return ReferenceModel(model)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> "ReferenceModel":
        """Raises BadData, since the device has no artifacts."""
        raise BadData(f"{self.name} does not compile, so it cannot load an artifact")

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`. Allocates host memory, for which all dimensions must be known."""
        from neurald.hal.execution.reference_model import ReferenceModel

        def operand_of(role: BufferRole, is_output: bool) -> Operand:
            prepared = role.prepared_model
            if not isinstance(prepared, ReferenceModel):
                raise BadData(f"{self.name}: a role refers to a model that this device did not prepare")
            return prepared.operand(role.index, is_output=is_output)

        return host_memory_for(self.name, described_uses(description, operand_of), description.dimensions)


def create() -> ReferenceDevice:
    """Creates the reference device; called by `neurald.hal.registry`."""
    return ReferenceDevice()

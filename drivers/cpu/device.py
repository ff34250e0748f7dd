"""The CPU device: the fallback of all others, and the one they are measured against."""

from collections.abc import Sequence

import numpy as np

from neurald._version import __version__
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import CacheFilesNeeded, Capabilities, Performance, PrepareOptions, Verdict
from neurald.hal.errors import BadData
from neurald.hal.operations import DEFINITIONS
from neurald.hal.types import DeviceType, FeatureLevel, Model, OperandType

#: The CPU device is what times and powers are relative to.
_UNIT = Performance(exec_time=1.0, power_usage=1.0)


class CpuDevice:
    """Implements `neurald.hal.device.Device` on the operations' NumPy references."""

    name = "cpu"
    type = DeviceType.CPU
    version = f"neurald {__version__}, numpy {np.__version__}"
    feature_level = FeatureLevel.LEVEL_8
    extensions = ("neurald.tflite",)
    cache_files_needed = CacheFilesNeeded()

    def capabilities(self) -> Capabilities:
        """1.0 everywhere, by definition."""
        return Capabilities(
            operand_performance=dict.fromkeys(OperandType, _UNIT),
            relaxed_float32_scalar=_UNIT,
            relaxed_float32_tensor=_UNIT,
            if_performance=_UNIT,
            while_performance=_UNIT,
        )

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """Every operation that has a reference."""
        return tuple(
            Verdict(ok=True)
            if operation.type in DEFINITIONS
            else Verdict(ok=False, reason=f"{operation.type.name} has no reference")
            for operation in model.main.operations
        )

    def prepare_model(self, model: Model, options: PrepareOptions) -> CpuPreparedModel:
        """See `Device.prepare_model`. References run on NumPy's own threads whatever `options.threads` says."""
        refused = [verdict.reason for verdict in self.supported_operations(model) if not verdict.ok]
        if refused:
            raise BadData(f"cpu: {'; '.join(refused)}")
        return CpuPreparedModel(model)


def create() -> CpuDevice:
    """The factory that `neurald.hal.registry` calls."""
    return CpuDevice()

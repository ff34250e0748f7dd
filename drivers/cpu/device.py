"""The CPU device: the fallback of all others, and the one they are measured against."""

import time
from collections.abc import Sequence

import numpy as np

from neurald._version import __version__
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    Performance,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import BadData, MissedDeadlinePersistent, OpFailed
from neurald.hal.managed_buffer import described_operand
from neurald.hal.memory import HostMemory, Memory
from neurald.hal.operations import DEFINITIONS
from neurald.hal.types import DeviceType, FeatureLevel, Model, Operand, OperandType, value_size

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
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the model could be prepared")
        refused = [verdict.reason for verdict in self.supported_operations(model) if not verdict.ok]
        if refused:
            raise BadData(f"cpu: {'; '.join(refused)}")
        return CpuPreparedModel(model)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> CpuPreparedModel:
        """See `Device.prepare_model_from_cache`; it makes no artifacts."""
        raise BadData("cpu makes no artifacts, so this is none of its own")

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`; the memory that it computes in is that of the host, which must know how much."""
        uses: list[tuple[str, Operand]] = []
        for roles, is_output in ((description.input_roles, False), (description.output_roles, True)):
            for role in roles:
                prepared = role.prepared_model
                if not isinstance(prepared, CpuPreparedModel):
                    raise BadData(f"cpu: {type(prepared).__name__} is no prepared model of its own")
                uses.append((f"role {len(uses)}", prepared.operand(role.index, is_output=is_output)))
        operand = described_operand(uses, description.dimensions)
        size = value_size(operand.type, operand.dimensions)
        if size is None:
            raise OpFailed("cpu allocates no memory for values of unknown size")
        return HostMemory(np.zeros(size, np.uint8))


def create() -> CpuDevice:
    """The factory that `neurald.hal.registry` calls."""
    return CpuDevice()

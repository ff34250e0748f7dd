"""A model that the sample device has prepared. A real driver compiles it here, once, and runs what it has compiled."""

from collections.abc import Sequence

from neurald.drivers.cpu.reference_model import ReferenceModel
from neurald.drivers.sample.artifact import write_artifact
from neurald.drivers.sample.extension import DEFINITIONS
from neurald.hal.device import (
    Artifact,
    Burst,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    KernelTime,
)
from neurald.hal.fence import Fence
from neurald.hal.in_process import InProcessBurst, start_fenced
from neurald.hal.types import Model, Request


class SamplePreparedModel:
    """Implements `neurald.hal.device.PreparedModel`. Keeps no state between executions, so that many may run at a time.

    Args:
        model: every operation of which the device supports.
        device: name of the device; buffers are only for models of their own.
        keeps_artifact: whether `artifact` will be asked for.
    """

    def __init__(self, model: Model, *, device: str, keeps_artifact: bool) -> None:
        self.model = model
        self.device = device
        self._keeps_artifact = keeps_artifact
        self._compiled = ReferenceModel(model, definitions=DEFINITIONS)

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`: only a driver that knows why says yes."""
        return self._compiled.tolerates_changing_inputs

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`."""
        return self._compiled.execute(request, options)

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        """See `PreparedModel.execute_fenced`; a driver with a queue of its own has the hardware wait."""
        return start_fenced(self, request, wait_for, options, after_fences_s)

    def create_burst(self) -> Burst:
        """See `PreparedModel.create_burst`; a driver that maps memory keeps the mappings in its own."""
        return InProcessBurst(self)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        return write_artifact(self.model) if self._keeps_artifact else None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`; a driver whose hardware cannot tell gives none."""
        return self._compiled.profile()

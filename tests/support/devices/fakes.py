"""Default implementations for fake devices and prepared models."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from neurald.hal.device import (
    Artifact,
    BufferDescription,
    Burst,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    KernelTime,
    PreparedModel,
    PrepareOptions,
)
from neurald.hal.errors import OpFailed
from neurald.hal.execution.in_process import InProcessBurst, start_fenced
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Request
from neurald.hal.sync.fence import Fence


class FakePreparedModel(ABC):
    """A prepared model without `execute`."""

    tolerates_changing_inputs = False

    @abstractmethod
    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult: ...

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        return start_fenced(self, request, wait_for, options, after_fences_s)

    def create_burst(self) -> Burst:
        return InProcessBurst(self)

    def artifact(self) -> Artifact | None:
        return None

    def profile(self) -> Sequence[KernelTime]:
        return ()


class WithoutCacheAndBuffers:
    """An in-process device without artifacts and device memory."""

    is_remote = False

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        raise OpFailed("it makes no artifacts")

    def allocate(self, description: BufferDescription) -> Memory:
        raise OpFailed("it has no memory of its own")

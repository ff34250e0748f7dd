"""Default implementations for fake devices and prepared models."""

from collections.abc import Sequence

from neurald.hal.device import (
    Artifact,
    BufferDescription,
    KernelTime,
    PreparedModel,
    PrepareOptions,
)
from neurald.hal.errors import OpFailed
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.memory.pool import Memory


class FakePreparedModel(InProcessModel):
    """A prepared model without `execute`."""

    tolerates_changing_inputs = False

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

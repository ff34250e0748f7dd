"""A model that the sample device has prepared. A real driver compiles it here, once, and runs what it has compiled."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.sample.artifact import write_artifact
from neurald.drivers.sample.extension import DEFINITIONS
from neurald.hal.device import REFERENCE, Artifact, ExecuteOptions, KernelTime
from neurald.hal.execution import ArrayModel, Limits, ReferenceExecutor
from neurald.hal.operations.call import Array
from neurald.hal.types import Model, OperandType


class SamplePreparedModel(ArrayModel):
    """Implements `neurald.hal.device.PreparedModel`. Keeps no state between executions, so that many may run at a time.

    Args:
        model: every operation of which the device supports.
        device: name of the device; buffers are only for models of their own.
        keeps_artifact: whether `artifact` will be asked for.
    """

    def __init__(self, model: Model, *, device: str, keeps_artifact: bool) -> None:
        super().__init__(model)
        self.device = device
        self._keeps_artifact = keeps_artifact
        self._compiled = ReferenceExecutor(model, definitions=DEFINITIONS)

    def run(self, inputs: Sequence[Array | None], limits: Limits) -> Sequence[Array]:
        """See `ArrayModel.run`."""
        return self._compiled.run(inputs, limits)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        return write_artifact(self.model) if self._keeps_artifact else None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`: operations run on zeros, one by one; there are no times where shapes are open."""
        graph = self.model.main
        operands = [graph.operands[index] for index in graph.inputs]
        if not all(
            each.is_fully_specified and each.type is not OperandType.TENSOR_STRING for each in operands
        ):
            return ()
        inputs = [np.zeros(each.dimensions or (), each.type.dtype) for each in operands]
        times_ns = self._compiled.profile(inputs, Limits(ExecuteOptions()))
        return tuple(
            KernelTime(name=operation.type.name, duration_ns=time_ns, operations=(position,), label=REFERENCE)
            for position, (operation, time_ns) in enumerate(zip(graph.operations, times_ns, strict=True))
        )

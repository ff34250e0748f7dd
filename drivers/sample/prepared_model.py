"""The prepared model of the sample device.

A real driver compiles the model in the constructor and runs the compiled code in `run`.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from neurald.drivers.sample.artifact import write_artifact
from neurald.drivers.sample.extension import (
    DEFINITIONS,
    GRAY_TO_PIXELS,
    TENSOR_PIXELS,
    gray_to_pixels,
    is_flipped,
    rounding,
)
from neurald.hal.device import REFERENCE, Artifact, ExecuteOptions, KernelTime, PrepareOptions
from neurald.hal.execution.array_model import ArrayModel, ExecutionLimits
from neurald.hal.execution.reference_executor import ReferenceExecutor
from neurald.hal.operations.machinery.call import Array
from neurald.hal.types import Model, OperandType


class SamplePreparedModel(ArrayModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Executions may run concurrently, because they do not change the object.

    Args:
        model: a model whose operations are all supported.
        device: the name of the device. `buffer.py` uses it to refuse models of other devices.
        options: the options of the preparation. Artifacts are only requested with a cache key.

    Raises:
        BadData: the value of an attribute is invalid.
    """

    def __init__(self, model: Model, *, device: str, options: PrepareOptions) -> None:
        super().__init__(model)
        self.device = device
        self._keeps_artifact = bool(options.cache_key)
        kernels = {GRAY_TO_PIXELS: partial(gray_to_pixels, round_gray=rounding(options.attributes))}
        self._executor = ReferenceExecutor(model, kernels, DEFINITIONS)

    def run(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
        """See `ArrayModel.run`."""
        flipped = is_flipped(limits.options.attributes)
        results = self._executor.run(inputs, limits)
        if not flipped:
            return results
        types = [self.model.main.operands[index].type for index in self.model.main.outputs]
        return [
            result[::-1] if kind is TENSOR_PIXELS else result
            for kind, result in zip(types, results, strict=True)
        ]

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        return write_artifact(self.model) if self._keeps_artifact else None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`. Runs the operations one by one on zeros.

        The result is empty if shapes of inputs are unspecified.
        """
        graph = self.model.main
        operands = [graph.operands[index] for index in graph.inputs]
        if not all(
            each.is_fully_specified and each.type is not OperandType.TENSOR_STRING for each in operands
        ):
            return ()
        inputs = [np.zeros(each.dimensions or (), each.type.dtype) for each in operands]
        times_ns = self._executor.profile(inputs, ExecutionLimits(ExecuteOptions()))
        return tuple(
            KernelTime(name=operation.type.name, duration_ns=time_ns, operations=(position,), label=REFERENCE)
            for position, (operation, time_ns) in enumerate(zip(graph.operations, times_ns, strict=True))
        )

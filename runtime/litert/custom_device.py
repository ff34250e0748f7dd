"""A device of this process that computes custom operators by functions of the application."""

import time
from collections.abc import Sequence

import numpy as np

from neurald._version import __version__
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    Performance,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import BadData, MissedDeadlineTransient, OpFailed
from neurald.hal.execution.array_model import ArrayModel, ExecutionLimits
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.validation.shape_inference import merge
from neurald.runtime.tflite.graph.custom_operators import CALL, EXTENSION, CustomCall, CustomOperators

_UNIT = Performance(exec_time=1.0, power_usage=1.0)


class CustomDevice:
    """Implements `neurald.hal.device.Device` for the calls of `CustomOperators`.

    Args:
        operators: the functions.
    """

    name = "python"
    type = DeviceType.CPU
    version = f"neurald python {__version__}"
    feature_level = FeatureLevel.LEVEL_8
    is_remote = False
    cache_files_needed = CacheFilesNeeded(model=0, data=0)
    extensions = (EXTENSION.name,)
    declared_extensions = (EXTENSION,)

    def __init__(self, operators: CustomOperators) -> None:
        self._operators = operators

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`. There is no other device for these operations."""
        return Capabilities(
            operand_performance=dict.fromkeys(OperandType, _UNIT),
            relaxed_float32_scalar=_UNIT,
            relaxed_float32_tensor=_UNIT,
            if_performance=_UNIT,
            while_performance=_UNIT,
        )

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`."""
        return tuple(
            Verdict(ok=True) if each.type is CALL else Verdict(ok=False, reason="it is not a custom operator")
            for each in model.main.operations
        )

    def prepare_model(self, model: Model, options: PrepareOptions) -> "CustomModel":
        """See `Device.prepare_model`."""
        options.require_time()
        prepared = CustomModel(model, self._operators)
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlineTransient("the deadline passed while the model was prepared")
        return prepared

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> "CustomModel":
        """See `Device.prepare_model_from_cache`. There are no artifacts."""
        del artifact, options
        raise OpFailed(f"{self.name} caches nothing")

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`. There is no device memory."""
        del description
        raise OpFailed(f"{self.name} has no memory of its own")


class CustomModel(ArrayModel):
    """Implements `neurald.hal.device.PreparedModel`: calls the functions one by one.

    Args:
        model: its operations are calls.
        operators: the functions.

    Raises:
        BadData: an operation is none of the calls.
    """

    def __init__(self, model: Model, operators: CustomOperators) -> None:
        super().__init__(model)
        graph = model.main
        self._constants = {
            index: value
            for index, operand in enumerate(graph.operands)
            if (value := model.constant(operand)) is not None
        }
        self._calls = [self._call(operators, operation) for operation in graph.operations]

    def _call(self, operators: CustomOperators, operation: Operation) -> CustomCall:
        number = self._constants.get(operation.inputs[0]) if operation.inputs else None
        if operation.type is not CALL or number is None or number.size != 1:
            raise BadData(f"{operation.type.name} is not the call of a custom operator")
        return operators.call(int(number.item()))

    def run(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
        """See `ArrayModel.run`."""
        graph = self.model.main
        values: dict[int, Array | None] = {**self._constants, **dict(zip(graph.inputs, inputs, strict=True))}
        for call, operation in zip(self._calls, graph.operations, strict=True):
            limits.check(f"before the custom operator {call.name}")
            given = [values.get(index) for index in operation.inputs[1:]]
            results = _results(call, given, [graph.operands[index] for index in operation.outputs])
            values.update(zip(operation.outputs, results, strict=True))
        return [_written(values[index]) for index in graph.outputs]


def _written(value: Array | None) -> Array:
    if value is None:
        raise OpFailed("an output is not written")
    return value


def _results(call: CustomCall, inputs: Sequence[Array | None], outputs: Sequence[Operand]) -> list[Array]:
    """Calls a function and checks what it returns.

    Raises:
        OpFailed: the function failed, or returned something else than the file declares.
    """
    try:
        returned = call.function(inputs, call.options)
    except Exception as error:
        raise OpFailed(f"custom operator {call.name}: {type(error).__name__}: {error}") from error
    given = list(returned) if isinstance(returned, list | tuple) else [returned]
    if len(given) != len(outputs):
        raise OpFailed(
            f"custom operator {call.name} returned {len(given)} values; it has {len(outputs)} outputs"
        )
    results = []
    for number, (value, operand) in enumerate(zip(given, outputs, strict=True)):
        array = np.asarray(value)
        if array.dtype != operand.type.dtype:
            raise OpFailed(
                f"custom operator {call.name} returned {array.dtype} for output {number}; "
                f"{operand.type.dtype} is expected"
            )
        try:
            merge(operand.dimensions, array.shape, f"custom operator {call.name}: output {number}")
        except BadData as error:
            raise OpFailed(str(error)) from error
        results.append(array)
    return results

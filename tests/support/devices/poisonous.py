"""A driver that some operations kill, each in its way; ADD does no harm.

    MUL       aborts in an execution
    SUB       reads address 0 in an execution
    DIV       aborts in a preparation
    MAXIMUM   aborts when it is asked whether it is supported
    MINIMUM   does not return from an execution
    POW       ends the process in an execution

MUL kills only with three dimensions, so that there are innocent ones, too.
"""

import ctypes
import os
import time
from collections.abc import Sequence

from support.devices.faulty import FaultyPrepared
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.drivers.sample.artifact import read_artifact
from neurald.hal.device import (
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request

NAME = "poisonous"
_SUPPORTED = (
    OperationType.ADD,
    OperationType.MUL,
    OperationType.SUB,
    OperationType.DIV,
    OperationType.MAXIMUM,
    OperationType.MINIMUM,
    OperationType.POW,
)
_LOOK_S = 0.01


class PoisonousDevice(SampleDevice):
    """See the module."""

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        if OperationType.MAXIMUM in _operations(model):
            os.abort()
        return super().supported_operations(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if OperationType.DIV in _operations(model):
            os.abort()
        prepared = super().prepare_model(model, options)
        self.prepared.clear()
        return self._poisoned(prepared, model)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        model = read_artifact(artifact, self.declared_extensions)
        return self._poisoned(super().prepare_model_from_cache(artifact, options), model)

    def _poisoned(self, prepared: PreparedModel, model: Model) -> PreparedModel:
        found = _operations(model)

        def execute(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
            if OperationType.MUL in found:
                os.abort()
            if OperationType.SUB in found:
                ctypes.string_at(0)
            if OperationType.POW in found:
                os._exit(7)
            while OperationType.MINIMUM in found:
                time.sleep(_LOOK_S)
            return right.execute(request, options)

        return FaultyPrepared(prepared, execute)


def _operations(model: Model) -> set[OperationType]:
    operands = model.main.operands
    return {
        each.type
        for each in model.main.operations
        if each.type is not OperationType.MUL or len(operands[each.outputs[0]].dimensions or ()) == 3
    }


def create() -> PoisonousDevice:
    """Creates the device, which is always faster than the CPU."""
    return PoisonousDevice(NAME, performance=0.1, supports=lambda kind: kind in _SUPPORTED)


def chain(*operations: OperationType, dimensions: Sequence[int] = (2, 3, 4)) -> nd.Model:
    """Creates a model that applies operations to two inputs: to both, then to result and second."""
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_FLOAT32
    first, second = (builder.add_operand(kind, dimensions) for _ in range(2))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    result = first
    for operation in operations:
        has_activation = operation in (
            OperationType.ADD,
            OperationType.MUL,
            OperationType.SUB,
            OperationType.DIV,
        )
        output = builder.add_operand(kind, dimensions)
        inputs = [result, second, activation] if has_activation else [result, second]
        builder.add_operation(operation, inputs, [output])
        result = output
    builder.identify_inputs_and_outputs([first, second], [result])
    return builder.finish()

"""Floating-point recurrent cells with 8-bit weights, whose inputs are quantised row by row.

The LSTM cell also exists as an integer cell, for a sequence
(`neurald.hal.operations.tflite.recurrent.integer_lstm`) and for one step
(`neurald.hal.operations.tflite.recurrent.basic_lstm`). The arguments are those of Android's
floating-point operations and, last, whether rows have a zero point. States, biases and the weights
of layer normalisation are floats.
"""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, Parameter, row, scalar
from neurald.hal.operations.recurrent import lstm, rnn, sequence_lstm
from neurald.hal.operations.tflite.recurrent.basic_lstm import with_basic_cell
from neurald.hal.operations.tflite.recurrent.integer_lstm import with_integers
from neurald.hal.records import replace

_ROWS = (
    row(
        FeatureLevel.LEVEL_1,
        T=OperandType.TENSOR_FLOAT32,
        S=OperandType.FLOAT32,
        W=OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    ),
)


def _hybrid(definition: Definition) -> Definition:
    hybrid = replace(
        definition,
        type=OperationType[f"TFLITE_{definition.type.name}"],
        forms=tuple(_with_weights(form) for form in definition.forms),
        rows=_ROWS,
    )
    if definition.type is OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM:
        return with_integers(hybrid)
    return with_basic_cell(hybrid) if definition.type is OperationType.LSTM else hybrid


def _with_weights(form: Form) -> Form:
    inputs = tuple(_quantized_weights(parameter) for parameter in form.inputs)
    return replace(form, inputs=(*inputs, scalar("asymmetric", OperandType.BOOL)))


def _quantized_weights(parameter: Parameter) -> Parameter:
    """Changes weights of inputs and states to 8 bits."""
    is_weights = "weights" in parameter.name and "norm" not in parameter.name
    return replace(parameter, types="W") if is_weights else parameter


DEFINITIONS = tuple(
    _hybrid(definition) for family in (lstm, rnn, sequence_lstm) for definition in family.DEFINITIONS
)

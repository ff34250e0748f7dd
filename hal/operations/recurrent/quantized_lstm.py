"""QUANTIZED_LSTM, QUANTIZED_16BIT_LSTM.

`neurald.hal.operations.recurrent.quantized_lstm_cell` has their cells.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, row, scalar, tensor
from neurald.hal.operations.recurrent.lstm import (
    GATES,
    cell_parameters,
    consistent_cell,
    expect_cell,
    norm_parameters,
    state_parameters,
    valid_clips,
)
from neurald.hal.operations.recurrent.quantized_lstm_arguments import (
    expect_cell_scale,
    expect_inner_scales,
    read_cell,
)
from neurald.hal.operations.recurrent.quantized_lstm_cell import (
    GATE_SCALE,
    Quantized16BitLstmCell,
    QuantizedLstmCell,
    run_quantized_16bit_lstm,
    run_quantized_lstm,
)
from neurald.hal.operations.recurrent.recurrent import expect_elements, expect_shapes
from neurald.hal.records import replace


def _expect_scale(call: Call, name: str, scale: float, zero_point: int) -> None:
    operand = call.operand(name)
    if np.float32(operand.scale) != np.float32(scale) or operand.zero_point != zero_point:
        raise BadData(
            f"{call.name(name)} has scale {operand.scale:g} and zero point {operand.zero_point}; "
            f"{scale:g} and {zero_point} are expected"
        )


def _same_scales(call: Call, outputs: Mapping[str, str]) -> None:
    """Checks that every output has scale and zero point of the corresponding input."""
    for output, source in outputs.items():
        operand = call.operand(source)
        _expect_scale(call, output, operand.scale, operand.zero_point)


def _state_scales(call: Call) -> None:
    """Checks that states keep their scales, and that `tanh16` supports the cell state's."""
    expect_cell_scale(call)
    _same_scales(
        call,
        {
            "output_state_out": "output_state_in",
            "cell_state_out": "cell_state_in",
            "output": "output_state_in",
        },
    )


def _quantized_clip(call: Call, name: str, scale: float) -> int | None:
    """Returns a clip as a quantised magnitude of at most 16 bits; None if it is missing or 0."""
    clip = call.scalar(name) if call.has(name) else 0.0
    if clip == 0:
        return None
    return int(min(np.float32(clip) / np.float32(scale), np.float32(np.iinfo(np.int16).max)))


def read_clipped_cell(call: Call) -> QuantizedLstmCell:
    """Reads the cell of QUANTIZED_LSTM."""
    output = call.operand("output_state_in")
    low, high = -128, 127
    clip = _quantized_clip(call, "projection_clip", output.scale)
    if clip is not None:
        low, high = max(low, output.zero_point - clip), min(high, output.zero_point + clip)
    return replace(
        read_cell(call),
        cell_clip=_quantized_clip(call, "cell_clip", call.operand("cell_state_in").scale),
        output_limits=(low, high),
    )


def _shape(call: Call) -> tuple[Shape, ...]:
    batch, size = call.shape("input")
    units, outputs = expect_cell(call, batch, size)
    return (batch, outputs), (batch, units), (batch, outputs)


def _reference(call: Call) -> tuple[Array, ...]:
    _, output, cell_state = run_quantized_lstm(
        read_clipped_cell(call),
        call.array("input")[np.newaxis],
        call.array("output_state_in"),
        call.array("cell_state_in"),
    )
    return output, cell_state, output


#: The gates of QUANTIZED_16BIT_LSTM in the order of its weight rows.
ORDER_16BIT = ("input", "cell", "forget", "output")
WEIGHTS_16BIT = tuple(f"{source}_to_{gate}_weights" for source in ("input", "recurrent") for gate in GATES)
BIASES_16BIT = tuple(f"{gate}_gate_bias" for gate in GATES)


def _scales_16bit(call: Call) -> None:
    """Checks scales: fixed for inputs, outputs, states; equal for weights; products for biases."""
    for name in ("input", "output_state_in", "output"):
        _expect_scale(call, name, 1 / 128, 128)
    weights = call.operand(WEIGHTS_16BIT[0])
    for name in WEIGHTS_16BIT:
        _expect_scale(call, name, weights.scale, weights.zero_point)
    for name in BIASES_16BIT:
        _expect_scale(call, name, weights.scale / 128, 0)
    expect_cell_scale(call, 4, 4)
    _same_scales(call, {"cell_state_out": "cell_state_in"})


def _shape_16bit(call: Call) -> tuple[Shape, ...]:
    batch, size = call.shape("input")
    units, _ = call.shape("input_to_output_weights")
    expect_elements(call, "input_to_output_weights")
    state = (batch, units)
    shapes: dict[str, Sequence[int]] = {"output_state_in": state, "cell_state_in": state}
    for gate in GATES:
        shapes[f"input_to_{gate}_weights"] = (units, size)
        shapes[f"recurrent_to_{gate}_weights"] = (units, units)
        shapes[f"{gate}_gate_bias"] = (units,)
    expect_shapes(call, shapes)
    return state, state


def _reference_16bit(call: Call) -> tuple[Array, ...]:
    """Runs one step.

    Android concatenates weights as (recurrent, input), but values as (input, output). So the input
    is multiplied by the first columns, regardless of the operand names, as the conformance tests
    require. A client that splits one of TFLite's matrices in that order gets TFLite's results.
    """
    rows = [
        np.concatenate(
            [call.array(f"{source}_to_{gate}_weights") for source in ("recurrent", "input")], axis=1
        )
        for gate in ORDER_16BIT
    ]
    zero_point = call.operand(WEIGHTS_16BIT[0]).zero_point
    cell = Quantized16BitLstmCell(
        weights=np.concatenate(rows).astype(np.int64) - zero_point,
        bias=np.concatenate([call.array(f"{gate}_gate_bias") for gate in ORDER_16BIT]).astype(np.int64),
        multiplier=float(np.float32(call.operand(BIASES_16BIT[0]).scale)) / GATE_SCALE,
    )
    return run_quantized_16bit_lstm(
        cell, call.array("input"), call.array("output_state_in"), call.array("cell_state_in")
    )


_FORM = Form(
    inputs=(
        tensor("input", rank=2),
        *cell_parameters(weights="W", vectors="V", bias="B"),
        *state_parameters(cell="V"),
        *norm_parameters(types="V"),
        replace(scalar("cell_clip", OperandType.FLOAT32), optional=True),
        replace(scalar("projection_clip", OperandType.FLOAT32), optional=True),
        *(scalar(f"{gate}_intermediate_scale", OperandType.FLOAT32) for gate in GATES),
        scalar("hidden_state_zero_point"),
        scalar("hidden_state_scale", OperandType.FLOAT32),
    ),
    outputs=(
        tensor("output_state_out", rank=2),
        tensor("cell_state_out", "V", rank=2),
        tensor("output", rank=2),
    ),
)

_FORM_16BIT = Form(
    inputs=(
        tensor("input", rank=2),
        *(tensor(name, rank=2) for name in WEIGHTS_16BIT),
        *(tensor(name, "B", rank=1) for name in BIASES_16BIT),
        tensor("cell_state_in", "V", rank=2),
        tensor("output_state_in", rank=2),
    ),
    outputs=(tensor("cell_state_out", "V", rank=2), tensor("output", rank=2)),
)

DEFINITIONS = (
    Definition(
        type=OperationType.QUANTIZED_16BIT_LSTM,
        forms=(_FORM_16BIT,),
        rows=(
            row(
                FeatureLevel.LEVEL_3,
                T=OperandType.TENSOR_QUANT8_ASYMM,
                V=OperandType.TENSOR_QUANT16_SYMM,
                B=OperandType.TENSOR_INT32,
            ),
        ),
        checks=(_scales_16bit,),
        shape=_shape_16bit,
        reference=_reference_16bit,
    ),
    Definition(
        type=OperationType.QUANTIZED_LSTM,
        forms=(_FORM,),
        rows=(
            row(
                FeatureLevel.LEVEL_4,
                T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
                W=OperandType.TENSOR_QUANT8_SYMM,
                V=OperandType.TENSOR_QUANT16_SYMM,
                B=OperandType.TENSOR_INT32,
            ),
        ),
        checks=(valid_clips, *consistent_cell(), _state_scales, expect_inner_scales),
        shape=_shape,
        reference=_reference,
    ),
)

"""QUANTIZED_LSTM, QUANTIZED_16BIT_LSTM.

`neurald.hal.operations.recurrent.quantized_lstm_cell` has their cells.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, scale_multiplier
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, row, scalar, tensor
from neurald.hal.operations.recurrent.lstm import (
    GATES,
    cell_parameters,
    consistent_cell,
    expect_cell,
    is_coupled,
    norm_parameters,
    state_parameters,
    valid_clips,
)
from neurald.hal.operations.recurrent.quantized_lstm_cell import (
    GATE_SCALE,
    LOG2_TOLERANCE,
    MAX_CELL_BITS,
    UNIT_SCALE,
    Quantized16BitLstmCell,
    QuantizedGate,
    QuantizedLstmCell,
    ScaledWeights,
    run_quantized_16bit_lstm,
    run_quantized_lstm,
)
from neurald.hal.operations.recurrent.recurrent import expect_elements, expect_shapes, is_given
from neurald.hal.records import replace


def _cell_bits(call: Call) -> int:
    """Returns the number of integer bits of the cell state.

    Raises:
        BadData: its scale is not a power of two.
    """
    scale = call.operand("cell_state_in").scale
    exponent = math.log2(scale)
    if abs(exponent - round(exponent)) >= LOG2_TOLERANCE:
        raise BadData(f"{call.name('cell_state_in')} has scale {scale:g}; a power of two is expected")
    return 15 + round(exponent)


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
    bits = _cell_bits(call)
    if not 0 <= bits <= MAX_CELL_BITS:
        raise BadData(
            f"{call.name('cell_state_in')} has scale 2^{bits - 15}; "
            f"one from 2^-15 to 2^{MAX_CELL_BITS - 15} is expected"
        )
    _same_scales(
        call,
        {
            "output_state_out": "output_state_in",
            "cell_state_out": "cell_state_in",
            "output": "output_state_in",
        },
    )


def _scales_of_gates(call: Call) -> None:
    """Checks that normalised sums have a scale."""
    for gate in GATES:
        if is_given(call, f"{gate}_layer_norm_weights"):
            _expect_positive(call, f"{gate}_intermediate_scale")


def _scale_of_hidden_state(call: Call) -> None:
    """Checks that the hidden values have a scale, and an 8-bit zero point."""
    call.scalar_in("hidden_state_zero_point", -128, 127)
    _expect_positive(call, "hidden_state_scale")


def _expect_positive(call: Call, name: str) -> None:
    scale = call.scalar(name)
    if not 0 < scale < np.inf:
        raise BadData(f"{call.name(name)} is {scale:g}; it must be positive and finite")


def _read_gate(call: Call, gate: str) -> QuantizedGate:
    normalizes = is_given(call, f"{gate}_layer_norm_weights")
    # Without normalisation the sums are passed to the activation functions directly.
    scale = call.scalar(f"{gate}_intermediate_scale") if normalizes else GATE_SCALE

    def weights(name: str, other: float) -> ScaledWeights:
        return ScaledWeights(
            values=call.array(name), multiplier=scale_multiplier(call.operand(name).scale, other, scale)
        )

    peephole, norm = f"cell_to_{gate}_weights", f"{gate}_layer_norm_weights"
    return QuantizedGate(
        inputs=weights(f"input_to_{gate}_weights", call.operand("input").scale),
        recurrent=weights(f"recurrent_to_{gate}_weights", call.operand("output_state_in").scale),
        bias=call.array(f"{gate}_gate_bias").astype(np.int64),
        peephole=weights(peephole, 2.0 ** (_cell_bits(call) - 15)) if is_given(call, peephole) else None,
        norm=ScaledWeights(
            values=call.array(norm),
            multiplier=quantize_multiplier(float(np.float32(call.operand(norm).scale))),
        )
        if normalizes
        else None,
    )


def _quantized_clip(call: Call, name: str, scale: float) -> int | None:
    """Returns a clip as a quantised magnitude of at most 16 bits; None if it is missing or 0."""
    clip = call.scalar(name) if call.has(name) else 0.0
    if clip == 0:
        return None
    return int(min(np.float32(clip) / np.float32(scale), np.float32(np.iinfo(np.int16).max)))


def read_cell(call: Call) -> QuantizedLstmCell:
    """Reads the cell of QUANTIZED_LSTM.

    The hidden values have the hidden state's scale and zero point even without a projection: then
    they are the raw outputs, regardless of the scale of the output's operand.
    """
    output, hidden_scale = call.operand("output_state_in"), call.scalar("hidden_state_scale")
    cell = QuantizedLstmCell(
        input=None if is_coupled(call) else _read_gate(call, "input"),
        forget=_read_gate(call, "forget"),
        cell=_read_gate(call, "cell"),
        output=_read_gate(call, "output"),
        input_zero_point=call.operand("input").zero_point,
        output_zero_point=output.zero_point,
        hidden_zero_point=call.scalar("hidden_state_zero_point"),
        hidden_multiplier=scale_multiplier(UNIT_SCALE, UNIT_SCALE, hidden_scale),
        cell_bits=_cell_bits(call),
        cell_clip=_quantized_clip(call, "cell_clip", call.operand("cell_state_in").scale),
    )
    if not is_given(call, "projection_weights"):
        return cell
    low, high = -128, 127
    clip = _quantized_clip(call, "projection_clip", output.scale)
    if clip is not None:
        low, high = max(low, output.zero_point - clip), min(high, output.zero_point + clip)
    return replace(
        cell,
        projection=ScaledWeights(
            values=call.array("projection_weights"),
            multiplier=scale_multiplier(call.operand("projection_weights").scale, hidden_scale, output.scale),
        ),
        projection_bias=call.array("projection_bias").astype(np.int64)
        if is_given(call, "projection_bias")
        else 0,
        output_limits=(low, high),
    )


def _shape(call: Call) -> tuple[Shape, ...]:
    batch, size = call.shape("input")
    units, outputs = expect_cell(call, batch, size)
    return (batch, outputs), (batch, units), (batch, outputs)


def _reference(call: Call) -> tuple[Array, ...]:
    _, output, cell_state = run_quantized_lstm(
        read_cell(call),
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
    if _cell_bits(call) != 4:
        scale = call.operand("cell_state_in").scale
        raise BadData(f"{call.name('cell_state_in')} has scale {scale:g}; {2.0**-11:g} is expected")
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
        checks=(valid_clips, *consistent_cell(), _state_scales, _scales_of_gates, _scale_of_hidden_state),
        shape=_shape,
        reference=_reference,
    ),
)

"""Reads the cells of `quantized_lstm_cell` from the arguments of operations."""

import math
from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, scale_multiplier
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.lstm import GATES, is_coupled
from neurald.hal.operations.recurrent.quantized_lstm_cell import (
    GATE_SCALE,
    LOG2_TOLERANCE,
    MAX_CELL_BITS,
    UNIT_SCALE,
    QuantizedGate,
    QuantizedLstmCell,
    ScaledWeights,
)
from neurald.hal.operations.recurrent.recurrent import is_given
from neurald.hal.records import replace


def expect_inner_scales(call: Call) -> None:
    """Checks that the internal scales in use are positive, and the zero point has 8 bits.

    Raises:
        BadData: they do not fit.
    """
    names = [f"{gate}_intermediate_scale" for gate in GATES if is_given(call, f"{gate}_layer_norm_weights")]
    for name in (*names, "hidden_state_scale"):
        scale = call.scalar(name)
        if not 0 < scale < math.inf:
            raise BadData(f"{call.name(name)} is {scale:g}; it must be positive and finite")
    call.scalar_in("hidden_state_zero_point", -128, 127)


def expect_cell_scale(call: Call, least_bits: int = 0, most_bits: int = MAX_CELL_BITS) -> None:
    """Checks that the scale of the cell state is a power of two.

    Args:
        call: the operation.
        least_bits, most_bits: the numbers of integer bits that the cell state may have.

    Raises:
        BadData: it is another scale.
    """
    scale = call.operand("cell_state_in").scale
    exponent = math.log2(scale)
    is_power = abs(exponent - round(exponent)) < LOG2_TOLERANCE
    if not is_power or not least_bits <= cell_bits(call) <= most_bits:
        least, most = f"2^{least_bits - 15}", f"2^{most_bits - 15}"
        expected = least if least == most else f"a power of two from {least} to {most}"
        raise BadData(f"{call.name('cell_state_in')} has scale {scale:g}; {expected} is expected")


def cell_bits(call: Call) -> int:
    """Returns the number of integer bits of the cell state, whose scale is a power of two."""
    return 15 + round(math.log2(call.operand("cell_state_in").scale))


def read_gate(call: Call, gate: str) -> QuantizedGate:
    """Reads the parameters of a gate."""
    peephole, norm = f"cell_to_{gate}_weights", f"{gate}_layer_norm_weights"
    normalizes = is_given(call, norm)
    # Without normalisation the sums are passed to the activation functions directly.
    sums = call.scalar(f"{gate}_intermediate_scale") if normalizes else GATE_SCALE

    def weights(name: str, other: float) -> ScaledWeights:
        return ScaledWeights(
            values=call.array(name), multiplier=scale_multiplier(call.operand(name).scale, other, sums)
        )

    return QuantizedGate(
        inputs=weights(f"input_to_{gate}_weights", call.operand("input").scale),
        recurrent=weights(f"recurrent_to_{gate}_weights", call.operand("output_state_in").scale),
        bias=call.array(f"{gate}_gate_bias").astype(np.int64),
        peephole=weights(peephole, 2.0 ** (cell_bits(call) - 15)) if is_given(call, peephole) else None,
        norm=ScaledWeights(
            values=call.array(norm),
            multiplier=quantize_multiplier(float(np.float32(call.operand(norm).scale))),
        )
        if normalizes
        else None,
    )


def read_cell(call: Call, gate: Callable[[Call, str], QuantizedGate] = read_gate) -> QuantizedLstmCell:
    """Reads a cell, without the limits that clips set.

    The hidden values have the hidden state's scale and zero point even without a projection: then
    they are the raw outputs, regardless of the scale of the output's operand.

    Args:
        call: the operation.
        gate: reads the parameters of a gate.
    """
    output, hidden_scale = call.operand("output_state_in"), call.scalar("hidden_state_scale")
    cell = QuantizedLstmCell(
        input=None if is_coupled(call) else gate(call, "input"),
        forget=gate(call, "forget"),
        cell=gate(call, "cell"),
        output=gate(call, "output"),
        input_zero_point=call.operand("input").zero_point,
        output_zero_point=output.zero_point,
        hidden_zero_point=call.scalar("hidden_state_zero_point"),
        hidden_multiplier=scale_multiplier(UNIT_SCALE, UNIT_SCALE, hidden_scale),
        cell_bits=cell_bits(call),
    )
    if not is_given(call, "projection_weights"):
        return cell
    return replace(
        cell,
        projection=ScaledWeights(
            values=call.array("projection_weights"),
            multiplier=scale_multiplier(call.operand("projection_weights").scale, hidden_scale, output.scale),
        ),
        projection_bias=call.array("projection_bias").astype(np.int64)
        if is_given(call, "projection_bias")
        else 0,
    )

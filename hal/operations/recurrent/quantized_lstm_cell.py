"""Integer LSTM cells, as functions of arrays.

They compute the equations of `neurald.hal.operations.recurrent.lstm` in 16-bit fixed point: gate
sums have 3 integer bits, results of activation functions have none, and the model chooses the
integer bits of the cell state.
"""

import math

import numpy as np
from msgspec import Struct

from neurald.hal.operations.arithmetic.fixed_point import Requantization, Rounding, multiply
from neurald.hal.operations.arithmetic.gemmlowp import (
    inverse_square_root,
    product16,
    saturate16,
    shift_right,
    sigmoid16,
    tanh16,
)
from neurald.hal.operations.machinery.call import Array

#: Scale of the arguments of activation functions: 16 bits, 3 of them integer bits.
GATE_SCALE = 2.0**-12
#: Scale of the results of activation functions.
UNIT_SCALE = 2.0**-15

_INT16, _INT32 = np.iinfo(np.int16), np.iinfo(np.int32)
#: Fraction bits that layer normalisation adds to normalised numbers.
NORM_BITS = 10
#: Fraction bits of a variance.
VARIANCE_BITS = 20
#: Tolerance for the logarithm of a power of two.
LOG2_TOLERANCE = 1e-3
#: Maximum number of integer bits of a cell state.
MAX_CELL_BITS = 6
#: Largest left shift of a multiplier.
_MAX_EXPONENT = 30

Multiplier = tuple[int, int]


class ScaledWeights(Struct, frozen=True, kw_only=True):
    """Raw weights without zero point, and the multiplier that rescales sums of their products."""

    values: Array
    multiplier: Multiplier


class QuantizedGate(Struct, frozen=True, kw_only=True):
    """The parameters of one gate.

    Attributes:
        inputs, recurrent: int8, shapes (units, elements) and (units, outputs).
        bias: int32, shape (units,); at the scale of the products of `inputs`, or with layer
            normalisation at 2^-10 of the scale of `norm`.
        peephole: int16, shape (units,).
        peephole_width: row length with which the peephole reads the cell states of a batch, at most
            the number of units; the remainder at the end is ignored. None for the number of units.
        norm: int16, shape (units,), with its own scale as multiplier.
        variance_guard: value that replaces a variance below 1.
    """

    inputs: ScaledWeights
    recurrent: ScaledWeights
    bias: Array
    peephole: ScaledWeights | None = None
    peephole_width: int | None = None
    norm: ScaledWeights | None = None
    variance_guard: int = 1


class QuantizedLstmCell(Struct, frozen=True, kw_only=True):
    """A cell with 8-bit inputs and outputs.

    Attributes:
        input: None if coupled to the forget gate.
        input_zero_point, output_zero_point, hidden_zero_point: the zero points of the inputs, of
            the outputs, and of the input of the projection (without one, of the outputs again).
        hidden_multiplier: from 2^-30 to the scale of the projection's input.
        cell_bits: integer bits of the cell state, 0 to 6.
        cell_clip: maximum magnitude of a raw cell state, if any.
        projection: int8, shape (outputs, units), rescaled to the outputs.
        projection_bias: int32, shape (outputs,), or 0.
        output_limits: range of the raw outputs of a projection.
    """

    input: QuantizedGate | None
    forget: QuantizedGate
    cell: QuantizedGate
    output: QuantizedGate
    input_zero_point: int
    output_zero_point: int
    hidden_zero_point: int
    hidden_multiplier: Multiplier
    cell_bits: int
    cell_clip: int | None = None
    projection: ScaledWeights | None = None
    projection_bias: Array | int = 0
    output_limits: tuple[int, int] = (-128, 127)


def run_quantized_lstm(
    cell: QuantizedLstmCell, sequence: Array, output_state: Array, cell_state: Array
) -> tuple[Array, Array, Array]:
    """Runs a cell over a sequence.

    Args:
        cell: the cell.
        sequence: int8, shape (time, batch, elements).
        output_state, cell_state: int8 and int16, shapes (batch, outputs) and (batch, units).

    Returns:
        The outputs, int8 of shape (time, batch, outputs), and the final output and cell states.
    """
    outputs = np.empty((len(sequence), *output_state.shape), np.int8)
    for step, values in enumerate(sequence):
        inputs = values.astype(np.float64) - cell.input_zero_point
        previous = output_state.astype(np.float64) - cell.output_zero_point
        forget = sigmoid16(_gate_sum(cell.forget, inputs, previous, cell_state)).astype(np.int64)
        if cell.input is None:
            admit = np.iinfo(np.int16).max - forget
        else:
            admit = sigmoid16(_gate_sum(cell.input, inputs, previous, cell_state)).astype(np.int64)
        candidate = tanh16(_gate_sum(cell.cell, inputs, previous, cell_state), 3)
        cell_state = _next_cell_state(cell, forget, cell_state, admit * candidate)
        emit = sigmoid16(_gate_sum(cell.output, inputs, previous, cell_state)).astype(np.int64)
        hidden = multiply(emit * tanh16(cell_state, cell.cell_bits), *cell.hidden_multiplier)
        hidden = np.clip(hidden + cell.hidden_zero_point, -128, 127)
        outputs[step] = output_state = _project(cell, hidden).astype(np.int8)
    return outputs, output_state, cell_state


def _sums(centred: Array, weights: Array) -> Array:
    """Multiplies rows by weights in float64, which is exact and faster than integers.

    Returns int64.
    """
    return (centred @ weights.T.astype(np.float64)).astype(np.int64)


def _rescaled(sums: Array, multiplier: Multiplier) -> Array:
    return multiply(np.clip(sums, _INT32.min, _INT32.max), *multiplier)


def _gate_sum(gate: QuantizedGate, inputs: Array, previous: Array, cell_state: Array) -> Array:
    """Computes the argument of a gate's activation: 16 bits in int64, with 3 integer bits.

    Each addition saturates. Inputs and previous outputs are float64 without their zero points.
    """
    products = _sums(inputs, gate.inputs.values)
    if gate.norm is None:
        products += gate.bias
    total = saturate16(_rescaled(products, gate.inputs.multiplier))
    products = _sums(previous, gate.recurrent.values)
    total = saturate16(total + _rescaled(products, gate.recurrent.multiplier))
    if gate.peephole is not None:
        seen = _peephole_product(gate.peephole.values, gate.peephole_width, cell_state)
        total = saturate16(total + multiply(seen, *gate.peephole.multiplier))
    if gate.norm is not None:
        total = normalize_rows16(total, gate.norm, gate.bias, gate.variance_guard)
    return total


def _peephole_product(weights: Array, width: int | None, cell_state: Array) -> Array:
    """Multiplies a peephole's weights by the cell states; see `QuantizedGate.peephole_width`."""
    if width is None:
        return weights.astype(np.int64) * cell_state
    batch, units = cell_state.shape
    products = np.zeros(batch * units, np.int64)
    rows = cell_state.reshape(-1)[: batch * width].reshape(batch, width)
    products[: batch * width] = (weights[:width].astype(np.int64) * rows).reshape(-1)
    return products.reshape(batch, units)


def _next_cell_state(cell: QuantizedLstmCell, forget: Array, cell_state: Array, admitted: Array) -> Array:
    kept = shift_right(forget * cell_state, 15)
    state = saturate16(kept + shift_right(admitted, 15 + cell.cell_bits))
    if cell.cell_clip is not None:
        state = np.clip(state, -cell.cell_clip, cell.cell_clip)
    return state.astype(np.int16)


def _project(cell: QuantizedLstmCell, hidden: Array) -> Array:
    if cell.projection is None:
        return hidden
    centred = hidden.astype(np.float64) - cell.hidden_zero_point
    sums = _sums(centred, cell.projection.values) + cell.projection_bias
    outputs = _rescaled(sums, cell.projection.multiplier) + cell.output_zero_point
    results: Array = np.clip(outputs, *cell.output_limits)
    return results


def normalize_rows16(values: Array, norm: ScaledWeights, bias: Array, variance_guard: int) -> Array:
    """Normalises rows of 16-bit numbers of any scale.

    Args:
        values: integers of 16 bits, shape (batch, units).
        norm, bias, variance_guard: see `QuantizedGate`.

    Returns:
        16 bits in int64, with 3 integer bits.
    """
    values = values.astype(np.int64)
    count = values.shape[-1]
    mean = _truncated(values.sum(axis=-1) << NORM_BITS, count)
    squares = np.square(values).sum(axis=-1) * ((1 << VARIANCE_BITS) // count)
    variance = _truncated(squares - np.square(mean), 1 << VARIANCE_BITS)
    variance = np.where(variance < 1, variance_guard, variance)
    # There is one multiplier per row, so rows are transposed to columns.
    centred = ((values << NORM_BITS) - mean[:, np.newaxis]).T
    normalized = multiply(centred, *inverse_square_root(variance)).T
    weighted = normalized * norm.values.astype(np.int64) + bias
    rounded = shift_right(weighted, NORM_BITS)
    return saturate16(_rescaled(rounded, norm_multiplier(norm)))


def norm_multiplier(norm: ScaledWeights) -> Multiplier:
    """Returns the multiplier from the scale of a norm's weights to 3 integer bits."""
    mantissa, exponent = norm.multiplier
    return mantissa, min(exponent - round(math.log2(GATE_SCALE)), _MAX_EXPONENT)


def _truncated(dividends: Array, divisor: int) -> Array:
    """Divides with rounding towards 0, like C."""
    return np.where(dividends < 0, -(-dividends // divisor), dividends // divisor)


class Quantized16BitLstmCell(Struct, frozen=True, kw_only=True):
    """A cell with inputs and outputs of scale 1/128 and zero point 128.

    Attributes:
        weights: without zero point, shape (4 × units, elements + units): the rows of input, cell,
            forget and output gate; the columns of the input come first.
        bias: int32, shape (4 × units,).
        multiplier: from the scale of the products to 2^-12.
        rounding: the rounding of the sums.
    """

    weights: Array
    bias: Array
    multiplier: float
    rounding: Rounding = Rounding.TWICE


def run_quantized_16bit_lstm(
    cell: Quantized16BitLstmCell, values: Array, output_state: Array, cell_state: Array
) -> tuple[Array, Array]:
    """Computes one step.

    Args:
        cell: the cell.
        values, output_state: uint8, shapes (batch, elements) and (batch, units).
        cell_state: int16 with 4 integer bits, shape (batch, units).

    Returns:
        The next cell state and the output.
    """
    centred = np.concatenate((values, output_state), axis=1).astype(np.float64) - 128
    sums = np.empty((len(centred), len(cell.weights)), np.int16)
    rescale = Requantization(
        multipliers=np.array([cell.multiplier]),
        bias=cell.bias,
        zero_point=0,
        low=_INT16.min,
        high=_INT16.max,
        dtype=sums.dtype,
        rounding=cell.rounding,
    )
    rescale(_sums(centred, cell.weights), sums)
    from_input, from_cell, from_forget, from_output = np.split(sums, 4, axis=1)
    admitted = product16(sigmoid16(from_input), tanh16(from_cell, 3))
    kept = product16(sigmoid16(from_forget), cell_state)
    state = saturate16(shift_right(admitted, 4) + kept)
    # The last function uses 3 integer bits of the state, because it is flat beyond.
    output = product16(sigmoid16(from_output), tanh16(saturate16(state << 1), 3))
    results = np.clip(shift_right(output, 8), -128, 127) + 128
    return state.astype(np.int16), results.astype(np.uint8)

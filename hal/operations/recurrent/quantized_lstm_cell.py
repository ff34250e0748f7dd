"""LSTM cells of integers, as functions of arrays.

They compute what `neurald.hal.operations.recurrent.lstm` describes, with 16-bit fixed-point numbers inside: the sums of the gates have 3
integer bits, what the curves give has none, and the integer bits of the cell state are the model's choice.
"""

import math
from dataclasses import dataclass

import numpy as np

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

#: The scale of the sums that the curves are applied to: 16 bits, 3 of them integer bits.
GATE_SCALE = 2.0**-12
#: The scale of what the curves give.
UNIT_SCALE = 2.0**-15

_INT16, _INT32 = np.iinfo(np.int16), np.iinfo(np.int32)
#: Fraction bits that layer normalisation adds to normalised numbers.
NORM_BITS = 10
#: A variance is computed with so many fraction bits.
VARIANCE_BITS = 20
#: The largest shift to the left that a multiplier may ask for.
_LARGEST_EXPONENT = 30

Multiplier = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledWeights:
    """Stored weights without a zero point, and the multiplier that takes sums of their products to where they are added."""

    values: Array
    multiplier: Multiplier


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedGate:
    """The parameters of one gate.

    Attributes:
        inputs, recurrent: int8, shapes (units, elements) and (units, outputs).
        bias: int32, shape (units,); at the scale of the products of `inputs`, or with layer normalisation at 2^-10 of
            the scale of `norm`.
        peephole: int16, shape (units,).
        peephole_width: the length of the rows that the peephole takes the cell states of a batch to be, at most the units;
            what is left over at the end is not looked at. None for the units.
        norm: int16, shape (units,), with its own scale as multiplier.
        variance_guard: what a variance below 1 counts as.
    """

    inputs: ScaledWeights
    recurrent: ScaledWeights
    bias: Array
    peephole: ScaledWeights | None = None
    peephole_width: int | None = None
    norm: ScaledWeights | None = None
    variance_guard: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLstmCell:
    """A cell with 8-bit inputs and outputs.

    Attributes:
        input: None couples input and forget gate.
        input_zero_point, output_zero_point, hidden_zero_point: of the inputs, of the outputs, and of what goes into the
            projection (or, without one, of the outputs again).
        hidden_multiplier: from 2^-30 to the scale of what goes into the projection.
        cell_bits: the integer bits of the cell state, 0 to 6.
        cell_clip: the largest magnitude of a stored cell state, if there is one.
        projection: int8, shape (outputs, units), to the scale of the outputs.
        projection_bias: int32, shape (outputs,), or 0.
        output_limits: the smallest and largest stored output of a projection.
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
        The outputs, int8 of shape (time, batch, outputs), and the last output and cell states.
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
    """Products of rows with weights, as int64; floats of 64 bits hold them exactly, and multiply faster than integers."""
    return (centred @ weights.T.astype(np.float64)).astype(np.int64)


def _rescaled(sums: Array, multiplier: Multiplier) -> Array:
    return multiply(np.clip(sums, _INT32.min, _INT32.max), *multiplier)


def _gate_sum(gate: QuantizedGate, inputs: Array, previous: Array, cell_state: Array) -> Array:
    """What the curve of a gate is applied to: 16 bits in int64, with 3 integer bits.

    Every further term saturates. Inputs and previous outputs are float64 less their zero points.
    """
    products = _sums(inputs, gate.inputs.values)
    if gate.norm is None:
        products += gate.bias
    total = saturate16(_rescaled(products, gate.inputs.multiplier))
    products = _sums(previous, gate.recurrent.values)
    total = saturate16(total + _rescaled(products, gate.recurrent.multiplier))
    if gate.peephole is not None:
        seen = _seen(gate.peephole.values, gate.peephole_width, cell_state)
        total = saturate16(total + multiply(seen, *gate.peephole.multiplier))
    if gate.norm is not None:
        total = normalize_rows16(total, gate.norm, gate.bias, gate.variance_guard)
    return total


def _seen(weights: Array, width: int | None, cell_state: Array) -> Array:
    """The products of a peephole's weights with the cell states; see `QuantizedGate.peephole_width`."""
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
    stored: Array = np.clip(outputs, *cell.output_limits)
    return stored


def normalize_rows16(values: Array, norm: ScaledWeights, bias: Array, variance_guard: int) -> Array:
    """Layer normalisation of rows of 16-bit numbers, of any scale.

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
    # One multiplier a row: rows become columns for that.
    centred = ((values << NORM_BITS) - mean[:, np.newaxis]).T
    normalized = multiply(centred, *inverse_square_root(variance)).T
    weighted = normalized * norm.values.astype(np.int64) + bias
    rounded = shift_right(weighted, NORM_BITS)
    return saturate16(_rescaled(rounded, norm_multiplier(norm)))


def norm_multiplier(norm: ScaledWeights) -> Multiplier:
    """From numbers at the scale of a norm's weights to those with 3 integer bits."""
    mantissa, exponent = norm.multiplier
    return mantissa, min(exponent - round(math.log2(GATE_SCALE)), _LARGEST_EXPONENT)


def _truncated(dividends: Array, divisor: int) -> Array:
    """Quotients rounded towards 0, as C's."""
    return np.where(dividends < 0, -(-dividends // divisor), dividends // divisor)


def run_quantized_16bit_lstm(
    weights: Array,
    bias: Array,
    multiplier: float,
    values: Array,
    output_state: Array,
    cell_state: Array,
    rounding: Rounding = Rounding.TWICE,
) -> tuple[Array, Array]:
    """One step of a cell whose inputs and outputs have the scale 1/128 and the zero point 128.

    Args:
        weights: less their zero point, shape (4 × units, elements + units): the rows of input, cell, forget and output
            gate; the columns of the input come first.
        bias: int32, shape (4 × units,).
        multiplier: from the scale of the products to 2^-12.
        values, output_state: uint8, shapes (batch, elements) and (batch, units).
        cell_state: int16 with 4 integer bits, shape (batch, units).
        rounding: of the sums.

    Returns:
        The next cell state and the output.
    """
    centred = np.concatenate((values, output_state), axis=1).astype(np.float64) - 128
    sums = np.empty((len(centred), len(weights)), np.int16)
    rescale = Requantization(
        multipliers=np.array([multiplier]),
        bias=bias,
        zero_point=0,
        low=_INT16.min,
        high=_INT16.max,
        dtype=sums.dtype,
        rounding=rounding,
    )
    rescale(_sums(centred, weights), sums)
    from_input, from_cell, from_forget, from_output = np.split(sums, 4, axis=1)
    admitted = product16(sigmoid16(from_input), tanh16(from_cell, 3))
    kept = product16(sigmoid16(from_forget), cell_state)
    state = saturate16(shift_right(admitted, 4) + kept)
    # The last curve sees the state with 3 integer bits, because it is flat beyond them.
    output = product16(sigmoid16(from_output), tanh16(saturate16(state << 1), 3))
    stored = np.clip(shift_right(output, 8), -128, 127) + 128
    return state.astype(np.int16), stored.astype(np.uint8)

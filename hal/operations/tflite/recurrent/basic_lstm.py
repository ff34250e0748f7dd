"""The basic 8-bit LSTM cell with a 16-bit cell state, for one step.

It is Android's QUANTIZED_16BIT_LSTM with all weights in one matrix, except that LiteRT rounds ties
of its sums upwards. Inputs and outputs have scale 1/128 and zero point 128, and the cell state has
4 integer bits, regardless of their scales; the bias has the scale of the products.
"""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.signature import Form, row, tensor
from neurald.hal.operations.recurrent.quantized_lstm_cell import (
    GATE_SCALE,
    LOG2_TOLERANCE,
    Quantized16BitLstmCell,
    run_quantized_16bit_lstm,
)
from neurald.hal.records import replace

#: 4 integer bits.
_CELL_SCALE = 2.0**-11
_GATES = 4

_ROW = row(
    FeatureLevel.LEVEL_1,
    U=OperandType.TENSOR_QUANT8_ASYMM,
    B=OperandType.TENSOR_INT32,
    C=OperandType.TENSOR_QUANT16_SYMM,
)

_FORM = Form(
    inputs=(
        tensor("input", "U", rank=2),
        tensor("output_state_in", "U", rank=2),
        tensor("weights", "U", rank=2),
        tensor("bias", "B", rank=1),
        tensor("cell_state_in", "C", rank=2),
    ),
    outputs=(tensor("output", "U", rank=2), tensor("cell_state_out", "C", rank=2)),
)


def with_basic_cell(definition: Definition) -> Definition:
    """Extends the floating-point cell with quantised weights by the arguments of the basic cell."""

    def shape(call: Call) -> tuple[Shape, ...]:
        return _shape(call) if is_basic(call) else definition.shape(call)

    def reference(call: Call) -> tuple[Array, ...]:
        return _reference(call) if is_basic(call) else definition.reference(call)

    return replace(
        definition,
        forms=(*definition.forms, _FORM),
        rows=(*definition.rows, _ROW),
        checks=(*(_if_full_cell(check) for check in definition.checks), _scales),
        shape=shape,
        reference=reference,
    )


def is_basic(call: Call) -> bool:
    """Returns True if the cell is the basic one."""
    return "weights" in call.binding.inputs


def _if_full_cell(check: Check) -> Check:
    def checked(call: Call) -> None:
        if not is_basic(call):
            check(call)

    return checked


def _scales(call: Call) -> None:
    if not is_basic(call):
        return
    scale = call.operand("cell_state_out").scale
    if abs(np.log2(scale / _CELL_SCALE)) >= LOG2_TOLERANCE:
        raise BadData(f"{call.name('cell_state_out')} has scale {scale:g}; {_CELL_SCALE:g} is expected")
    if not call.operand("bias").scale > 0:
        raise BadData(f"{call.name('bias')} has no scale; that of the products is expected")


def _shape(call: Call) -> tuple[Shape, ...]:
    """Infers shapes; weights have a row per unit and gate, a column per input and old output."""
    (batch, elements), state = call.shape("input"), call.shape("output_state_in")
    units = state[1]
    expected = {
        "output_state_in": (batch, units),
        "cell_state_in": (batch, units),
        "weights": (_GATES * units, elements + units),
        "bias": (_GATES * units,),
    }
    for name, shape in expected.items():
        if call.shape(name) != shape:
            raise BadData(f"{call.name(name)} has shape {list(call.shape(name))}; {list(shape)} is expected")
    return state, state


def _reference(call: Call) -> tuple[Array, ...]:
    cell = Quantized16BitLstmCell(
        weights=call.array("weights").astype(np.int64) - call.operand("weights").zero_point,
        bias=call.array("bias").astype(np.int64),
        multiplier=float(np.float32(call.operand("bias").scale)) / GATE_SCALE,
        rounding=Rounding.TWICE_UP,
    )
    state, output = run_quantized_16bit_lstm(
        cell, call.array("input"), call.array("output_state_in"), call.array("cell_state_in")
    )
    return output, state

"""Lowers the basic 8-bit LSTM cell; see `neurald.hal.operations.tflite.recurrent.basic_lstm`."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.recurrent.quantized_lstm_cell import (
    Lowered16BitLstmCell,
    run_quantized_16bit_lstm,
)
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.quantized_lstm_cell import GATE_SCALE


def lower_basic(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers one step."""
    cell = Lowered16BitLstmCell(
        weights=builder.value(call, "weights"),
        weights_zero=call.operand("weights").zero_point,
        bias=builder.value(call, "bias"),
        multiplier=float(np.float32(call.operand("bias").scale)) / GATE_SCALE,
        rounding=Rounding.TWICE_UP,
    )
    state, output = run_quantized_16bit_lstm(
        builder,
        cell,
        builder.value(call, "input"),
        builder.value(call, "output_state_in"),
        builder.value(call, "cell_state_in"),
    )
    return output, state

"""Lowers QUANTIZED_LSTM (with constant weights) and QUANTIZED_16BIT_LSTM."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.drivers.compiler.lowering.recurrent.quantized_lstm_cell import (
    Lowered16BitLstmCell,
    run_quantized_16bit_lstm,
    run_quantized_lstm,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.quantized_lstm import (
    BIASES_16BIT,
    ORDER_16BIT,
    WEIGHTS_16BIT,
    read_clipped_cell,
)
from neurald.hal.operations.recurrent.quantized_lstm_cell import GATE_SCALE


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    source = builder.value(call, "input")
    _, output, state = run_quantized_lstm(
        builder,
        read_clipped_cell(call),
        builder.reshape(source, (1, *source.shape)),
        builder.value(call, "output_state_in"),
        builder.value(call, "cell_state_in"),
    )
    return output, state, output


def _lower_16bit(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers QUANTIZED_16BIT_LSTM, with recurrent weights first, as in the reference."""
    rows = [
        concatenated(
            builder,
            [builder.value(call, f"{source}_to_{gate}_weights") for source in ("recurrent", "input")],
            1,
        )
        for gate in ORDER_16BIT
    ]
    biases = [builder.value(call, f"{gate}_gate_bias") for gate in ORDER_16BIT]
    cell = Lowered16BitLstmCell(
        weights=concatenated(builder, rows),
        weights_zero=call.operand(WEIGHTS_16BIT[0]).zero_point,
        bias=concatenated(builder, biases),
        multiplier=float(np.float32(call.operand(BIASES_16BIT[0]).scale)) / GATE_SCALE,
    )
    return run_quantized_16bit_lstm(
        builder,
        cell,
        builder.value(call, "input"),
        builder.value(call, "output_state_in"),
        builder.value(call, "cell_state_in"),
    )


LOWERINGS: Lowerings = {
    OperationType.QUANTIZED_LSTM: _lower,
    OperationType.QUANTIZED_16BIT_LSTM: _lower_16bit,
}

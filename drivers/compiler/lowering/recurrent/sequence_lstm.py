"""Lowers UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.recurrent.bidirectional import bidirectional_outputs, sequences
from neurald.drivers.compiler.lowering.recurrent.lstm import LstmCellBuilder
from neurald.drivers.compiler.lowering.recurrent.recurrent import time_major, to_output, to_output_sequence
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def lower_sequence(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers a float cell over a sequence; its weights may be quantised to 8 bits."""
    is_time_major = bool(call.scalar("time_major"))
    sequence = time_major(builder, builder.value(call, "input"), is_time_major=is_time_major)
    outputs, *states = LstmCellBuilder(call, builder, sequence).run()
    results = [to_output_sequence(builder, call, "output", outputs, is_time_major=is_time_major)]
    names = list(call.binding.outputs)[1:]
    results += [to_output(builder, call, name, state) for name, state in zip(names, states, strict=False)]
    return tuple(results)


def lower_bidirectional(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers a float cell in each direction; their weights may be quantised to 8 bits."""
    forward, backward, auxiliary = sequences(call, builder, "bw_aux_input_to_forget_weights")
    output, *states = LstmCellBuilder(call, builder, forward, prefix="fw_", auxiliary=auxiliary).run()
    cell = LstmCellBuilder(call, builder, backward, prefix="bw_", auxiliary=auxiliary)
    other, *last = cell.run(backward=True)
    return bidirectional_outputs(call, builder, (output, other), (*states, *last))


LOWERINGS: Lowerings = {
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM: lower_sequence,
    OperationType.BIDIRECTIONAL_SEQUENCE_LSTM: lower_bidirectional,
}

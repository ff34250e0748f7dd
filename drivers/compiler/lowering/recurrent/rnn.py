"""Lowers RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.recurrent.bidirectional import bidirectional_outputs, sequences
from neurald.drivers.compiler.lowering.recurrent.recurrent import (
    activate_cell,
    all_rows,
    element,
    linear,
    stack_outputs,
    time_major,
    to_float32,
    to_output,
    to_output_sequence,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import (
    BASIC_ACTIVATIONS,
    cell_activation,
    is_given,
    time_steps,
)


def _run(
    call: Call,
    builder: Builder,
    sequence: Value,
    *,
    prefix: str = "",
    auxiliary: Value | None = None,
    backward: bool = False,
) -> tuple[Value, Value]:
    """Runs a cell as `neurald.hal.operations.recurrent.rnn.run_rnn` does.

    Returns the outputs (time, batch, units) and the last state, both FLOAT32.
    """
    time, batch, _ = sequence.shape
    activation = cell_activation(call, BASIC_ACTIVATIONS)
    bias = builder.value(call, f"{prefix}bias")
    products = [linear(call, builder, [f"{prefix}weights"], all_rows(builder, sequence))]
    if auxiliary is not None and is_given(call, f"{prefix}aux_weights"):
        products.append(linear(call, builder, [f"{prefix}aux_weights"], all_rows(builder, auxiliary)))
    state = to_float32(builder, builder.value(call, f"{prefix}hidden_state_in"))
    outputs = [state] * time
    for step in time_steps(time, backward=backward):
        recurrent = linear(call, builder, [f"{prefix}recurrent_weights"], state)

        def body(
            row: Expression, unit: Expression, step: int = step, recurrent: Value = recurrent
        ) -> Expression:
            total = load(recurrent, (row, unit)) + element(bias, unit)
            for product in products:
                total = total + load(product, (row + step * batch, unit))
            return activate_cell(total, activation)

        state = outputs[step] = builder.compute(state.shape, body)
    return stack_outputs(builder, outputs, state), state


def lower_step(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers one step of a cell; its weights may be quantised to 8 bits."""
    source = to_float32(builder, builder.value(call, "input"))
    _, state = _run(call, builder, builder.reshape(source, (1, *source.shape)))
    result = to_output(builder, call, "output", state)
    return result, result


def lower_sequence(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers a cell over a sequence; its weights may be quantised to 8 bits."""
    is_time_major = bool(call.scalar("time_major"))
    sequence = time_major(builder, builder.value(call, "input"), is_time_major=is_time_major)
    outputs, state = _run(call, builder, sequence)
    results = [to_output_sequence(builder, call, "output", outputs, is_time_major=is_time_major)]
    if "hidden_state_out" in call.binding.outputs:
        results.append(to_output(builder, call, "hidden_state_out", state))
    return tuple(results)


def lower_bidirectional(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers a cell in each direction; their weights may be quantised to 8 bits."""
    forward, backward, auxiliary = sequences(call, builder, "fw_aux_weights")
    outputs, state = _run(call, builder, forward, prefix="fw_", auxiliary=auxiliary)
    others, other = _run(call, builder, backward, prefix="bw_", auxiliary=auxiliary, backward=True)
    return bidirectional_outputs(call, builder, (outputs, others), (state, other))


LOWERINGS: Lowerings = {
    OperationType.RNN: lower_step,
    OperationType.UNIDIRECTIONAL_SEQUENCE_RNN: lower_sequence,
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN: lower_bidirectional,
}

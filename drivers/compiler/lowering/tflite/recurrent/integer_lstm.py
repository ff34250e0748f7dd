"""Lowers integer LSTM cells with constant weights.

See `neurald.hal.operations.tflite.recurrent.integer_lstm`.
"""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.recurrent.quantized_lstm_cell import run_quantized_lstm
from neurald.drivers.compiler.lowering.recurrent.recurrent import expect_steps
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.recurrent.integer_lstm import read_clipped_cell


def lower_integers(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers one step (input of rank 2) or a sequence."""
    source = builder.value(call, "input")
    is_step = len(source.shape) == 2
    is_time_major = is_step or bool(call.scalar("time_major"))
    sequence = builder.reshape(source, (1, *source.shape)) if is_step else source
    if not is_time_major:
        sequence = _swapped(builder, sequence)
    expect_steps(sequence.shape[0])
    outputs, output, state = run_quantized_lstm(
        builder,
        read_clipped_cell(call),
        sequence,
        builder.value(call, "output_state_in"),
        builder.value(call, "cell_state_in"),
    )
    if is_step:
        return output, output, state
    return outputs if is_time_major else _swapped(builder, outputs), output, state


def _swapped(builder: Builder, value: Value) -> Value:
    first, second, size = value.shape
    return builder.compute((second, first, size), lambda a, b, c: load(value, (b, a, c)))

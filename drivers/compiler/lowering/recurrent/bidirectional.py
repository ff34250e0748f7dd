"""Helpers of operations with a forward and a backward cell.

See `neurald.hal.operations.recurrent.bidirectional`.
"""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.drivers.compiler.lowering.recurrent.recurrent import time_major, to_output, to_output_sequence
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.bidirectional import has_states, is_merged
from neurald.hal.operations.recurrent.recurrent import is_given


def sequences(call: Call, builder: Builder, auxiliary_weights: str) -> tuple[Value, Value, Value | None]:
    """Returns the forward, backward and auxiliary input sequences: FLOAT32, time-major."""
    is_time_major = bool(call.scalar("time_major"))
    forward = time_major(builder, builder.value(call, "input"), is_time_major=is_time_major)
    if not is_given(call, "aux_input"):
        return forward, forward, None
    auxiliary = time_major(builder, builder.value(call, "aux_input"), is_time_major=is_time_major)
    if is_given(call, auxiliary_weights):
        return forward, forward, auxiliary
    return forward, auxiliary, None


def bidirectional_outputs(
    call: Call, builder: Builder, outputs: tuple[Value, Value], states: Sequence[Value]
) -> tuple[Value, ...]:
    """Returns all outputs, from time-major FLOAT32 sequences and the last states of both cells."""
    names = list(call.binding.outputs)
    both = (concatenated(builder, outputs, 2),) if is_merged(call) else outputs
    is_time_major = bool(call.scalar("time_major"))
    results = [
        to_output_sequence(builder, call, name, output, is_time_major=is_time_major)
        for name, output in zip(names, both, strict=False)
    ]
    if has_states(call):
        results += [
            to_output(builder, call, name, state)
            for name, state in zip(names[len(both) :], states, strict=True)
        ]
    return tuple(results)

"""Binds basic cells of floats, whose weights may have 8 bits."""

from collections.abc import Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding.recurrent.activation import ACTIVATION_KERNELS
from neurald.drivers.cpu.first_tier.binding.recurrent.cell_products import CellProducts
from neurald.drivers.cpu.first_tier.binding.recurrent.sequence import (
    CellSequence,
    in_both_directions,
    next_state,
    one_step,
    over_sequence,
)
from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    Bind,
    BindingScope,
    bits,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundTemporary
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import (
    BASIC_ACTIVATIONS,
    cell_activation,
)


def bind_rnn_step(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds RNN, which is one step."""
    return _bind_rnn(scope, call, one_step(call, call.shape("weights")[0]))


def _bind_rnn(scope: BindingScope, call: Call, cell: CellSequence) -> list[BoundCall]:
    """Binds a basic cell."""
    prefix = cell.prefix
    kernel, low, high = ACTIVATION_KERNELS[cell_activation(call, BASIC_ACTIVATIONS)]
    parts = CellProducts.of(
        scope,
        call,
        cell,
        weights=[f"{prefix}weights"],
        recurrent=[f"{prefix}recurrent_weights"],
        biases=[f"{prefix}bias"],
        states=(f"{prefix}hidden_state_in",),
    )
    calls, of_inputs = parts.of_inputs(scope, call)
    state: int | BoundTemporary = call.index(f"{prefix}hidden_state_in")
    for number in cell.numbers():
        more, sums = parts.of_state(scope, call, state)
        is_last = number == cell.numbers()[-1]
        state = next_state(call, f"{prefix}hidden_state_out", 4 * cell.batch * parts.units, is_last=is_last)
        step = BoundCall(
            function=f"first_rnn_step_{kernel}",
            arguments=(state, cell.output, of_inputs, sums),
            words=(parts.units, *cell.places(number, parts.width), bits(low), bits(high)),
            work_items=cell.batch,
            cost_ns=cell.batch * parts.width * 2 / ELEMENTS_PER_NS,
        )
        calls += [*more, step]
    return calls


_bind_rnn_sequence: Final = over_sequence("recurrent_weights", _bind_rnn)


_bind_both_rnn: Final = in_both_directions("recurrent_weights", _bind_rnn, "aux_weights")

BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.UNIDIRECTIONAL_SEQUENCE_RNN: _bind_rnn_sequence,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN: _bind_rnn_sequence,
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN: _bind_both_rnn,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN: _bind_both_rnn,
    OperationType.RNN: bind_rnn_step,
    OperationType.TFLITE_RNN: bind_rnn_step,
}

"""Binds LSTM of floats, whose weights may have 8 bits."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution.factors import source
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    SumsOfProducts,
    bind_sums,
)
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import StridedMove, moving_call
from neurald.drivers.cpu.first_tier.binding.recurrent.cell_products import (
    CellProducts,
    gate_epilogue,
    is_asymmetric,
    packed_gates,
    product_kind,
)
from neurald.drivers.cpu.first_tier.binding.recurrent.parameters import is_present, unit_rows
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
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundTemporary, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.lstm import GATES, LSTM_ACTIVATIONS, is_coupled
from neurald.hal.operations.recurrent.recurrent import (
    CellActivation,
    cell_activation,
)

#: The gates that see the cell state.
_SEEING: Final = ("input", "forget", "output")


#: Projects outputs to the next state, and to the outputs of a step.
_Project = Callable[["int | BoundTemporary", "int | BoundTemporary", int], list[BoundCall]]


def bind_lstm_step(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds LSTM, which is one step.

    The scratch buffer is an unused output that is filled with zeros.
    """
    units, outputs = call.shape("recurrent_to_output_weights")
    calls = _bind_lstm(scope, call, one_step(call, outputs))
    batch, width = call.shape("input")[0], (len(GATES) - is_coupled(call)) * units
    zeros = scope.zeros(np.uint32, width)
    return [
        *calls,
        moving_call(
            StridedMove(
                output=call.index("scratch_buffer"),
                given=zeros,
                itemsize=4,
                shape=(batch, width),
                output_strides=(width, 1),
                strides=(0, 1),
            )
        ),
    ]


def _bind_lstm(scope: BindingScope, call: Call, cell: CellSequence) -> list[BoundCall]:
    """Binds an LSTM cell."""
    prefix = cell.prefix
    if cell_activation(call, LSTM_ACTIVATIONS) is not CellActivation.TANH:
        raise NotBound("the activation has no kernel")
    is_normalized = is_present(call, f"{prefix}{_norm('output')}")
    gates: list[str | None] = [*GATES]
    if is_coupled(call, prefix):
        gates[0] = None
    parts = CellProducts.of(
        scope,
        call,
        cell,
        weights=[gate and f"{prefix}input_to_{gate}_weights" for gate in gates],
        recurrent=[gate and f"{prefix}recurrent_to_{gate}_weights" for gate in gates],
        # They are added to normalised sums.
        biases=[None if is_normalized else gate and f"{prefix}{_bias(gate)}" for gate in gates],
        states=(f"{prefix}output_state_in", f"{prefix}cell_state_in"),
    )
    units = parts.units
    constants = [unit_rows(scope, call, units, [f"{prefix}cell_to_{gate}_weights" for gate in _SEEING])]
    if is_normalized:
        norms = [gate and f"{prefix}{_norm(gate)}" for gate in gates]
        added = [gate and f"{prefix}{_bias(gate)}" for gate in gates]
        constants += [unit_rows(scope, call, units, norms), unit_rows(scope, call, units, added)]
    words = _words(call, prefix)
    project = (
        _projection(scope, call, cell, units) if is_present(call, f"{prefix}projection_weights") else None
    )
    calls, of_inputs = parts.of_inputs(scope, call)
    state: int | BoundTemporary = call.index(f"{prefix}output_state_in")
    before: int | BoundTemporary = call.index(f"{prefix}cell_state_in")
    for number in cell.numbers():
        more, sums = parts.of_state(scope, call, state)
        is_last = number == cell.numbers()[-1]
        state, after = (
            next_state(call, f"{prefix}{name}_state_out", 4 * cell.batch * width, is_last=is_last)
            for name, width in (("output", parts.outputs), ("cell", units))
        )
        places = cell.places(number, parts.width)
        arguments: tuple[int | BoundTemporary, ...] = (state, after, cell.output)
        if project is not None:
            hidden, unused = (BoundTemporary(size_bytes=4 * cell.batch * units) for _ in range(2))
            places, arguments = (*places[:2], 0, units), (hidden, after, unused)
        step = BoundCall(
            function=f"first_{'normalized_' if is_normalized else ''}lstm_step",
            arguments=(*arguments, of_inputs, sums, before, *constants),
            words=(units, *places, *words),
            work_items=cell.batch,
            cost_ns=cell.batch * parts.width * 4 / ELEMENTS_PER_NS,
        )
        calls += [*more, step]
        if project is not None:
            calls += project(arguments[0], state, number)
        before = after
    return calls


def _projection(scope: BindingScope, call: Call, cell: CellSequence, units: int) -> _Project:
    """Returns what binds the projection of a step.

    Args:
        scope: the scope of the operation.
        call: the operation.
        cell: what the cell runs over.
        units: number of units of the cell.
    """
    prefix, batch = cell.prefix, cell.batch
    weights, bias = [f"{prefix}projection_weights"], f"{prefix}projection_bias"
    outputs, kind = call.shape(weights[0])[0], product_kind(call, weights, units)
    biases = [bias if is_present(call, bias) else None]
    packed = packed_gates(scope, call, kind, weights, batch)
    clip = float(call.scalar("projection_clip")) or math.inf
    epilogue = gate_epilogue(scope, call, kind, weights, biases, batch, (bits(-clip), bits(clip)))

    def project(hidden: int | BoundTemporary, state: int | BoundTemporary, number: int) -> list[BoundCall]:
        given = source(
            call,
            kind,
            units,
            # It has as many elements.
            name=f"{prefix}cell_state_in",
            row_length=units,
            asymmetric=is_asymmetric(call, kind),
            moved=hidden,
        )
        sums = SumsOfProducts.of_rows(
            scope,
            kind,
            rows=batch,
            channels=outputs,
            depth=units,
            given=given,
            weights=packed,
            epilogue=epilogue,
        )
        *_, begin, step = cell.places(number, 0)
        copy = moving_call(
            StridedMove(
                output=cell.output,
                given=state,
                itemsize=4,
                shape=(batch, outputs),
                output_strides=(step, 1),
                strides=(outputs, 1),
                output_start=begin,
            )
        )
        return [*bind_sums(scope, sums, state), copy]

    return project


def _bias(gate: str) -> str:
    return f"{gate}_gate_bias"


def _norm(gate: str) -> str:
    return f"{gate}_layer_norm_weights"


def _words(call: Call, prefix: str) -> tuple[int, ...]:
    clip = float(call.scalar("cell_clip")) or math.inf
    own = 0.0 if is_coupled(call, prefix) else 1.0
    return bits(own), bits(1.0 - own), bits(-clip), bits(clip)


_bind_lstm_sequence: Final = over_sequence("recurrent_to_output_weights", _bind_lstm)


_bind_both_lstm: Final = in_both_directions(
    "recurrent_to_output_weights", _bind_lstm, "aux_input_to_output_weights"
)

BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM: _bind_lstm_sequence,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM: _bind_lstm_sequence,
    OperationType.BIDIRECTIONAL_SEQUENCE_LSTM: _bind_both_lstm,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM: _bind_both_lstm,
    OperationType.LSTM: bind_lstm_step,
    OperationType.TFLITE_LSTM: bind_lstm_step,
}

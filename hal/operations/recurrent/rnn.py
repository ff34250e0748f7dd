"""Basic recurrent cells: RNN, UNIDIRECTIONAL_SEQUENCE_RNN, BIDIRECTIONAL_SEQUENCE_RNN.

A cell's output is also its next state: activation(input × weights + state × recurrent weights +
bias).
"""

import numpy as np
from msgspec import Struct

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, Parameter, scalar, tensor
from neurald.hal.operations.recurrent.bidirectional import (
    AUXILIARY,
    auxiliary_size,
    backward_size,
    bidirectional_forms,
    check_merge_outputs,
    expect_linking,
    output_shapes,
    sequences,
    store_outputs,
)
from neurald.hal.operations.recurrent.recurrent import (
    BASIC_ACTIVATIONS,
    CellActivation,
    LinearMap,
    cast_results,
    cell_activation,
    expect_elements,
    expect_shapes,
    is_given,
    known_cell_activation,
    linear_map,
    linear_rows,
    swap_batch,
    time_steps,
)

_AUXILIARY_WEIGHTS = ("fw_aux_weights", "bw_aux_weights")


class RnnCell(Struct, frozen=True, kw_only=True):
    """A basic cell.

    Attributes:
        inputs, recurrent, auxiliary: linear maps of the input, the state and the auxiliary input.
        bias: shape (units,).
    """

    inputs: LinearMap
    recurrent: LinearMap
    bias: Array
    activation: CellActivation
    auxiliary: LinearMap | None = None


def run_rnn(
    cell: RnnCell, sequence: Array, state: Array, *, auxiliary: Array | None = None, backward: bool = False
) -> tuple[Array, Array]:
    """Runs a cell over a sequence.

    Args:
        cell: the cell.
        sequence: float32, shape (time, batch, elements).
        state: float32, shape (batch, units): the initial state.
        auxiliary: shape (time, batch, elements), for a cell with an `auxiliary` map.
        backward: start with the last step.

    Returns:
        The outputs, shape (time, batch, units), and the final state.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = linear_rows(cell.inputs, sequence) + cell.bias
        if cell.auxiliary is not None and auxiliary is not None:
            outputs += linear_rows(cell.auxiliary, auxiliary)
        for step in time_steps(len(outputs), backward=backward):
            state = outputs[step] = cell.activation(outputs[step] + cell.recurrent(state))
    return outputs, state


def _cell_parameters(prefix: str = "") -> tuple[Parameter, ...]:
    return (
        tensor(f"{prefix}weights", rank=2),
        tensor(f"{prefix}recurrent_weights", rank=2),
        tensor(f"{prefix}bias", rank=1),
        tensor(f"{prefix}hidden_state_in", rank=2),
    )


def _read_cell(call: Call, prefix: str = "") -> RnnCell:
    auxiliary = f"{prefix}aux_weights"
    return RnnCell(
        inputs=linear_map(call, f"{prefix}weights"),
        recurrent=linear_map(call, f"{prefix}recurrent_weights"),
        bias=real(call, f"{prefix}bias"),
        activation=cell_activation(call, BASIC_ACTIVATIONS),
        auxiliary=linear_map(call, auxiliary) if is_given(call, auxiliary) else None,
    )


def _expect_cell(call: Call, batch: int, size: int | None, prefix: str = "") -> int:
    """Checks all shapes of a cell; returns its number of units."""
    units, _ = call.shape(f"{prefix}weights")
    expect_elements(call, f"{prefix}weights")
    expect_shapes(
        call,
        {
            f"{prefix}weights": (units, size),
            f"{prefix}recurrent_weights": (units, units),
            f"{prefix}bias": (units,),
            f"{prefix}hidden_state_in": (batch, units),
        },
    )
    return units


def _step_shape(call: Call) -> tuple[Shape, ...]:
    batch, size = call.shape("input")
    shape = (batch, _expect_cell(call, batch, size))
    return shape, shape


def _step_reference(call: Call) -> tuple[Array, ...]:
    sequence = real(call, "input")[np.newaxis]
    _, state = run_rnn(_read_cell(call), sequence, real(call, "hidden_state_in"))
    return cast_results(call, state, state)


def _is_time_major(call: Call) -> bool:
    return bool(call.scalar_in("time_major", 0, 1))


def _known_time_major(call: Call) -> None:
    """Checks that the layout flag, an integer, is 0 or 1."""
    _is_time_major(call)


def _sequence_shape(call: Call) -> tuple[Shape, ...]:
    first, second, size = call.shape("input")
    batch = second if _is_time_major(call) else first
    units = _expect_cell(call, batch, size)
    return ((first, second, units), (batch, units))[: len(call.binding.outputs)]


def _sequence_reference(call: Call) -> tuple[Array, ...]:
    time_major = _is_time_major(call)
    sequence = swap_batch(real(call, "input"), time_major=time_major)
    outputs, state = run_rnn(_read_cell(call), sequence, real(call, "hidden_state_in"))
    results = cast_results(call, swap_batch(outputs, time_major=time_major), state)
    return results[: len(call.binding.outputs)]


def _consistent_linking(call: Call) -> None:
    expect_linking(call, _AUXILIARY_WEIGHTS)


def _bidirectional_shape(call: Call) -> tuple[Shape, ...]:
    batch = call.shape("input")[1 if call.scalar("time_major") else 0]
    sizes = (call.shape("input")[2], backward_size(call, _AUXILIARY_WEIGHTS[1]))
    units = [
        _expect_cell(call, batch, size, prefix) for size, prefix in zip(sizes, ("fw_", "bw_"), strict=True)
    ]
    width = auxiliary_size(call)
    expect_shapes(call, {name: (count, width) for name, count in zip(_AUXILIARY_WEIGHTS, units, strict=True)})
    return output_shapes(call, (units[0], units[1]), [(batch, count) for count in units])


def _bidirectional_reference(call: Call) -> tuple[Array, ...]:
    forward_input, backward_input, auxiliary = sequences(call, _AUXILIARY_WEIGHTS[0])
    forward, forward_state = run_rnn(
        _read_cell(call, "fw_"), forward_input, real(call, "fw_hidden_state_in"), auxiliary=auxiliary
    )
    backward, backward_state = run_rnn(
        _read_cell(call, "bw_"),
        backward_input,
        real(call, "bw_hidden_state_in"),
        auxiliary=auxiliary,
        backward=True,
    )
    return store_outputs(call, forward, backward, (forward_state, backward_state))


def _sequence_form(*states: str) -> Form:
    return Form(
        inputs=(
            tensor("input", rank=3),
            *_cell_parameters(),
            scalar("cell_activation"),
            scalar("time_major"),
        ),
        outputs=(tensor("output", rank=3), *(tensor(name, rank=2) for name in states)),
        level=FeatureLevel.LEVEL_4 if states else FeatureLevel.LEVEL_3,
    )


DEFINITIONS = (
    Definition(
        type=OperationType.RNN,
        forms=(
            Form(
                inputs=(tensor("input", rank=2), *_cell_parameters(), scalar("cell_activation")),
                outputs=(tensor("hidden_state_out", rank=2), tensor("output", rank=2)),
            ),
        ),
        rows=data_rows(),
        checks=(known_cell_activation(BASIC_ACTIVATIONS),),
        shape=_step_shape,
        reference=_step_reference,
    ),
    Definition(
        type=OperationType.UNIDIRECTIONAL_SEQUENCE_RNN,
        forms=(_sequence_form(), _sequence_form("hidden_state_out")),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(known_cell_activation(BASIC_ACTIVATIONS), _known_time_major),
        shape=_sequence_shape,
        reference=_sequence_reference,
    ),
    Definition(
        type=OperationType.BIDIRECTIONAL_SEQUENCE_RNN,
        forms=bidirectional_forms(
            (
                tensor("input", rank=3),
                *_cell_parameters("fw_"),
                *_cell_parameters("bw_"),
                AUXILIARY,
                *(tensor(name, rank=(1, 2), optional=True) for name in _AUXILIARY_WEIGHTS),
                scalar("cell_activation"),
                scalar("time_major", OperandType.BOOL),
                scalar("merge_outputs", OperandType.BOOL),
            ),
            ("fw_hidden_state_out", "bw_hidden_state_out"),
        ),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(known_cell_activation(BASIC_ACTIVATIONS), check_merge_outputs, _consistent_linking),
        shape=_bidirectional_shape,
        reference=_bidirectional_reference,
    ),
)

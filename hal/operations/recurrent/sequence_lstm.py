"""LSTM cells over sequences: UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM."""

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
from neurald.hal.operations.recurrent.lstm import (
    GATES,
    LSTM_ACTIVATIONS,
    SETTINGS,
    cell_parameters,
    consistent_cell,
    expect_cell,
    is_coupled,
    norm_parameters,
    read_cell,
    run_lstm,
    state_parameters,
    valid_clips,
)
from neurald.hal.operations.recurrent.recurrent import (
    cast_results,
    expect_omitted,
    expect_shapes,
    known_cell_activation,
    swap_batch,
)

_DIRECTIONS = ("fw_", "bw_")
#: Auxiliary weights that both cells have if either of them has any.
_AUXILIARY_GATES = ("forget", "cell", "output")


def _batch(call: Call) -> int:
    return call.shape("input")[1 if call.scalar("time_major") else 0]


def _shape(call: Call) -> tuple[Shape, ...]:
    first, second, size = call.shape("input")
    batch = _batch(call)
    units, outputs = expect_cell(call, batch, size)
    shapes = ((first, second, outputs), (batch, outputs), (batch, units))
    return shapes[: len(call.binding.outputs)]


def _reference(call: Call) -> tuple[Array, ...]:
    time_major = call.scalar("time_major")
    sequence = swap_batch(real(call, "input"), time_major=time_major)
    outputs, output_state, cell_state = run_lstm(
        read_cell(call), sequence, real(call, "output_state_in"), real(call, "cell_state_in")
    )
    results = cast_results(call, swap_batch(outputs, time_major=time_major), output_state, cell_state)
    return results[: len(call.binding.outputs)]


def _auxiliary(prefix: str, gate: str) -> str:
    return f"{prefix}aux_input_to_{gate}_weights"


def _consistent_linking(call: Call) -> None:
    """Checks that both or no cells have auxiliary weights, including uncoupled input gates."""
    names = []
    for prefix in _DIRECTIONS:
        names += [_auxiliary(prefix, gate) for gate in _AUXILIARY_GATES]
        if is_coupled(call, prefix):
            expect_omitted(call, _auxiliary(prefix, "input"), "where input and forget gate are coupled")
        else:
            names.append(_auxiliary(prefix, "input"))
    expect_linking(call, names)


def _bidirectional_shape(call: Call) -> tuple[Shape, ...]:
    batch = _batch(call)
    sizes = (call.shape("input")[2], backward_size(call, _auxiliary("bw_", "forget")))
    cells = [expect_cell(call, batch, size, prefix) for size, prefix in zip(sizes, _DIRECTIONS, strict=True)]
    width = auxiliary_size(call)
    expect_shapes(
        call,
        {
            _auxiliary(prefix, gate): (units, width)
            for prefix, (units, _) in zip(_DIRECTIONS, cells, strict=True)
            for gate in GATES
        },
    )
    states = [(batch, count) for units, outputs in cells for count in (outputs, units)]
    return output_shapes(call, (cells[0][1], cells[1][1]), states)


def _bidirectional_reference(call: Call) -> tuple[Array, ...]:
    forward, backward, auxiliary = sequences(call, _auxiliary("bw_", "forget"))
    outputs, states = [], []
    for prefix, sequence in zip(_DIRECTIONS, (forward, backward), strict=True):
        output, *last = run_lstm(
            read_cell(call, prefix),
            sequence,
            real(call, f"{prefix}output_state_in"),
            real(call, f"{prefix}cell_state_in"),
            auxiliary=auxiliary,
            backward=prefix == "bw_",
        )
        outputs.append(output)
        states += last
    return store_outputs(call, outputs[0], outputs[1], states)


def _auxiliary_parameters(prefix: str) -> tuple[Parameter, ...]:
    return tuple(tensor(_auxiliary(prefix, gate), rank=(1, 2), optional=True) for gate in GATES)


def _form(*states: str) -> Form:
    return Form(
        inputs=(
            tensor("input", rank=3),
            *cell_parameters(),
            *state_parameters(),
            *SETTINGS,
            scalar("time_major", OperandType.BOOL),
            *norm_parameters(),
        ),
        outputs=(tensor("output", rank=3), *(tensor(name, rank=2) for name in states)),
        level=FeatureLevel.LEVEL_4 if states else FeatureLevel.LEVEL_3,
    )


_BIDIRECTIONAL_INPUTS = (
    tensor("input", rank=3),
    *(parameter for prefix in _DIRECTIONS for parameter in cell_parameters(prefix)),
    *(parameter for prefix in _DIRECTIONS for parameter in state_parameters(prefix)),
    AUXILIARY,
    *(parameter for prefix in _DIRECTIONS for parameter in _auxiliary_parameters(prefix)),
    *SETTINGS,
    scalar("merge_outputs", OperandType.BOOL),
    scalar("time_major", OperandType.BOOL),
    *(parameter for prefix in _DIRECTIONS for parameter in norm_parameters(prefix)),
)

DEFINITIONS = (
    Definition(
        type=OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
        forms=(_form(), _form("output_state_out", "cell_state_out")),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(known_cell_activation(LSTM_ACTIVATIONS), valid_clips, *consistent_cell()),
        shape=_shape,
        reference=_reference,
    ),
    Definition(
        type=OperationType.BIDIRECTIONAL_SEQUENCE_LSTM,
        forms=bidirectional_forms(
            _BIDIRECTIONAL_INPUTS,
            [f"{prefix}{state}_state_out" for prefix in _DIRECTIONS for state in ("output", "cell")],
        ),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(
            known_cell_activation(LSTM_ACTIVATIONS),
            valid_clips,
            check_merge_outputs,
            *consistent_cell("fw_"),
            *consistent_cell("bw_"),
            _consistent_linking,
        ),
        shape=_bidirectional_shape,
        reference=_bidirectional_reference,
    ),
)

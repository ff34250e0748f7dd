"""LSTM, and the floating-point cell that all LSTM operations share.

With σ the logistic function and g the activation of the cell, a step computes

    input gate   i = σ(Wi x + Ri h + Pi ⊙ c + bi), or 1 - f if coupled to the forget gate (CIFG)
    forget gate  f = σ(Wf x + Rf h + Pf ⊙ c + bf)
    cell         c' = clip(f ⊙ c + i ⊙ g(Wc x + Rc h + bc))
    output gate  o = σ(Wo x + Ro h + Po ⊙ c' + bo)
    output       h' = o ⊙ g(c'), or clip(Wp (o ⊙ g(c')) + bp) with a projection

where the peephole weights P are optional, and an auxiliary input adds another product to each gate.
Layer normalisation replaces each sum s + b by norm weights ⊙ (s - mean) / deviation + b, with mean
and deviation of a row.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.elementwise.activation import sigmoid
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, Parameter, scalar, tensor
from neurald.hal.operations.recurrent.recurrent import (
    CellActivation,
    LinearMap,
    all_or_none,
    cast_results,
    cell_activation,
    expect_elements,
    expect_omitted,
    expect_shape,
    expect_shapes,
    is_given,
    known_cell_activation,
    linear_map,
    linear_rows,
    time_steps,
)

#: The activations that Android allows in an LSTM cell.
LSTM_ACTIVATIONS = tuple(kind for kind in CellActivation if kind is not CellActivation.RELU1)
#: Added to the variance of a row, so that a row of equal elements can be normalised.
NORM_EPSILON = 1e-8

GATES = ("input", "forget", "cell", "output")


class LstmGate(Struct, frozen=True, kw_only=True):
    """The parameters of one gate; arrays are float32 of shape (units,).

    Attributes:
        inputs, recurrent, auxiliary: linear maps of the input, the output state and the auxiliary
            input.
        peephole: weights of the cell state.
        norm: weights of layer normalisation.
    """

    inputs: LinearMap
    recurrent: LinearMap
    bias: Array
    auxiliary: LinearMap | None = None
    peephole: Array | None = None
    norm: Array | None = None


class LstmCell(Struct, frozen=True, kw_only=True):
    """A floating-point cell, see the module's docstring.

    Attributes:
        input: None if coupled to the forget gate.
        projection: the linear map of the projection, if any.
        projection_bias: shape (outputs,), or 0.
        cell_clip, projection_clip: limits for the magnitudes of cell state and projected output; 0
            for none.
    """

    input: LstmGate | None
    forget: LstmGate
    cell: LstmGate
    output: LstmGate
    projection: LinearMap | None = None
    projection_bias: Array = field(default_factory=lambda: np.zeros((), np.float32))
    activation: CellActivation = CellActivation.TANH
    cell_clip: float = 0.0
    projection_clip: float = 0.0


def run_lstm(
    cell: LstmCell,
    sequence: Array,
    output_state: Array,
    cell_state: Array,
    *,
    auxiliary: Array | None = None,
    backward: bool = False,
) -> tuple[Array, Array, Array]:
    """Runs a cell over a sequence.

    Args:
        cell: the cell.
        sequence: float32, shape (time, batch, elements).
        output_state, cell_state: float32, shapes (batch, outputs) and (batch, units): the initial
            states.
        auxiliary: shape (time, batch, elements), for a cell whose gates have an `auxiliary` map.
        backward: start with the last step.

    Returns:
        The outputs, shape (time, batch, outputs), and the final output and cell states.
    """
    outputs = np.empty((len(sequence), *output_state.shape), np.float32)
    gates = zip(GATES, (cell.input, cell.forget, cell.cell, cell.output), strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        # Products that do not depend on the state are computed for all steps at once.
        products = {name: _products(gate, sequence, auxiliary) for name, gate in gates if gate is not None}
        for step in time_steps(len(sequence), backward=backward):
            now = {name: product[step] for name, product in products.items()}
            output_state, cell_state = _step(cell, now, output_state, cell_state)
            outputs[step] = output_state
    return outputs, output_state, cell_state


def _products(gate: LstmGate, sequence: Array, auxiliary: Array | None) -> Array:
    products = linear_rows(gate.inputs, sequence)
    if gate.auxiliary is None or auxiliary is None:
        return products
    return products + linear_rows(gate.auxiliary, auxiliary)


def _step(
    cell: LstmCell, products: Mapping[str, Array], output_state: Array, cell_state: Array
) -> tuple[Array, Array]:
    """Computes the next output and cell states; `products` are those of the inputs, by gate."""
    forget = sigmoid(_gate_sum(cell.forget, products["forget"], output_state, cell_state))
    if cell.input is None:
        admit = 1 - forget
    else:
        admit = sigmoid(_gate_sum(cell.input, products["input"], output_state, cell_state))
    candidate = cell.activation(_gate_sum(cell.cell, products["cell"], output_state, cell_state))
    cell_state = _clip(forget * cell_state + admit * candidate, cell.cell_clip)
    emit = sigmoid(_gate_sum(cell.output, products["output"], output_state, cell_state))
    output = emit * cell.activation(cell_state)
    if cell.projection is not None:
        output = _clip(cell.projection(output) + cell.projection_bias, cell.projection_clip)
    return output, cell_state


def _gate_sum(gate: LstmGate, products: Array, output_state: Array, cell_state: Array) -> Array:
    """Computes the argument of a gate's activation."""
    total = products + gate.recurrent(output_state)
    if gate.peephole is not None:
        total = total + gate.peephole * cell_state
    if gate.norm is not None:
        total = gate.norm * normalize_rows(total)
    return total + gate.bias


def normalize_rows(values: Array) -> Array:
    """Subtracts the mean from every row, and divides it by its standard deviation."""
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normalized: Array = centred / np.sqrt(variance + np.float32(NORM_EPSILON))
    return normalized


def _clip(values: Array, limit: float) -> Array:
    return np.clip(values, -np.float32(limit), np.float32(limit)) if limit > 0 else values


def cell_parameters(
    prefix: str = "", *, weights: str = "T", vectors: str = "T", bias: str = "T"
) -> tuple[Parameter, ...]:
    """Returns weights, biases and projection of a cell, in the common order of all LSTM operations.

    Args:
        prefix: prefix of the names.
        weights, vectors, bias: the types of matrices, of peephole weights, and of biases.
    """
    return (
        *(_matrix(f"{prefix}input_to_{gate}_weights", weights, optional=gate == "input") for gate in GATES),
        *(
            _matrix(f"{prefix}recurrent_to_{gate}_weights", weights, optional=gate == "input")
            for gate in GATES
        ),
        *(
            tensor(f"{prefix}cell_to_{gate}_weights", vectors, rank=1, optional=True)
            for gate in GATES
            if gate != "cell"
        ),
        *(tensor(f"{prefix}{gate}_gate_bias", bias, rank=1, optional=gate == "input") for gate in GATES),
        _matrix(f"{prefix}projection_weights", weights, optional=True),
        tensor(f"{prefix}projection_bias", bias, rank=1, optional=True),
    )


def _matrix(name: str, types: str, *, optional: bool) -> Parameter:
    # Models declare optional operands that executions omit with any rank.
    return tensor(name, types, rank=(1, 2) if optional else 2, optional=optional)


def state_parameters(prefix: str = "", *, output: str = "T", cell: str = "T") -> tuple[Parameter, ...]:
    """Returns the parameters for the initial states."""
    return (
        tensor(f"{prefix}output_state_in", output, rank=2),
        tensor(f"{prefix}cell_state_in", cell, rank=2),
    )


def norm_parameters(prefix: str = "", *, types: str = "T") -> tuple[Parameter, ...]:
    """Returns the parameters for the weights of layer normalisation."""
    return tuple(tensor(f"{prefix}{gate}_layer_norm_weights", types, rank=1, optional=True) for gate in GATES)


#: Activation and clips, in the order of the floating-point operations.
SETTINGS = (scalar("cell_activation"), scalar("cell_clip", "S"), scalar("projection_clip", "S"))


def is_coupled(call: Call, prefix: str = "") -> bool:
    """Returns True if input and forget gate are coupled (CIFG).

    Raises:
        BadData: only some of the input gate's weights and bias are given.
        UnknownValue: see `is_given`.
    """
    names = [
        f"{prefix}{name}"
        for name in ("input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias")
    ]
    return not all_or_none(call, names, "the input gate")


def consistent_cell(prefix: str = "") -> tuple[Check, ...]:
    """Returns the checks that optional operands of a cell are given together."""

    def input_gate(call: Call) -> None:
        is_coupled(call, prefix)

    def peephole(call: Call) -> None:
        gates = [f"{prefix}cell_to_{gate}_weights" for gate in ("forget", "output", "input")]
        _all_or_no_gates(call, prefix, gates, "the peephole optimisation")

    def normalization(call: Call) -> None:
        gates = [f"{prefix}{gate}_layer_norm_weights" for gate in ("forget", "cell", "output", "input")]
        _all_or_no_gates(call, prefix, gates, "layer normalisation")

    def projection(call: Call) -> None:
        if not is_given(call, f"{prefix}projection_weights"):
            expect_omitted(call, f"{prefix}projection_bias", "without projection weights")

    return input_gate, peephole, normalization, projection


def _all_or_no_gates(call: Call, prefix: str, names: Sequence[str], purpose: str) -> None:
    """Checks that all or no gates have weights of a kind.

    A coupled input gate, last in `names`, has none.
    """
    if is_coupled(call, prefix):
        expect_omitted(call, names[-1], "where input and forget gate are coupled")
        names = names[:-1]
    all_or_none(call, names, purpose)


def valid_clips(call: Call) -> None:
    """Checks that no clip is negative."""
    for name in ("cell_clip", "projection_clip"):
        clip = call.scalar(name) if call.has(name) else 0.0
        if not clip >= 0:
            raise BadData(f"{call.name(name)} is {clip:g}; at least 0 is expected")


def expect_cell(call: Call, batch: int, size: int | None, prefix: str = "") -> tuple[int, int]:
    """Checks all shapes of a cell; returns its numbers of units and outputs.

    Args:
        call: the operation.
        batch: number of rows of the states.
        size: elements of an input row; None if unknown.
        prefix: prefix of the names.

    Raises:
        BadData: a shape is inconsistent.
        UnknownValue: a required shape is not known yet.
    """
    units, _ = call.shape(f"{prefix}input_to_output_weights")
    _, outputs = call.shape(f"{prefix}recurrent_to_output_weights")
    expect_elements(call, f"{prefix}input_to_output_weights")
    expect_elements(call, f"{prefix}recurrent_to_output_weights")
    shapes: dict[str, tuple[int | None, ...]] = {}
    for gate in GATES:
        shapes[f"input_to_{gate}_weights"] = (units, size)
        shapes[f"recurrent_to_{gate}_weights"] = (units, outputs)
        shapes[f"cell_to_{gate}_weights"] = (units,)
        shapes[f"{gate}_gate_bias"] = (units,)
        shapes[f"{gate}_layer_norm_weights"] = (units,)
    shapes["projection_weights"] = (outputs, units)
    shapes["projection_bias"] = (outputs,)
    shapes["output_state_in"] = (batch, outputs)
    shapes["cell_state_in"] = (batch, units)
    expect_shapes(call, {f"{prefix}{name}": shape for name, shape in shapes.items()})
    _expect_outputs(call, units, outputs, prefix)
    return units, outputs


def _expect_outputs(call: Call, units: int, outputs: int, prefix: str) -> None:
    """Checks that without a projection every unit is an output."""
    try:
        if outputs != units and not is_given(call, f"{prefix}projection_weights"):
            expect_shape(call, f"{prefix}recurrent_to_output_weights", (units, units))
    except UnknownValue:
        return


def read_cell(call: Call, prefix: str = "") -> LstmCell:
    """Reads the cell of a floating-point operation."""

    def given(name: str) -> Array | None:
        return real(call, f"{prefix}{name}") if is_given(call, f"{prefix}{name}") else None

    def linear(name: str) -> LinearMap | None:
        return linear_map(call, f"{prefix}{name}") if is_given(call, f"{prefix}{name}") else None

    def gate(kind: str) -> LstmGate:
        return LstmGate(
            inputs=linear_map(call, f"{prefix}input_to_{kind}_weights"),
            recurrent=linear_map(call, f"{prefix}recurrent_to_{kind}_weights"),
            bias=real(call, f"{prefix}{kind}_gate_bias"),
            auxiliary=linear(f"aux_input_to_{kind}_weights"),
            peephole=given(f"cell_to_{kind}_weights"),
            norm=given(f"{kind}_layer_norm_weights"),
        )

    bias = given("projection_bias")
    return LstmCell(
        input=None if is_coupled(call, prefix) else gate("input"),
        forget=gate("forget"),
        cell=gate("cell"),
        output=gate("output"),
        projection=linear("projection_weights"),
        projection_bias=np.zeros((), np.float32) if bias is None else bias,
        activation=cell_activation(call, LSTM_ACTIVATIONS),
        cell_clip=call.scalar("cell_clip"),
        projection_clip=call.scalar("projection_clip"),
    )


def _shape(call: Call) -> tuple[Shape, ...]:
    batch, size = call.shape("input")
    units, outputs = expect_cell(call, batch, size)
    gates = 3 if is_coupled(call) else 4
    return (batch, gates * units), (batch, outputs), (batch, units), (batch, outputs)


def _reference(call: Call) -> tuple[Array, ...]:
    """Runs one step. The scratch buffer is an unused output that is filled with zeros."""
    sequence = real(call, "input")[np.newaxis]
    _, output, cell_state = run_lstm(
        read_cell(call), sequence, real(call, "output_state_in"), real(call, "cell_state_in")
    )
    scratch = np.zeros(_shape(call)[0], np.float32)
    return cast_results(call, scratch, output, cell_state, output)


def _form(level: FeatureLevel, *more: Parameter) -> Form:
    return Form(
        inputs=(tensor("input", rank=2), *cell_parameters(), *state_parameters(), *SETTINGS, *more),
        outputs=tuple(
            tensor(name, rank=2)
            for name in ("scratch_buffer", "output_state_out", "cell_state_out", "output")
        ),
        level=level,
    )


DEFINITIONS = (
    Definition(
        type=OperationType.LSTM,
        forms=(_form(FeatureLevel.LEVEL_1), _form(FeatureLevel.LEVEL_3, *norm_parameters())),
        rows=data_rows(),
        checks=(known_cell_activation(LSTM_ACTIVATIONS), valid_clips, *consistent_cell()),
        shape=_shape,
        reference=_reference,
    ),
)

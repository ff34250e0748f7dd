import itertools
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
from support.operations.recurrent import (
    CELL_NAMES,
    NONE,
    NORM_NAMES,
    OPTIONAL_NAMES,
    RELU,
    RELU1,
    RELU6,
    SIGMOID,
    SIGN_BIT,
    TANH,
    Cell,
    assert_close,
    check,
    floats,
    givens,
    lstm_sequence,
    random_cell,
)
from support.operations.single_operation import (
    FLOAT_TYPES,
    Given,
    call_of,
    evaluate_all,
    given,
    level_of,
    omitted,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.recurrent.lstm import LstmCell, LstmGate, run_lstm
from neurald.hal.operations.recurrent.recurrent import CellActivation, dense

LSTM = OperationType.LSTM
FLOAT32, FLOAT16 = FLOAT_TYPES
SIZE, UNITS, OUTPUTS = 3, 5, 2


def results_wanted(operand_type: OperandType) -> list[Operand]:
    return [wanted(operand_type, rank=2) for _ in range(4)]


def arguments(
    cell: Mapping[str, Array | None],
    states: tuple[Array, Array],
    operand_type: OperandType,
    *,
    settings: tuple[int, float, float] = (TANH, 0.0, 0.0),
    norm: bool = True,
) -> list[Given]:
    """Returns all inputs except the first; `norm` selects the form with layer normalisation."""
    scalar_type = OperandType.FLOAT32 if operand_type is FLOAT32 else OperandType.FLOAT16
    return [
        *givens(cell, CELL_NAMES, operand_type),
        *(given(operand_type, state) for state in states),
        given(OperandType.INT32, settings[0]),
        *(given(scalar_type, clip) for clip in settings[1:]),
        *(givens(cell, NORM_NAMES, operand_type) if norm else ()),
    ]


def states_of(
    generator: np.random.Generator, operand_type: OperandType, batch: int, outputs: int
) -> tuple[Array, Array]:
    return floats(generator, operand_type, batch, outputs), floats(generator, operand_type, batch, UNITS)


@sweep("norm", [None, False, True])
@sweep("projection", [0, 1, 2])
@sweep("peephole", [False, True])
@sweep("coupled", [False, True])
@sweep("operand_type", FLOAT_TYPES)
def test_every_combination(
    operand_type: OperandType, coupled: bool, peephole: bool, projection: int, norm: bool | None
) -> None:
    generator = np.random.default_rng(1)
    outputs = OUTPUTS if projection else UNITS
    cell = random_cell(
        generator,
        operand_type,
        (SIZE, UNITS, outputs),
        coupled=coupled,
        peephole=peephole,
        projection=projection,
        norm=bool(norm),
    )
    values = floats(generator, operand_type, 2, SIZE)
    states = states_of(generator, operand_type, 2, outputs)
    scratch, output_state, cell_state, output = evaluate_all(
        LSTM,
        [given(operand_type, values), *arguments(cell, states, operand_type, norm=norm is not None)],
        *results_wanted(operand_type),
    )
    _, expected_output, expected_cell = lstm_sequence(cell, values[np.newaxis], *states)
    assert scratch.shape == (2, (3 if coupled else 4) * UNITS)
    assert_close(output, expected_output, operand_type)
    assert_close(cell_state, expected_cell, operand_type)
    np.testing.assert_array_equal(output_state, output)


@sweep("clips", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.25), (0.5, 0.25)])
@sweep("activation", [NONE, RELU, RELU6, TANH, SIGMOID])
@sweep("operand_type", FLOAT_TYPES)
def test_activations_and_clips(
    operand_type: OperandType, activation: int, clips: tuple[float, float]
) -> None:
    generator = np.random.default_rng(2)
    cell = random_cell(generator, operand_type, (SIZE, UNITS, OUTPUTS), projection=2)
    values = 3 * floats(generator, operand_type, 4, SIZE)
    states = states_of(generator, operand_type, 4, OUTPUTS)
    inputs = arguments(cell, states, operand_type, settings=(activation, *clips))
    *_, cell_state, output = evaluate_all(
        LSTM, [given(operand_type, values), *inputs], *results_wanted(operand_type)
    )
    _, expected_output, expected_cell = lstm_sequence(
        cell,
        values[np.newaxis],
        *states,
        activation=activation,
        cell_clip=clips[0],
        projection_clip=clips[1],
    )
    assert_close(cell_state, expected_cell, operand_type)
    assert_close(output, expected_output, operand_type)


def test_no_batch() -> None:
    generator = np.random.default_rng(3)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, OUTPUTS), projection=1, norm=True, peephole=True)
    states = states_of(generator, FLOAT32, 0, OUTPUTS)
    results = evaluate_all(
        LSTM,
        [given(FLOAT32, np.zeros((0, SIZE))), *arguments(cell, states, FLOAT32)],
        *results_wanted(FLOAT32),
    )
    assert [result.shape for result in results] == [(0, 4 * UNITS), (0, OUTPUTS), (0, UNITS), (0, OUTPUTS)]


def test_equal_sums_are_normalized_to_zero() -> None:
    generator = np.random.default_rng(4)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, UNITS), norm=True)
    for name in CELL_NAMES[:8]:
        cell[name] = np.ones_like(cell[name])
    values, states = floats(generator, FLOAT32, 2, SIZE), states_of(generator, FLOAT32, 2, UNITS)
    inputs = [given(FLOAT32, values), *arguments(cell, states, FLOAT32)]
    *_, output = evaluate_all(LSTM, inputs, *results_wanted(FLOAT32))
    for name in CELL_NAMES[:8]:
        cell[name] = np.zeros_like(cell[name])
    np.testing.assert_allclose(output, lstm_sequence(cell, values[np.newaxis], *states)[1], atol=1e-2)


@sweep("operand_type", FLOAT_TYPES)
def test_huge_values_saturate_silently(operand_type: OperandType) -> None:
    generator = np.random.default_rng(5)
    cell = random_cell(generator, operand_type, (SIZE, UNITS, UNITS))
    largest = np.full((1, SIZE), np.finfo(operand_type.dtype.name).max)
    states = states_of(generator, operand_type, 1, UNITS)
    inputs = [given(operand_type, largest), *arguments(cell, states, operand_type)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = evaluate_all(LSTM, inputs, *results_wanted(operand_type))
    assert np.abs(results[3]).max() <= 1


def is_consistent(present: set[str]) -> bool:
    """Returns True if the operands follow Android's rules, as its documentation states them."""
    input_gate = {"input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias"}
    if present & input_gate not in (set(), input_gate):
        return False
    coupled = not present & input_gate
    peephole = {name for name in OPTIONAL_NAMES if name.startswith("cell_to")}
    norm = set(NORM_NAMES)
    if coupled:
        if present & {"cell_to_input_weights", "input_layer_norm_weights"}:
            return False
        peephole.discard("cell_to_input_weights")
        norm.discard("input_layer_norm_weights")
    if present & peephole not in (set(), peephole) or present & norm not in (set(), norm):
        return False
    return "projection_weights" in present or "projection_bias" not in present


def test_every_subset_of_optional_operands() -> None:
    generator = np.random.default_rng(6)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, UNITS), projection=2, norm=True, peephole=True)
    values, states = floats(generator, FLOAT32, 1, SIZE), states_of(generator, FLOAT32, 1, UNITS)
    accepted = 0
    for flags in itertools.product((False, True), repeat=len(OPTIONAL_NAMES)):
        present = {name for name, flag in zip(OPTIONAL_NAMES, flags, strict=True) if flag}
        part: Cell = {
            name: None if name in OPTIONAL_NAMES and name not in present else cell[name] for name in cell
        }
        call = call_of(
            LSTM, [given(FLOAT32, values), *arguments(part, states, FLOAT32)], *results_wanted(FLOAT32)
        )
        if is_consistent(present):
            DEFINITIONS[LSTM].check(call)
            accepted += 1
        else:
            with pytest.raises(BadData, match=r"operand \d+ \((\w+) of LSTM\) is (omitted|given)"):
                DEFINITIONS[LSTM].check(call)
    assert accepted == 24


@sweep(
    ("coupled", "changed", "message"),
    [
        (False, "recurrent_to_input_weights", r"operand 5 \(recurrent_to_input_weights .* is omitted"),
        (False, "input_gate_bias", r"operand 12 \(input_gate_bias .* is omitted"),
        (False, "cell_to_forget_weights", r"operand 10 \(cell_to_forget_weights .* is omitted"),
        (False, "output_layer_norm_weights", r"operand 26 \(output_layer_norm_weights .* is omitted"),
        (False, "projection_weights", r"operand 17 \(projection_bias .* is given; it must be omitted"),
        (True, "cell_to_input_weights", r"operand 9 \(cell_to_input_weights .* is given; .* are coupled"),
        (True, "input_layer_norm_weights", r"operand 23 \(input_layer_norm_weights .* is given"),
        (True, "input_gate_bias", r"operand 1 \(input_to_input_weights .* is omitted, operand 12"),
    ],
)
def test_refuses_inconsistent_operands(coupled: bool, changed: str, message: str) -> None:
    generator = np.random.default_rng(7)
    cell = random_cell(
        generator, FLOAT32, (SIZE, UNITS, UNITS), coupled=coupled, peephole=True, projection=2, norm=True
    )
    cell[changed] = floats(generator, FLOAT32, UNITS) if cell[changed] is None else None
    inputs = [
        given(FLOAT32, np.zeros((1, SIZE))),
        *arguments(cell, states_of(generator, FLOAT32, 1, UNITS), FLOAT32),
    ]
    with pytest.raises(BadData, match=message):
        check(LSTM, inputs, *results_wanted(FLOAT32))


@sweep("position", [*range(20), *range(23, 27)])
@sweep("coupled", [False, True])
def test_refuses_shapes(position: int, coupled: bool) -> None:
    generator = np.random.default_rng(8)
    cell = random_cell(
        generator, FLOAT32, (SIZE, UNITS, OUTPUTS), coupled=coupled, peephole=True, projection=2, norm=True
    )
    inputs = [
        given(FLOAT32, np.zeros((2, SIZE))),
        *arguments(cell, states_of(generator, FLOAT32, 2, OUTPUTS), FLOAT32),
    ]
    value = inputs[position].value
    if value is None:
        return
    for axis in range(value.ndim):
        wrong = list(inputs)
        wrong[position] = given(FLOAT32, np.repeat(value, 2, axis=axis))
        with pytest.raises(BadData, match=r"operand \d+ \(\w+ of LSTM\) has shape"):
            check(LSTM, wrong, *results_wanted(FLOAT32))
    wrong[position] = given(FLOAT32, value[np.newaxis])
    with pytest.raises(BadData, match=rf"operand {position} .* has (rank|shape)"):
        check(LSTM, wrong, *results_wanted(FLOAT32))


def test_the_outputs_are_the_units_without_a_projection() -> None:
    generator = np.random.default_rng(9)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, OUTPUTS))
    inputs = [
        given(FLOAT32, np.zeros((1, SIZE))),
        *arguments(cell, states_of(generator, FLOAT32, 1, OUTPUTS), FLOAT32),
    ]
    with pytest.raises(BadData, match=r"operand 8 \(recurrent_to_output_weights .* \[5, 2\]; \[5, 5\]"):
        check(LSTM, inputs, *results_wanted(FLOAT32))


@sweep(
    ("settings", "message"),
    [
        ((RELU1, 0.0, 0.0), r"operand 20 \(cell_activation of LSTM\) is 2; one of 0 \(NONE\), 1 \(RELU\), 3"),
        ((SIGN_BIT, 0.0, 0.0), "operand 20 .* is 5"),
        ((7, 0.0, 0.0), "operand 20 .* is 7"),
        ((-1, 0.0, 0.0), "operand 20 .* is -1"),
        ((TANH, -0.5, 0.0), r"operand 21 \(cell_clip of LSTM\) is -0\.5; at least 0"),
        ((TANH, 0.0, -1.0), r"operand 22 \(projection_clip of LSTM\) is -1; at least 0"),
        ((TANH, float("nan"), 0.0), "operand 21 .* is nan"),
    ],
)
def test_refuses_settings(settings: tuple[int, float, float], message: str) -> None:
    generator = np.random.default_rng(10)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, UNITS))
    states = states_of(generator, FLOAT32, 1, UNITS)
    inputs = arguments(cell, states, FLOAT32, settings=settings)
    with pytest.raises(BadData, match=message):
        check(LSTM, [given(FLOAT32, np.zeros((1, SIZE))), *inputs], *results_wanted(FLOAT32))


@sweep(
    ("operand_type", "norm", "level"),
    [
        (FLOAT32, False, FeatureLevel.LEVEL_1),
        (FLOAT32, True, FeatureLevel.LEVEL_3),
        (FLOAT16, False, FeatureLevel.LEVEL_3),
        (FLOAT16, True, FeatureLevel.LEVEL_3),
    ],
)
def test_levels(operand_type: OperandType, norm: bool, level: FeatureLevel) -> None:
    generator = np.random.default_rng(11)
    cell = random_cell(generator, operand_type, (SIZE, UNITS, UNITS))
    states = states_of(generator, operand_type, 1, UNITS)
    inputs = [given(operand_type, np.zeros((1, SIZE))), *arguments(cell, states, operand_type, norm=norm)]
    assert level_of(LSTM, inputs, *results_wanted(operand_type)) == level


def test_refuses_mixed_types_and_counts() -> None:
    generator = np.random.default_rng(12)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, UNITS))
    inputs = [
        given(FLOAT16, np.zeros((1, SIZE))),
        *arguments(cell, states_of(generator, FLOAT32, 1, UNITS), FLOAT32),
    ]
    with pytest.raises(BadData, match=r"operand \d+ .* TENSOR_FLOAT"):
        check(LSTM, inputs, *results_wanted(FLOAT32))
    with pytest.raises(BadData, match="26 inputs and 4 outputs; 23 or 27 inputs"):
        check(LSTM, inputs[:-1], *results_wanted(FLOAT32))
    inputs = arguments(cell, states_of(generator, FLOAT32, 1, UNITS), FLOAT32)
    inputs[1] = omitted(FLOAT32)
    with pytest.raises(BadData, match=r"operand 2 \(input_to_forget_weights .* is omitted"):
        check(LSTM, [given(FLOAT32, np.zeros((1, SIZE))), *inputs], *results_wanted(FLOAT32))


def test_optional_graph_inputs_are_checked_at_execution() -> None:
    """A part of the input gate is a graph input, the rest is omitted in the model."""
    generator = np.random.default_rng(13)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, UNITS), coupled=True)
    inputs = [
        given(FLOAT32, np.zeros((1, SIZE))),
        *arguments(cell, states_of(generator, FLOAT32, 1, UNITS), FLOAT32),
    ]
    weights = given(FLOAT32, floats(generator, FLOAT32, UNITS, SIZE))
    early = [*inputs[:1], unknown(weights), *inputs[2:]]
    call = call_of(LSTM, early, *results_wanted(FLOAT32))
    definition = DEFINITIONS[LSTM]
    definition.check(call)
    with pytest.raises(UnknownValue):
        definition.shape(call)
    operands = [*(source.operand for source in early), *results_wanted(FLOAT32)]
    values = dict(enumerate(source.value for source in inputs))
    assert operands[1].lifetime is Lifetime.SUBGRAPH_INPUT

    def shape_of(index: int) -> tuple[int, ...] | None:
        value = values[index]
        return None if value is None else value.shape

    def at_execution(omitted: frozenset[int]) -> Call:
        return Call(call.binding, operands, shape_of, values.get, omitted)

    without = at_execution(frozenset((1,)))
    definition.check(without)
    assert definition.shape(without)[0] == (1, 3 * UNITS)
    values[1] = weights.value
    with pytest.raises(BadData, match=r"operand 5 \(recurrent_to_input_weights of LSTM\) is omitted"):
        definition.check(at_execution(frozenset()))


def test_a_cell_accepts_any_linear_maps() -> None:
    """Weights may have any format, so a cell only calls linear maps."""
    generator = np.random.default_rng(14)
    cell = random_cell(generator, FLOAT32, (SIZE, UNITS, UNITS), coupled=True)
    rows_seen = []

    def gate(kind: str) -> LstmGate:
        weights = {name: cell[name] for name in cell if f"_{kind}_weights" in name}
        inputs, bias = weights[f"input_to_{kind}_weights"], cell[f"{kind}_gate_bias"]
        recurrent = weights[f"recurrent_to_{kind}_weights"]
        assert inputs is not None
        assert recurrent is not None
        assert bias is not None

        def counted(rows: Array) -> Array:
            rows_seen.append(len(rows))
            return rows @ inputs.T

        return LstmGate(inputs=counted, recurrent=dense(recurrent), bias=bias)

    sequence = floats(generator, FLOAT32, 4, 2, SIZE)
    states = states_of(generator, FLOAT32, 2, UNITS)
    parameters = LstmCell(
        input=None,
        forget=gate("forget"),
        cell=gate("cell"),
        output=gate("output"),
        activation=CellActivation.RELU1,
    )
    results = run_lstm(parameters, sequence, *states)
    for result, expected in zip(
        results, lstm_sequence(cell, sequence, *states, activation=RELU1), strict=True
    ):
        assert_close(result, expected, FLOAT32)
    assert rows_seen == [8, 8, 8]

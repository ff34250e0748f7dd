from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.operations.recurrent import (
    AUXILIARY_NAMES,
    CELL_NAMES,
    NORM_NAMES,
    RELU1,
    SIGMOID,
    TANH,
    Cell,
    absent,
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
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array

UNIDIRECTIONAL = OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM
BIDIRECTIONAL = OperationType.BIDIRECTIONAL_SEQUENCE_LSTM
FLOAT32, FLOAT16 = FLOAT_TYPES
TIME, BATCH, SIZE = 4, 2, 3
NO_LINKING, PARALLEL, CROSSED = range(3)


def swapped(array: Array, *, time_major: bool) -> Array:
    return array if time_major else np.ascontiguousarray(array.swapaxes(0, 1))


def settings(operand_type: OperandType, activation: int, *clips: float) -> list[Given]:
    scalar_type = OperandType.FLOAT32 if operand_type is FLOAT32 else OperandType.FLOAT16
    return [given(OperandType.INT32, activation), *(given(scalar_type, clip) for clip in clips)]


def flag(value: bool) -> Given:
    return given(OperandType.BOOL, value)


def wanted_all(operand_type: OperandType, sequences: int, states: int) -> list[Operand]:
    ranks = [3] * sequences + [2] * states
    return [wanted(operand_type, rank=rank) for rank in ranks]


def unidirectional(
    cell: Cell, sequence: Array, states: tuple[Array, Array], operand_type: OperandType, *, time_major: bool
) -> list[Given]:
    return [
        given(operand_type, swapped(sequence, time_major=time_major)),
        *givens(cell, CELL_NAMES, operand_type),
        *(given(operand_type, state) for state in states),
        *settings(operand_type, TANH, 0.75, 0.5),
        flag(time_major),
        *givens(cell, NORM_NAMES, operand_type),
    ]


@sweep("states_out", [0, 2])
@sweep("time_major", [False, True])
@sweep("options", [{}, {"coupled": True}, {"peephole": True, "projection": 2, "norm": True}])
@sweep("operand_type", FLOAT_TYPES)
def test_one_direction(
    operand_type: OperandType, options: dict[str, Any], time_major: bool, states_out: int
) -> None:
    generator = np.random.default_rng(1)
    units, outputs = 5, 2 if "projection" in options else 5
    cell = random_cell(generator, operand_type, (SIZE, units, outputs), **options)
    sequence = floats(generator, operand_type, TIME, BATCH, SIZE)
    states = floats(generator, operand_type, BATCH, outputs), floats(generator, operand_type, BATCH, units)
    inputs = unidirectional(cell, sequence, states, operand_type, time_major=time_major)
    results = evaluate_all(UNIDIRECTIONAL, inputs, *wanted_all(operand_type, 1, states_out))
    expected = lstm_sequence(cell, sequence, *states, cell_clip=0.75, projection_clip=0.5)
    assert len(results) == 1 + states_out
    assert_close(swapped(results[0], time_major=time_major), expected[0], operand_type)
    for result, state in zip(results[1:], expected[1:], strict=False):
        assert_close(result, state, operand_type)


@sweep(("time", "batch"), [(0, 2), (3, 0), (0, 0), (1, 1)])
def test_empty_sequences(time: int, batch: int) -> None:
    generator = np.random.default_rng(2)
    cell = random_cell(generator, FLOAT32, (SIZE, 4, 4), norm=True)
    sequence = floats(generator, FLOAT32, time, batch, SIZE)
    states = floats(generator, FLOAT32, batch, 4), floats(generator, FLOAT32, batch, 4)
    inputs = unidirectional(cell, sequence, states, FLOAT32, time_major=False)
    output, *last = evaluate_all(UNIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 1, 2))
    assert output.shape == (batch, time, 4)
    if not time:
        for result, state in zip(last, states, strict=True):
            np.testing.assert_array_equal(result, state)


def test_single_steps_equal_the_sequence() -> None:
    generator = np.random.default_rng(3)
    cell = random_cell(generator, FLOAT32, (SIZE, 5, 2), projection=1, peephole=True)
    sequence = floats(generator, FLOAT32, TIME, BATCH, SIZE)
    states = floats(generator, FLOAT32, BATCH, 2), floats(generator, FLOAT32, BATCH, 5)
    whole = unidirectional(cell, sequence, states, FLOAT32, time_major=True)
    expected = evaluate_all(UNIDIRECTIONAL, whole, *wanted_all(FLOAT32, 1, 2))
    for step in range(TIME):
        part = unidirectional(cell, sequence[step : step + 1], states, FLOAT32, time_major=True)
        output, *last = evaluate_all(UNIDIRECTIONAL, part, *wanted_all(FLOAT32, 1, 2))
        states = last[0], last[1]
        np.testing.assert_allclose(output[0], expected[0][step], atol=1e-6)
    for state, last_state in zip(states, expected[1:], strict=True):
        np.testing.assert_allclose(state, last_state, atol=1e-6)


@dataclass(frozen=True, kw_only=True)
class Direction:
    cell: Cell
    output_state: Array
    cell_state: Array


@dataclass(frozen=True, kw_only=True)
class Both:
    """Operands of the operation with two cells."""

    forward: Direction
    backward: Direction
    sequence: Array
    auxiliary: Array | None

    @property
    def directions(self) -> tuple[Direction, Direction]:
        return self.forward, self.backward

    def inputs(
        self,
        operand_type: OperandType,
        *,
        merged: bool = False,
        time_major: bool = True,
        activation: int = TANH,
    ) -> list[Given]:
        cells = [direction.cell for direction in self.directions]
        auxiliary = None if self.auxiliary is None else swapped(self.auxiliary, time_major=time_major)
        return [
            given(operand_type, swapped(self.sequence, time_major=time_major)),
            *(operand for cell in cells for operand in givens(cell, CELL_NAMES, operand_type)),
            *(
                given(operand_type, state)
                for direction in self.directions
                for state in (direction.output_state, direction.cell_state)
            ),
            absent(operand_type) if auxiliary is None else given(operand_type, auxiliary),
            *(operand for cell in cells for operand in givens(cell, AUXILIARY_NAMES, operand_type)),
            *settings(operand_type, activation, 0.0, 0.0),
            flag(merged),
            flag(time_major),
            *(operand for cell in cells for operand in givens(cell, NORM_NAMES, operand_type)),
        ]


def both(
    linking: int,
    operand_type: OperandType = FLOAT32,
    *,
    forward: dict[str, Any] | None = None,
    backward: dict[str, Any] | None = None,
    time: int = TIME,
    batch: int = BATCH,
) -> Both:
    """Returns cells of different sizes; the auxiliary input and the input differ in size, too."""
    generator = np.random.default_rng(4)
    auxiliary_size = 2

    def direction(sizes: tuple[int, int, int], options: dict[str, Any]) -> Direction:
        return Direction(
            cell=random_cell(
                generator,
                operand_type,
                sizes,
                auxiliary=auxiliary_size if linking == CROSSED else 0,
                **options,
            ),
            output_state=floats(generator, operand_type, batch, sizes[2]),
            cell_state=floats(generator, operand_type, batch, sizes[1]),
        )

    backward_input = auxiliary_size if linking == PARALLEL else SIZE
    return Both(
        forward=direction((SIZE, 5, 5), forward or {}),
        backward=direction((backward_input, 4, 3), backward or {"projection": 2}),
        sequence=floats(generator, operand_type, time, batch, SIZE),
        auxiliary=floats(generator, operand_type, time, batch, auxiliary_size) if linking else None,
    )


def expected_of(operands: Both, linking: int) -> list[Array]:
    """Computes the outputs of both directions, then the states."""
    crossed = operands.auxiliary if linking == CROSSED else None
    backward = operands.sequence
    if linking == PARALLEL:
        assert operands.auxiliary is not None
        backward = operands.auxiliary
    first = lstm_sequence(
        operands.forward.cell,
        operands.sequence,
        operands.forward.output_state,
        operands.forward.cell_state,
        auxiliary=crossed,
    )
    second = lstm_sequence(
        operands.backward.cell,
        backward,
        operands.backward.output_state,
        operands.backward.cell_state,
        auxiliary=crossed,
        backward=True,
    )
    return [first[0], second[0], *first[1:], *second[1:]]


@sweep("states_out", [0, 4])
@sweep("merged", [False, True])
@sweep("time_major", [False, True])
@sweep("linking", [NO_LINKING, PARALLEL, CROSSED])
@sweep("operand_type", FLOAT_TYPES)
def test_both_directions(
    operand_type: OperandType, linking: int, time_major: bool, merged: bool, states_out: int
) -> None:
    operands = both(linking, operand_type)
    inputs = operands.inputs(operand_type, merged=merged, time_major=time_major)
    outputs = wanted_all(operand_type, 1 if merged else 2, states_out)
    results = list(evaluate_all(BIDIRECTIONAL, inputs, *outputs))
    forward, backward, *states = expected_of(operands, linking)
    sequences = [np.concatenate((forward, backward), axis=2)] if merged else [forward, backward]
    assert len(results) == len(sequences) + states_out
    for expected in sequences:
        assert_close(swapped(results.pop(0), time_major=time_major), expected, operand_type)
    for result, expected in zip(results, states, strict=False):
        assert_close(result, expected, operand_type)


@sweep("linking", [NO_LINKING, PARALLEL, CROSSED])
@sweep(
    ("forward", "backward"),
    [
        ({"coupled": True}, {"projection": 1}),
        ({}, {"projection": 1, "coupled": True, "peephole": True}),
        ({"norm": True}, {"projection": 1}),
        ({"coupled": True, "norm": True}, {"projection": 2, "coupled": True}),
    ],
)
def test_each_cell_has_its_own_options(
    linking: int, forward: dict[str, Any], backward: dict[str, Any]
) -> None:
    operands = both(linking, forward=forward, backward=backward)
    results = evaluate_all(BIDIRECTIONAL, operands.inputs(FLOAT32), *wanted_all(FLOAT32, 2, 4))
    for result, expected in zip(results, expected_of(operands, linking), strict=True):
        assert_close(result, expected, FLOAT32)


@sweep(("time", "batch"), [(0, 2), (3, 0)])
def test_empty_sequences_in_both_directions(time: int, batch: int) -> None:
    operands = both(CROSSED, time=time, batch=batch)
    results = evaluate_all(BIDIRECTIONAL, operands.inputs(FLOAT32, merged=True), *wanted_all(FLOAT32, 1, 4))
    assert [result.shape for result in results] == [
        (time, batch, 8),
        (batch, 5),
        (batch, 5),
        (batch, 3),
        (batch, 4),
    ]


@sweep(
    ("merged", "count", "message"),
    [
        (
            True,
            2,
            r"operand 51 \(merge_outputs of BIDIRECTIONAL_SEQUENCE_LSTM\) is True; .* 2 outputs needs False",
        ),
        (True, 6, "operand 51 .* 6 outputs needs False"),
        (False, 1, "operand 51 .* is False; .* 1 outputs needs True"),
        (False, 5, "operand 51 .* 5 outputs needs True"),
        (False, 3, "3 outputs; .* 1, 2, 5 or 6 outputs"),
    ],
)
def test_the_number_of_outputs_must_match_merge_outputs(merged: bool, count: int, message: str) -> None:
    sequences = min(count, 2 if count in (2, 6) else 1)
    with pytest.raises(BadData, match=message):
        check(
            BIDIRECTIONAL,
            both(NO_LINKING).inputs(FLOAT32, merged=merged),
            *wanted_all(FLOAT32, sequences, count - sequences),
        )


@sweep("position", range(40, 48))
def test_refuses_some_auxiliary_weights(position: int) -> None:
    inputs = both(CROSSED).inputs(FLOAT32)
    inputs[position] = absent(FLOAT32)
    with pytest.raises(BadData, match=rf"operand {position} \(\w+ of .*\) is omitted, .* cross-linking"):
        check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))


def test_refuses_auxiliary_weights_without_an_input() -> None:
    inputs = both(CROSSED).inputs(FLOAT32)
    inputs[39] = absent(FLOAT32)
    with pytest.raises(BadData, match=r"operand 39 \(aux_input of .* is omitted, operand 41 .* is given"):
        check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))


def test_refuses_auxiliary_weights_of_a_coupled_gate() -> None:
    inputs = both(CROSSED, forward={"coupled": True}).inputs(FLOAT32)
    inputs[40] = given(FLOAT32, np.zeros((5, 2)))
    with pytest.raises(BadData, match=r"operand 40 \(fw_aux_input_to_input_weights .* are coupled"):
        check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))


@sweep("linking", [NO_LINKING, PARALLEL, CROSSED])
def test_refuses_shapes_in_both_directions(linking: int) -> None:
    options = {"projection": 2, "norm": True, "peephole": True}
    inputs = both(linking, forward=options, backward=options).inputs(FLOAT32)
    for position, source in enumerate(inputs):
        if source.value is None or not source.operand.type.is_tensor:
            continue
        wrong = list(inputs)
        for axis in range(source.value.ndim):
            wrong[position] = given(FLOAT32, np.repeat(source.value, 2, axis=axis))
            if position or axis:  # The number of steps alone does not affect the cells.
                with pytest.raises(BadData, match=r"operand \d+ \(\w+ of BIDIR.*\) has shape"):
                    check(BIDIRECTIONAL, wrong, *wanted_all(FLOAT32, 2, 4))
        wrong[position] = given(FLOAT32, source.value[np.newaxis])
        with pytest.raises(BadData, match=rf"operand {position} .* has (rank|shape)"):
            check(BIDIRECTIONAL, wrong, *wanted_all(FLOAT32, 2, 4))


@sweep("prefix", ["fw", "bw"])
@sweep("name", ["recurrent_to_input_weights", "input_gate_bias", *NORM_NAMES])
def test_the_rules_of_a_cell_apply_to_each_direction(prefix: str, name: str) -> None:
    options = {"projection": 2, "norm": True}
    operands = both(NO_LINKING, forward=options, backward=options)
    direction = operands.forward if prefix == "fw" else operands.backward
    direction.cell[name] = None
    with pytest.raises(BadData, match=rf"\({prefix}_{name} of BIDIRECTIONAL_SEQUENCE_LSTM\) is omitted"):
        check(BIDIRECTIONAL, operands.inputs(FLOAT32), *wanted_all(FLOAT32, 2, 0))


def test_refuses_activations() -> None:
    inputs = both(NO_LINKING).inputs(FLOAT32, activation=RELU1)
    with pytest.raises(BadData, match=r"operand 48 \(cell_activation .* is 2; one of"):
        check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))
    check(BIDIRECTIONAL, both(NO_LINKING).inputs(FLOAT32, activation=SIGMOID), *wanted_all(FLOAT32, 2, 0))


def test_states_need_level_4() -> None:
    generator = np.random.default_rng(5)
    cell = random_cell(generator, FLOAT32, (SIZE, 4, 4))
    states = np.zeros((BATCH, 4), np.float32), np.zeros((BATCH, 4), np.float32)
    sequence = np.zeros((TIME, BATCH, SIZE), np.float32)
    inputs = unidirectional(cell, sequence, states, FLOAT32, time_major=True)
    assert level_of(UNIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 1, 0)) == FeatureLevel.LEVEL_3
    assert level_of(UNIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 1, 2)) == FeatureLevel.LEVEL_4
    inputs = both(NO_LINKING).inputs(FLOAT32)
    for sequences in (1, 2):
        assert level_of(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, sequences, 0)) == FeatureLevel.LEVEL_3
        assert level_of(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, sequences, 4)) == FeatureLevel.LEVEL_4


def test_shapes_are_known_without_the_linking() -> None:
    """All optional operands are graph inputs, which an execution may omit."""
    inputs = both(CROSSED, forward={"norm": True}).inputs(FLOAT32)
    for position in (*range(39, 48), *range(53, 61)):
        source = inputs[position]
        inputs[position] = unknown(source if source.value is not None else given(FLOAT32, np.zeros(3)))
    call = call_of(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))
    DEFINITIONS[BIDIRECTIONAL].check(call)
    assert DEFINITIONS[BIDIRECTIONAL].shape(call) == ((TIME, BATCH, 5), (TIME, BATCH, 3))

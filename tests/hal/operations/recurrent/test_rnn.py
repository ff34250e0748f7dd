import numpy as np
import pytest
from support.operations.recurrent import (
    NONE,
    RELU,
    RELU1,
    RELU6,
    SIGMOID,
    SIGN_BIT,
    TANH,
    absent,
    activated,
    assert_close,
    check,
    dot,
    floats,
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
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array

RNN = OperationType.RNN
UNIDIRECTIONAL = OperationType.UNIDIRECTIONAL_SEQUENCE_RNN
BIDIRECTIONAL = OperationType.BIDIRECTIONAL_SEQUENCE_RNN
FLOAT32, FLOAT16 = FLOAT_TYPES
NO_LINKING, PARALLEL, CROSSED = range(3)
TIME, BATCH, SIZE, AUXILIARY_SIZE = 4, 3, 2, 5
#: Weights, recurrent weights, bias and state.
Parts = tuple[Array, Array, Array, Array]


def cell_of(
    generator: np.random.Generator, operand_type: OperandType, size: int, units: int, batch: int
) -> Parts:
    shapes = ((units, size), (units, units), (units,), (batch, units))
    weights, recurrent, bias, state = (floats(generator, operand_type, *shape) for shape in shapes)
    return weights, recurrent, bias, state


def expected_sequence(
    parts: Parts,
    sequence: Array,
    activation: int,
    *,
    auxiliary: Array | None = None,
    auxiliary_weights: Array | None = None,
    backward: bool = False,
) -> tuple[Array, Array]:
    """Computes the outputs of a time-major sequence and the last state, number by number."""
    weights, recurrent, bias, start = parts
    state = start.astype(np.float64)
    outputs = np.zeros((len(sequence), *state.shape))
    for step in reversed(range(len(sequence))) if backward else range(len(sequence)):
        for row, unit in np.ndindex(state.shape):
            total = float(bias[unit]) + dot(sequence[step, row].tolist(), weights, unit)
            total += dot(state[row].tolist(), recurrent, unit)
            if auxiliary is not None and auxiliary_weights is not None:
                total += dot(auxiliary[step, row].tolist(), auxiliary_weights, unit)
            outputs[step, row, unit] = activated(activation, total)
        state = outputs[step]
    return outputs, state


def swapped(array: Array, *, time_major: bool) -> Array:
    return array if time_major else np.ascontiguousarray(array.swapaxes(0, 1))


def tensors(operand_type: OperandType, *arrays: Array) -> list[Given]:
    return [given(operand_type, array) for array in arrays]


def integer(value: int) -> Given:
    return given(OperandType.INT32, value)


def wanted_all(operand_type: OperandType, sequences: int, states: int) -> list[Operand]:
    return [wanted(operand_type, rank=rank) for rank in [3] * sequences + [2] * states]


@sweep("activation", [NONE, RELU, RELU1, RELU6, TANH, SIGMOID])
@sweep(("batch", "size", "units"), [(3, 2, 4), (1, 1, 1), (2, 7, 3), (0, 2, 3)])
@sweep("operand_type", FLOAT_TYPES)
def test_one_step(operand_type: OperandType, batch: int, size: int, units: int, activation: int) -> None:
    generator = np.random.default_rng(1)
    values = floats(generator, operand_type, batch, size)
    parts = cell_of(generator, operand_type, size, units, batch)
    state, output = evaluate_all(
        RNN,
        [*tensors(operand_type, values, *parts), integer(activation)],
        *wanted_all(operand_type, 0, 2),
    )
    _, expected = expected_sequence(parts, values[np.newaxis], activation)
    assert_close(output, expected, operand_type)
    np.testing.assert_array_equal(state, output)


@sweep("states", [0, 1])
@sweep("time_major", [0, 1])
@sweep(("time", "batch"), [(4, 3), (1, 1), (5, 1), (0, 2), (2, 0)])
@sweep("operand_type", FLOAT_TYPES)
def test_one_direction(
    operand_type: OperandType, time: int, batch: int, time_major: int, states: int
) -> None:
    generator = np.random.default_rng(2)
    sequence = floats(generator, operand_type, time, batch, SIZE)
    parts = cell_of(generator, operand_type, SIZE, 4, batch)
    results = evaluate_all(
        UNIDIRECTIONAL,
        [
            *tensors(operand_type, swapped(sequence, time_major=bool(time_major)), *parts),
            integer(TANH),
            integer(time_major),
        ],
        *wanted_all(operand_type, 1, states),
    )
    expected = expected_sequence(parts, sequence, TANH)
    assert len(results) == 1 + states
    assert_close(swapped(results[0], time_major=bool(time_major)), expected[0], operand_type)
    if states:
        assert_close(results[1], expected[1], operand_type)


def bidirectional(
    linking: int,
    operand_type: OperandType = FLOAT32,
    *,
    time: int = TIME,
    batch: int = BATCH,
    time_major: bool = True,
    merged: bool = False,
) -> tuple[list[Given], list[Array]]:
    """Returns operands of cells of different sizes, and the expected outputs and states."""
    generator = np.random.default_rng(3)
    sequence = floats(generator, operand_type, time, batch, SIZE)
    auxiliary = floats(generator, operand_type, time, batch, AUXILIARY_SIZE)
    forward = cell_of(generator, operand_type, SIZE, 4, batch)
    backward = cell_of(generator, operand_type, AUXILIARY_SIZE if linking == PARALLEL else SIZE, 3, batch)
    auxiliary_weights = [floats(generator, operand_type, units, AUXILIARY_SIZE) for units in (4, 3)]
    crossed = tensors(operand_type, *auxiliary_weights) if linking == CROSSED else [absent(operand_type)] * 2
    inputs = [
        *tensors(operand_type, swapped(sequence, time_major=time_major), *forward, *backward),
        given(operand_type, swapped(auxiliary, time_major=time_major)) if linking else absent(operand_type),
        *crossed,
        integer(TANH),
        given(OperandType.BOOL, time_major),
        given(OperandType.BOOL, merged),
    ]
    expected = [
        expected_sequence(
            parts,
            auxiliary if is_backward and linking == PARALLEL else sequence,
            TANH,
            auxiliary=auxiliary if linking == CROSSED else None,
            auxiliary_weights=weights,
            backward=is_backward,
        )
        for is_backward, parts, weights in zip(
            (False, True), (forward, backward), auxiliary_weights, strict=True
        )
    ]
    return inputs, [expected[0][0], expected[1][0], expected[0][1], expected[1][1]]


@sweep("states", [0, 2])
@sweep("merged", [False, True])
@sweep("time_major", [False, True])
@sweep("linking", [NO_LINKING, PARALLEL, CROSSED])
@sweep("operand_type", FLOAT_TYPES)
def test_both_directions(
    operand_type: OperandType, linking: int, time_major: bool, merged: bool, states: int
) -> None:
    inputs, expected = bidirectional(linking, operand_type, time_major=time_major, merged=merged)
    outputs = wanted_all(operand_type, 1 if merged else 2, states)
    results = list(evaluate_all(BIDIRECTIONAL, inputs, *outputs))
    sequences = [np.concatenate(expected[:2], axis=2)] if merged else expected[:2]
    assert len(results) == len(sequences) + states
    for sequence in sequences:
        assert_close(swapped(results.pop(0), time_major=time_major), sequence, operand_type)
    for result, state in zip(results, expected[2:], strict=False):
        assert_close(result, state, operand_type)


@sweep(("time", "batch"), [(0, 2), (2, 0)])
def test_empty_sequences_in_both_directions(time: int, batch: int) -> None:
    inputs, _ = bidirectional(CROSSED, time=time, batch=batch, merged=True)
    results = evaluate_all(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 1, 2))
    assert [result.shape for result in results] == [(time, batch, 7), (batch, 4), (batch, 3)]


@sweep(
    ("linking", "position", "message"),
    [
        (CROSSED, 9, r"operand 9 \(aux_input of .* is omitted, operand 10 \(fw_aux_weights"),
        (CROSSED, 10, r"operand 10 \(fw_aux_weights of .* is omitted, operand 11 \(bw_aux_weights"),
        (CROSSED, 11, r"operand 11 \(bw_aux_weights of .* is omitted, operand 10 \(fw_aux_weights"),
    ],
)
def test_refuses_inconsistent_linking(linking: int, position: int, message: str) -> None:
    inputs, _ = bidirectional(linking)
    inputs[position] = absent(FLOAT32)
    with pytest.raises(BadData, match=message):
        check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))


@sweep(("merged", "sequences", "states"), [(True, 2, 0), (True, 2, 2), (False, 1, 0), (False, 1, 2)])
def test_the_number_of_outputs_must_match_merge_outputs(merged: bool, sequences: int, states: int) -> None:
    inputs, _ = bidirectional(NO_LINKING, merged=merged)
    with pytest.raises(BadData, match=rf"operand 14 \(merge_outputs .* is {merged}; .* needs {not merged}"):
        check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, sequences, states))


@sweep("linking", [NO_LINKING, PARALLEL, CROSSED])
def test_refuses_shapes(linking: int) -> None:
    inputs, _ = bidirectional(linking)
    for position, source in enumerate(inputs[:12]):
        if source.value is None:
            continue
        wrong = list(inputs)
        for axis in range(source.value.ndim):
            wrong[position] = given(FLOAT32, np.repeat(source.value, 2, axis=axis))
            if linking or (position, axis) != (0, 0):
                with pytest.raises(BadData, match=r"operand \d+ \(\w+ of BIDIR.*\) has shape"):
                    check(BIDIRECTIONAL, wrong, *wanted_all(FLOAT32, 2, 0))
        wrong[position] = given(FLOAT32, source.value[np.newaxis])
        with pytest.raises(BadData, match=rf"operand {position} .* has (rank|shape)"):
            check(BIDIRECTIONAL, wrong, *wanted_all(FLOAT32, 2, 0))


@sweep(
    ("position", "shape", "message"),
    [
        (1, (4, 3), r"operand 1 \(weights of RNN\) has shape \[4, 3\]; \[4, 2\] is expected"),
        (1, (0, 2), r"operand 1 .* has shape \[0, 2\]; at least 1 along each dimension"),
        (2, (4, 3), r"operand 2 \(recurrent_weights of RNN\) has shape \[4, 3\]; \[4, 4\]"),
        (3, (5,), r"operand 3 \(bias of RNN\) has shape \[5\]; \[4\]"),
        (4, (2, 4), r"operand 4 \(hidden_state_in of RNN\) has shape \[2, 4\]; \[3, 4\]"),
        (0, (3, 2, 1), r"operand 0 \(input of RNN\) has rank 3; rank 2"),
    ],
)
def test_refuses_shapes_of_one_step(position: int, shape: tuple[int, ...], message: str) -> None:
    inputs = [
        *tensors(FLOAT32, *(np.zeros(s) for s in ((3, 2), (4, 2), (4, 4), (4,), (3, 4)))),
        integer(RELU),
    ]
    inputs[position] = given(FLOAT32, np.zeros(shape))
    with pytest.raises(BadData, match=message):
        check(RNN, inputs, *wanted_all(FLOAT32, 0, 2))


@sweep("number", [-1, SIGN_BIT, 7])
def test_refuses_activations(number: int) -> None:
    inputs = [
        *tensors(FLOAT32, *(np.zeros(s) for s in ((3, 2), (4, 2), (4, 4), (4,), (3, 4)))),
        integer(number),
    ]
    with pytest.raises(
        BadData, match=rf"operand 5 \(cell_activation of RNN\) is {number}; one of 0 \(NONE\)"
    ):
        check(RNN, inputs, *wanted_all(FLOAT32, 0, 2))


@sweep("number", [-1, 2])
def test_the_layout_is_0_or_1(number: int) -> None:
    shapes = ((3, 5, 2), (4, 2), (4, 4), (4,), (3, 4))
    inputs = [*tensors(FLOAT32, *(np.zeros(shape) for shape in shapes)), integer(RELU), integer(number)]
    with pytest.raises(BadData, match=rf"operand 6 \(time_major .* is {number}; it must be from 0 to 1"):
        check(UNIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 1, 0))


def test_only_auxiliary_operands_are_optional() -> None:
    for position in range(9):
        inputs, _ = bidirectional(CROSSED)
        inputs[position] = omitted(FLOAT32)
        with pytest.raises(BadData, match=rf"operand {position} .* is omitted; it is not optional"):
            check(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 0))


def test_levels() -> None:
    shapes = ((3, 2), (4, 2), (4, 4), (4,), (3, 4))
    for operand_type, level in ((FLOAT32, FeatureLevel.LEVEL_1), (FLOAT16, FeatureLevel.LEVEL_3)):
        inputs = [*tensors(operand_type, *(np.zeros(shape) for shape in shapes)), integer(RELU)]
        assert level_of(RNN, inputs, *wanted_all(operand_type, 0, 2)) == level
        sequence = [given(operand_type, np.zeros((3, 5, 2))), *inputs[1:], integer(0)]
        assert level_of(UNIDIRECTIONAL, sequence, *wanted_all(operand_type, 1, 0)) == FeatureLevel.LEVEL_3
        assert level_of(UNIDIRECTIONAL, sequence, *wanted_all(operand_type, 1, 1)) == FeatureLevel.LEVEL_4
    for sequences in (1, 2):
        inputs, _ = bidirectional(NO_LINKING)
        assert level_of(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, sequences, 0)) == FeatureLevel.LEVEL_3
        assert level_of(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, sequences, 2)) == FeatureLevel.LEVEL_4


def test_shapes_are_known_without_the_linking() -> None:
    inputs, _ = bidirectional(CROSSED)
    for position in (9, 10, 11):
        inputs[position] = unknown(inputs[position])
    call = call_of(BIDIRECTIONAL, inputs, *wanted_all(FLOAT32, 2, 2))
    DEFINITIONS[BIDIRECTIONAL].check(call)
    assert DEFINITIONS[BIDIRECTIONAL].shape(call) == ((4, 3, 4), (4, 3, 3), (3, 4), (3, 3))

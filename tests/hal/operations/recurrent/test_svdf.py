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
    evaluate_all,
    given,
    level_of,
    omitted,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array

SVDF = OperationType.SVDF
FLOAT32, FLOAT16 = FLOAT_TYPES


def outputs(operand_type: OperandType) -> list[Operand]:
    return [wanted(operand_type, rank=2), wanted(operand_type, rank=2)]


def arguments(
    operand_type: OperandType,
    values: Array,
    feature: Array,
    time: Array,
    bias: Array | None,
    state: Array,
    rank: int,
    activation: int = NONE,
) -> list[Given]:
    return [
        *(given(operand_type, array) for array in (values, feature, time)),
        absent(operand_type) if bias is None else given(operand_type, bias),
        given(operand_type, state),
        given(OperandType.INT32, rank),
        given(OperandType.INT32, activation),
    ]


@sweep("has_bias", [False, True])
@sweep("activation", [NONE, RELU, RELU1, RELU6, TANH, SIGMOID])
@sweep(("batch", "size", "units", "rank", "memory"), [(2, 3, 4, 1, 5), (3, 2, 3, 2, 4), (1, 1, 1, 1, 1)])
@sweep("operand_type", FLOAT_TYPES)
def test_remembers_the_last_inputs(
    operand_type: OperandType,
    batch: int,
    size: int,
    units: int,
    rank: int,
    memory: int,
    activation: int,
    has_bias: bool,
) -> None:
    generator = np.random.default_rng(1)
    feature = floats(generator, operand_type, units * rank, size)
    time = floats(generator, operand_type, units * rank, memory)
    bias = floats(generator, operand_type, units) if has_bias else None
    state = np.zeros((batch, units * rank * memory), operand_type.dtype)
    history: list[Array] = []
    for _ in range(memory + 2):
        history.append(floats(generator, operand_type, batch, size))
        inputs = arguments(operand_type, history[-1], feature, time, bias, state, rank, activation)
        state, output = evaluate_all(SVDF, inputs, *outputs(operand_type))
        expected = np.zeros((batch, units))
        for row, unit in np.ndindex(batch, units):
            total = 0.0 if bias is None else float(bias[unit])
            for filter_ in range(unit * rank, (unit + 1) * rank):
                for age, values in enumerate(history[: -memory - 1 : -1]):
                    total += dot(values[row].tolist(), feature, filter_) * float(
                        time[filter_, memory - 1 - age]
                    )
            expected[row, unit] = activated(activation, total)
        assert_close(output, expected, operand_type)
        assert not state.reshape(batch, units * rank, memory)[:, :, -1].any()


def test_the_newest_column_of_the_state_is_free() -> None:
    generator = np.random.default_rng(2)
    state = floats(generator, FLOAT32, 2, 12)
    parts = (
        floats(generator, FLOAT32, 2, 3),
        floats(generator, FLOAT32, 4, 3),
        floats(generator, FLOAT32, 4, 3),
    )
    first = evaluate_all(SVDF, arguments(FLOAT32, *parts, None, state, 2), *outputs(FLOAT32))
    changed = state.reshape(2, 4, 3).copy()
    changed[:, :, -1] = 99
    second = evaluate_all(
        SVDF, arguments(FLOAT32, *parts, None, changed.reshape(2, 12), 2), *outputs(FLOAT32)
    )
    for before, after in zip(first, second, strict=True):
        np.testing.assert_array_equal(before, after)


def test_no_batch() -> None:
    zeros = [np.zeros(shape) for shape in ((0, 3), (4, 3), (4, 5), (2,), (0, 20))]
    state, output = evaluate_all(
        SVDF,
        arguments(FLOAT32, zeros[0], zeros[1], zeros[2], zeros[3], zeros[4], 2),
        *outputs(FLOAT32),
    )
    assert (state.shape, output.shape) == ((0, 20), (0, 2))


@sweep(
    ("position", "shape", "message"),
    [
        (0, (2, 4), r"operand 1 \(weights_feature of SVDF\) has shape \[4, 3\]; \[4, 4\]"),
        (1, (3, 3), r"operand 1 \(weights_feature of SVDF\) has shape \[3, 3\]; \[4, 3\]"),
        (2, (4, 6), r"operand 4 \(state_in of SVDF\) has shape \[2, 20\]; \[2, 24\]"),
        (2, (4, 0), r"operand 2 \(weights_time of SVDF\) has shape \[4, 0\]; at least 1"),
        (3, (4,), r"operand 3 \(bias of SVDF\) has shape \[4\]; \[2\]"),
        (4, (3, 20), r"operand 4 \(state_in of SVDF\) has shape \[3, 20\]; \[2, 20\]"),
        (4, (20,), r"operand 4 .* has rank 1; rank 2"),
    ],
)
def test_refuses_shapes(position: int, shape: tuple[int, ...], message: str) -> None:
    shapes = [(2, 3), (4, 3), (4, 5), (2,), (2, 20)]
    shapes[position] = shape
    arrays = [np.zeros(s) for s in shapes]
    inputs = arguments(FLOAT32, arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], 2)
    with pytest.raises(BadData, match=message):
        check(SVDF, inputs, *outputs(FLOAT32))


@sweep(
    ("rank", "activation", "message"),
    [
        (0, NONE, r"operand 5 \(rank of SVDF\) is 0; it must be at least 1"),
        (-2, NONE, "operand 5 .* is -2; it must be at least 1"),
        (
            3,
            NONE,
            r"operand 5 \(rank of SVDF\) is 3; a divisor of 4, the rows of operand 1 \(weights_feature",
        ),
        (2, SIGN_BIT, r"operand 6 \(cell_activation of SVDF\) is 5; one of"),
    ],
)
def test_refuses_parameters(rank: int, activation: int, message: str) -> None:
    arrays = [np.zeros(s) for s in ((2, 3), (4, 3), (4, 5), (2, 20))]
    inputs = arguments(FLOAT32, arrays[0], arrays[1], arrays[2], None, arrays[3], rank, activation)
    with pytest.raises(BadData, match=message):
        check(SVDF, inputs, *outputs(FLOAT32))


def test_only_the_bias_is_optional() -> None:
    for position in (0, 1, 2, 4):
        arrays = [np.zeros(s) for s in ((2, 3), (4, 3), (4, 5), (2, 20))]
        inputs = arguments(FLOAT32, arrays[0], arrays[1], arrays[2], None, arrays[3], 2)
        inputs[position] = omitted(FLOAT32)
        with pytest.raises(BadData, match=rf"operand {position} .* is omitted; it is not optional"):
            check(SVDF, inputs, *outputs(FLOAT32))


@sweep(("operand_type", "level"), [(FLOAT32, FeatureLevel.LEVEL_1), (FLOAT16, FeatureLevel.LEVEL_3)])
def test_levels(operand_type: OperandType, level: FeatureLevel) -> None:
    arrays = [np.zeros(s) for s in ((2, 3), (4, 3), (4, 5), (2, 20))]
    inputs = arguments(operand_type, arrays[0], arrays[1], arrays[2], None, arrays[3], 2)
    assert level_of(SVDF, inputs, *outputs(operand_type)) == level

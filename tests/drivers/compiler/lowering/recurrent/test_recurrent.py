"""Float cells against the references: LSTM, RNN and SVDF, single steps and sequences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same
from support.operations.recurrent import (
    AUXILIARY_NAMES,
    CELL_NAMES,
    NORM_NAMES,
    RELU6,
    SIGMOID,
    TANH,
    absent,
    floats,
    givens,
    random_cell,
)
from support.operations.single_operation import FLOAT_TYPES, Given, given, scalars, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, FLOAT16, INT8 = *FLOAT_TYPES, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
SIZE, UNITS = 5, 4

#: All optional parts of an LSTM cell; projected outputs differ in number from the units.
CELLS: tuple[dict[str, Any], ...] = (
    {},
    {"coupled": True},
    {"peephole": True},
    {"projection": 1},
    {"projection": 2, "peephole": True},
    {"norm": True},
    {"coupled": True, "peephole": True, "norm": True, "projection": 2},
)
FLOAT_CELLS = [*((FLOAT32, options) for options in CELLS), (FLOAT16, CELLS[0]), (FLOAT16, CELLS[-1])]


def compare(result: Array, expected: Array) -> None:
    tolerance = 2e-5 if result.dtype.itemsize == 4 else 3e-3
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def settings(kind: OperandType, activation: int, cell_clip: float, projection_clip: float) -> list[Given]:
    clip_type = OperandType.FLOAT16 if kind is FLOAT16 else OperandType.FLOAT32
    return [*scalars(activation), given(clip_type, cell_clip), given(clip_type, projection_clip)]


def states(kind: OperandType, batch: int, options: Mapping[str, Any]) -> list[Given]:
    generator = np.random.default_rng(9)
    outputs = 3 if options.get("projection") else UNITS
    return [given(kind, floats(generator, kind, batch, length)) for length in (outputs, UNITS)]


def cell_of(kind: OperandType, options: Mapping[str, Any], seed: int = 0) -> dict[str, Array | None]:
    outputs = 3 if options.get("projection") else UNITS
    return random_cell(np.random.default_rng(seed), kind, (SIZE, UNITS, outputs), **options)


def quantized_weights(inputs: Sequence[Given]) -> list[Given]:
    """Quantises weights to 8 bits; omitted weights get that type, too."""
    generator = np.random.default_rng(3)
    return [
        absent(INT8)
        if each.value is None
        else given(INT8, generator.integers(-127, 128, each.value.shape), 0.01 + 0.001 * position)
        for position, each in enumerate(inputs)
    ]


def hybrid_cell(inputs: Sequence[Given]) -> list[Given]:
    """Returns the operands with 8-bit weights; biases are unchanged."""
    quantized = quantized_weights(inputs)
    return [
        quantized[position] if "weights" in name else inputs[position]
        for position, name in enumerate(CELL_NAMES)
    ]


def outputs_of(count: int, kind: OperandType) -> list[Operand]:
    return [wanted(kind) for _ in range(count)]


@sweep(("kind", "options"), FLOAT_CELLS)
def test_lstm(kind: OperandType, options: dict[str, Any]) -> None:
    cell = cell_of(kind, options)
    source = given(kind, floats(np.random.default_rng(1), kind, 3, SIZE))
    inputs = [
        source,
        *givens(cell, CELL_NAMES, kind),
        *states(kind, 3, options),
        *settings(kind, TANH, 0.4, 0.3),
        *(givens(cell, NORM_NAMES, kind) if options.get("norm") else ()),
    ]
    constants_known = [0, len(CELL_NAMES) + 1, len(CELL_NAMES) + 2]
    expect_same(OperationType.LSTM, inputs, *outputs_of(4, kind), data=constants_known, compare=compare)


def test_lstm_with_weights_as_inputs() -> None:
    """Mandatory weights are never omitted."""
    cell = cell_of(FLOAT16, {})
    inputs = [
        given(FLOAT16, floats(np.random.default_rng(1), FLOAT16, 3, SIZE)),
        *givens(cell, CELL_NAMES, FLOAT16),
        *states(FLOAT16, 3, {}),
        *settings(FLOAT16, SIGMOID, 0.0, 0.0),
    ]
    data = [0, *(1 + CELL_NAMES.index(f"input_to_{gate}_weights") for gate in ("forget", "cell", "output"))]
    expect_same(OperationType.LSTM, inputs, *outputs_of(4, FLOAT16), data=data, compare=compare)


@sweep("asymmetric", [False, True])
@sweep("options", CELLS)
def test_lstm_with_8_bit_weights(options: dict[str, Any], *, asymmetric: bool) -> None:
    cell = cell_of(FLOAT32, options)
    inputs = [
        given(FLOAT32, floats(np.random.default_rng(1), FLOAT32, 3, SIZE)),
        *hybrid_cell(givens(cell, CELL_NAMES, FLOAT32)),
        *states(FLOAT32, 3, options),
        *settings(FLOAT32, RELU6, 0.0, 0.0),
        *givens(cell, NORM_NAMES, FLOAT32),
        *scalars(asymmetric),
    ]
    expect_same(OperationType.TFLITE_LSTM, inputs, *outputs_of(4, FLOAT32), compare=compare)


@sweep(("kind", "options"), FLOAT_CELLS)
@sweep("time_major", [False, True])
def test_sequence_lstm(kind: OperandType, options: dict[str, Any], *, time_major: bool) -> None:
    cell = cell_of(kind, options)
    shape = (4, 2) if time_major else (2, 4)
    inputs = [
        given(kind, floats(np.random.default_rng(1), kind, *shape, SIZE)),
        *givens(cell, CELL_NAMES, kind),
        *states(kind, 2, options),
        *settings(kind, TANH, 0.0, 0.3),
        *scalars(time_major),
        *givens(cell, NORM_NAMES, kind),
    ]
    sequence = OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM
    for count in (1, 3):
        expect_same(sequence, inputs, *outputs_of(count, kind), compare=compare)


@sweep("asymmetric", [False, True])
@sweep("options", CELLS[-2:])
def test_sequence_lstm_with_8_bit_weights(options: dict[str, Any], *, asymmetric: bool) -> None:
    cell = cell_of(FLOAT32, options)
    inputs = [
        given(FLOAT32, floats(np.random.default_rng(1), FLOAT32, 2, 3, SIZE)),
        *hybrid_cell(givens(cell, CELL_NAMES, FLOAT32)),
        *states(FLOAT32, 2, options),
        *settings(FLOAT32, TANH, 0.0, 0.0),
        *scalars(False),
        *givens(cell, NORM_NAMES, FLOAT32),
        *scalars(asymmetric),
    ]
    sequence = OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM
    expect_same(sequence, inputs, *outputs_of(3, FLOAT32), compare=compare)


@sweep(("steps", "batch"), [(0, 1), (1, 1), (30, 1), (2, 0)])
def test_long_and_empty_sequences(steps: int, batch: int) -> None:
    cell = cell_of(FLOAT32, {})
    inputs = [
        given(FLOAT32, floats(np.random.default_rng(1), FLOAT32, steps, batch, SIZE)),
        *givens(cell, CELL_NAMES, FLOAT32),
        *states(FLOAT32, batch, {}),
        *settings(FLOAT32, TANH, 0.0, 0.0),
        *scalars(True),
        *givens(cell, NORM_NAMES, FLOAT32),
    ]
    sequence = OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM
    expect_same(sequence, inputs, *outputs_of(3, FLOAT32), compare=compare)


def test_too_many_steps_are_refused() -> None:
    inputs = [given(FLOAT32, np.zeros((1000, 1, SIZE))), *rnn_cell(FLOAT32, 1), *scalars(TANH, 1)]
    with pytest.raises(Unsupported, match="1000 steps"):
        expect_same(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, inputs, wanted(FLOAT32))


def linking(kind: OperandType, auxiliary: str, shape: tuple[int, int]) -> tuple[int, Given]:
    """Returns the row length of the auxiliary input, and that input."""
    if auxiliary == "none":
        return 0, absent(kind)
    size = SIZE if auxiliary == "parallel" else 3
    return size, given(kind, floats(np.random.default_rng(6), kind, *shape, size))


@sweep(("kind", "options"), [(FLOAT32, CELLS[-1]), (FLOAT16, CELLS[0])])
@sweep("auxiliary", ["none", "cross", "parallel"])
@sweep(("merged", "time_major"), [(False, False), (True, False), (True, True)])
def test_bidirectional_lstm(
    kind: OperandType, auxiliary: str, options: dict[str, Any], *, merged: bool, time_major: bool
) -> None:
    shape = (3, 2) if time_major else (2, 3)
    size, source = linking(kind, auxiliary, shape)
    extra = {**options, "auxiliary": size if auxiliary == "cross" else 0}
    cells = [cell_of(kind, extra, seed) for seed in (0, 1)]
    inputs = [
        given(kind, floats(np.random.default_rng(1), kind, *shape, SIZE)),
        *(operand for cell in cells for operand in givens(cell, CELL_NAMES, kind)),
        *(operand for _ in cells for operand in states(kind, 2, options)),
        source,
        *(operand for cell in cells for operand in givens(cell, AUXILIARY_NAMES, kind)),
        *settings(kind, TANH, 0.0, 0.0),
        *scalars(merged, time_major),
        *(operand for cell in cells for operand in givens(cell, NORM_NAMES, kind)),
    ]
    operation = OperationType.BIDIRECTIONAL_SEQUENCE_LSTM
    last = 4 if auxiliary == "cross" else 0
    expect_same(operation, inputs, *outputs_of(2 - merged + last, kind), compare=compare)


@sweep("auxiliary", ["none", "cross", "parallel"])
@sweep("asymmetric", [False, True])
def test_bidirectional_lstm_with_8_bit_weights(auxiliary: str, *, asymmetric: bool) -> None:
    size, source = linking(FLOAT32, auxiliary, (3, 2))
    options = {"peephole": True, "auxiliary": size if auxiliary == "cross" else 0}
    cells = [cell_of(FLOAT32, options, seed) for seed in (0, 1)]
    inputs = [
        given(FLOAT32, floats(np.random.default_rng(1), FLOAT32, 3, 2, SIZE)),
        *(operand for cell in cells for operand in hybrid_cell(givens(cell, CELL_NAMES, FLOAT32))),
        *(operand for _ in cells for operand in states(FLOAT32, 2, options)),
        source,
        *(operand for cell in cells for operand in quantized_weights(givens(cell, AUXILIARY_NAMES, FLOAT32))),
        *settings(FLOAT32, TANH, 0.0, 0.0),
        *scalars(True, True),
        *(operand for cell in cells for operand in givens(cell, NORM_NAMES, FLOAT32)),
        *scalars(asymmetric),
    ]
    operation = OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM
    expect_same(operation, inputs, *outputs_of(5, FLOAT32), compare=compare)


def rnn_cell(kind: OperandType, batch: int) -> list[Given]:
    generator = np.random.default_rng(4)
    shapes = ((UNITS, SIZE), (UNITS, UNITS), (UNITS,), (batch, UNITS))
    return [given(kind, floats(generator, kind, *shape)) for shape in shapes]


def hybrid_rnn(cell: Sequence[Given]) -> list[Given]:
    return [*quantized_weights(cell[:2]), *cell[2:]]


@sweep("kind", FLOAT_TYPES)
@sweep("activation", [0, 1, 2, 3, TANH, SIGMOID])
def test_rnn(kind: OperandType, activation: int) -> None:
    inputs = [
        given(kind, floats(np.random.default_rng(1), kind, 3, SIZE)),
        *rnn_cell(kind, 3),
        *scalars(activation),
    ]
    expect_same(OperationType.RNN, inputs, *outputs_of(2, kind), data=range(5), compare=compare)


@sweep("kind", FLOAT_TYPES)
@sweep("time_major", [0, 1])
def test_sequence_rnn(kind: OperandType, time_major: int) -> None:
    shape = (5, 2) if time_major else (2, 5)
    inputs = [
        given(kind, floats(np.random.default_rng(1), kind, *shape, SIZE)),
        *rnn_cell(kind, 2),
        *scalars(TANH, time_major),
    ]
    sequence = OperationType.UNIDIRECTIONAL_SEQUENCE_RNN
    expect_same(sequence, inputs, *outputs_of(1, kind), compare=compare)
    expect_same(sequence, inputs, *outputs_of(2, kind), data=range(5), compare=compare)


@sweep("asymmetric", [False, True])
def test_rnn_with_8_bit_weights(*, asymmetric: bool) -> None:
    cell = hybrid_rnn(rnn_cell(FLOAT32, 2))
    source = floats(np.random.default_rng(1), FLOAT32, 3, 2, SIZE)
    step = [given(FLOAT32, source[0]), *cell, *scalars(TANH, asymmetric)]
    expect_same(OperationType.TFLITE_RNN, step, *outputs_of(2, FLOAT32), data=range(5), compare=compare)
    sequence = [given(FLOAT32, source), *cell, *scalars(TANH, 1, asymmetric)]
    operation = OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN
    expect_same(operation, sequence, *outputs_of(2, FLOAT32), compare=compare)


@sweep("kind", [*FLOAT_TYPES, INT8])
@sweep("auxiliary", ["none", "cross", "parallel"])
@sweep(("merged", "time_major"), [(False, False), (True, False), (True, True)])
def test_bidirectional_rnn(kind: OperandType, auxiliary: str, *, merged: bool, time_major: bool) -> None:
    """The type INT8 stands for floats with 8-bit weights."""
    data = FLOAT32 if kind is INT8 else kind
    shape = (3, 2) if time_major else (2, 3)
    size, source = linking(data, auxiliary, shape)
    weights = given(data, floats(np.random.default_rng(7), data, UNITS, size))
    links = [weights if auxiliary == "cross" else absent(kind)] * 2
    cell = rnn_cell(data, 2)
    if kind is INT8:
        cell = hybrid_rnn(cell)
        links = quantized_weights(links)
    inputs = [
        given(data, floats(np.random.default_rng(1), data, *shape, SIZE)),
        *cell,
        *cell,
        source,
        *links,
        *scalars(TANH, time_major, merged),
        *(scalars(True) if kind is INT8 else ()),
    ]
    operation = OperationType.BIDIRECTIONAL_SEQUENCE_RNN
    if kind is INT8:
        operation = OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN
    last = 2 if auxiliary == "parallel" else 0
    expect_same(operation, inputs, *outputs_of(2 - merged + last, data), compare=compare)


def svdf_inputs(kind: OperandType, rank: int, length: int, *, has_bias: bool) -> list[Given]:
    generator, filters = np.random.default_rng(8), 6
    shapes = ((3, SIZE), (filters, SIZE), (filters, length), (filters // rank,), (3, filters * length))
    inputs = [given(kind, floats(generator, kind, *shape)) for shape in shapes]
    if not has_bias:
        inputs[3] = absent(kind)
    return [*inputs, *scalars(rank, TANH)]


@sweep("kind", FLOAT_TYPES)
@sweep(("rank", "length"), [(1, 4), (2, 3), (6, 2), (3, 1)])
@sweep("has_bias", [False, True])
def test_svdf(kind: OperandType, rank: int, length: int, *, has_bias: bool) -> None:
    inputs = svdf_inputs(kind, rank, length, has_bias=has_bias)
    data = (0, 1, 2, 4)
    expect_same(OperationType.SVDF, inputs, *outputs_of(2, kind), data=data, compare=compare)


@sweep("asymmetric", [False, True])
def test_svdf_with_8_bit_weights(*, asymmetric: bool) -> None:
    inputs = svdf_inputs(FLOAT32, 2, 4, has_bias=True)
    inputs[1:3] = quantized_weights(inputs[1:3])
    operation = OperationType.TFLITE_SVDF
    expect_same(operation, [*inputs, *scalars(asymmetric)], *outputs_of(2, FLOAT32), compare=compare)


@sweep(("rank", "length"), [(1, 4), (2, 3), (3, 1)])
def test_integer_svdf(rank: int, length: int) -> None:
    generator, filters = np.random.default_rng(8), 6
    short = OperandType.TENSOR_QUANT16_SYMM
    inputs = [
        given(INT8, generator.integers(-128, 128, (3, SIZE)), 0.05, -7),
        given(INT8, generator.integers(-128, 128, (filters, SIZE)), 0.02),
        given(short, generator.integers(-32768, 32768, (filters, length)), 0.0001),
        given(OperandType.TENSOR_INT32, generator.integers(-(2**20), 2**20, filters // rank), 1e-7),
        given(short, generator.integers(-32768, 32768, (3, filters * length)), 0.001),
        *scalars(rank, 0, False),
    ]
    outputs = wanted(short, 0.001), wanted(INT8, 0.4, 3)
    expect_same(OperationType.TFLITE_SVDF, inputs, *outputs, data=(0, 4))

"""Cells with 8-bit weights, against Android's operations on the same weights as floats.

The rows are multiples of the step of their range, so that their quantisation is exact. States are
zeros.
"""

import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate_all, given, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.recurrent.recurrent import quantized

FLOAT32, INT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
BATCH, SIZE, UNITS, SCALE = 3, 6, 5, 0.01

Pair = tuple[Given, Given]


def exact_rows(*shape: int, seed: int = 0) -> Array:
    """Returns rows whose largest element is 127 steps."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-127, 128, shape)
    steps[..., 0] = 127
    rows: Array = (steps * rng.choice([0.5, 0.25, 2], (*shape[:-1], 1))).astype(np.float32)
    return rows


def weights(*shape: int, seed: int = 0) -> Pair:
    """Returns the same weights quantised and as floats."""
    values = np.random.default_rng(seed).integers(-127, 128, shape)
    return given(INT8, values, SCALE), given(FLOAT32, values.astype(np.float64) * np.float32(SCALE))


def same(value: Given) -> Pair:
    return value, value


def floats(*shape: int, seed: int = 0) -> Pair:
    return same(given(FLOAT32, np.random.default_rng(seed).standard_normal(shape)))


def zeros(*shape: int) -> Pair:
    return same(given(FLOAT32, np.zeros(shape)))


def compare(operation_type: OperationType, arguments: list[Pair], outputs: int) -> None:
    hybrid = OperationType[f"TFLITE_{operation_type.name}"]
    weights, real = ([pair[side] for pair in arguments] for side in (0, 1))
    found = evaluate_all(hybrid, [*weights, *scalars(False)], *[wanted(FLOAT32)] * outputs)
    expected = evaluate_all(operation_type, real, *[wanted(FLOAT32)] * outputs)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def lstm_cell(*, coupled: bool) -> list[Pair]:
    none = same(omitted(FLOAT32))
    matrices = [weights(UNITS, size, seed=seed) for seed, size in enumerate([SIZE] * 4 + [UNITS] * 4)]
    biases = [floats(UNITS, seed=seed) for seed in range(4)]
    if coupled:
        matrices[0] = matrices[4] = biases[0] = none
    return [*matrices, none, none, none, *biases, none, none]


@sweep("coupled", [False, True])
def test_lstm(*, coupled: bool) -> None:
    cell = [*lstm_cell(coupled=coupled), zeros(BATCH, UNITS), zeros(BATCH, UNITS)]
    settings = [same(value) for value in scalars(4, 0.0, 0.0)]
    x = same(given(FLOAT32, exact_rows(BATCH, SIZE) / 64))
    compare(OperationType.LSTM, [x, *cell, *settings], 4)
    x = same(given(FLOAT32, exact_rows(BATCH, 1, SIZE) / 64))
    arguments = [x, *cell, *settings, *map(same, scalars(False)), *[same(omitted(FLOAT32))] * 4]
    compare(OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM, arguments, 3)


def test_bidirectional_lstm() -> None:
    none = same(omitted(FLOAT32))
    x = same(given(FLOAT32, exact_rows(BATCH, 1, SIZE) / 64))
    states = [zeros(BATCH, UNITS)] * 4
    settings = [same(value) for value in scalars(4, 0.0, 0.0, True, False)]
    cells = [*lstm_cell(coupled=False), *lstm_cell(coupled=True)]
    arguments = [x, *cells, *states, *[none] * 9, *settings, *[none] * 8]
    compare(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, arguments, 5)


def test_basic_cells() -> None:
    cell = [weights(UNITS, SIZE), weights(UNITS, UNITS, seed=1), floats(UNITS), zeros(BATCH, UNITS)]
    x = same(given(FLOAT32, exact_rows(BATCH, SIZE) / 64))
    compare(OperationType.RNN, [x, *cell, *map(same, scalars(4))], 2)
    x = same(given(FLOAT32, exact_rows(BATCH, 1, SIZE) / 64))
    compare(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, [x, *cell, *map(same, scalars(4, 0))], 2)
    arguments = [x, *cell, *cell, *[same(omitted(FLOAT32))] * 3, *map(same, scalars(4, False, False))]
    compare(OperationType.BIDIRECTIONAL_SEQUENCE_RNN, arguments, 4)


def test_svdf() -> None:
    arguments = [
        same(given(FLOAT32, exact_rows(BATCH, SIZE))),
        weights(UNITS * 2, SIZE),
        weights(UNITS * 2, 3, seed=1),
        floats(UNITS),
        floats(BATCH, UNITS * 6),
        *map(same, scalars(2, 0)),
    ]
    compare(OperationType.SVDF, arguments, 2)


@sweep("asymmetric", [False, True])
def test_quantized_products_are_close_to_the_real_ones(*, asymmetric: bool) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (UNITS, SIZE)).astype(np.int8)
    rows = (rng.standard_normal((BATCH, SIZE)) + 3).astype(np.float32)
    rows[1] = 0
    result = quantized(weights, SCALE, asymmetric=asymmetric)(rows)
    exact = rows @ (weights * np.float32(SCALE)).T
    assert result.dtype == np.float32
    assert not result[1].any()
    # The error of an element is at most half a step of its row.
    step = np.ptp(np.append(rows, np.zeros((BATCH, 1), np.float32), axis=1), axis=1) / (
        255 if asymmetric else 127
    )
    bound = step[:, np.newaxis] * (0.5 * np.abs(weights).sum(axis=1) * SCALE + 0.01)
    assert (np.abs(result - exact) <= bound + 1e-5).all()


def test_refuses_mixed_weights() -> None:
    cell = [weights(UNITS, SIZE)[0], weights(UNITS, UNITS)[1], floats(UNITS)[0], zeros(BATCH, UNITS)[0]]
    arguments = [given(FLOAT32, np.zeros((BATCH, SIZE))), *cell, *scalars(4, False)]
    with pytest.raises(BadData, match="TENSOR_QUANT8_ASYMM_SIGNED"):
        evaluate_all(OperationType.TFLITE_RNN, arguments, wanted(FLOAT32), wanted(FLOAT32))

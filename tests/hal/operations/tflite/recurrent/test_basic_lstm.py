"""The basic integer LSTM cell equals Android's QUANTIZED_16BIT_LSTM if no sum is rounded."""

import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate_all, given, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

UINT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT16_SYMM
INT32 = OperandType.TENSOR_INT32
BASIC, ANDROID = OperationType.TFLITE_LSTM, OperationType.QUANTIZED_16BIT_LSTM
BYTES, CELL = (1 / 128, 128), 2.0**-11
OUTPUTS = (wanted(UINT8, *BYTES, rank=2), wanted(INT16, CELL, rank=2))
UNITS, ELEMENTS, BATCH = 4, 3, 2
#: Products have the scale of the activation functions' arguments.
WEIGHT, BIAS = 2.0**-5, 2.0**-12


def quantized(seed: int) -> list[Array]:
    """Returns input, last output, weights, bias and cell state."""
    generator = np.random.default_rng(seed)
    return [
        generator.integers(0, 256, (BATCH, ELEMENTS)),
        generator.integers(0, 256, (BATCH, UNITS)),
        generator.integers(0, 256, (4 * UNITS, ELEMENTS + UNITS)),
        generator.integers(-3000, 3000, 4 * UNITS),
        generator.integers(-(2**15), 2**15, (BATCH, UNITS)),
    ]


def arguments(values: list[Array], bias_scale: float = BIAS) -> list[Given]:
    last, state = values[1], values[4]
    return [
        given(UINT8, values[0], *BYTES),
        given(UINT8, last, *BYTES),
        given(UINT8, values[2], WEIGHT, 120),
        given(INT32, values[3], bias_scale),
        given(INT16, state, CELL),
    ]


@sweep("seed", range(5))
def test_equals_the_operation_of_android(seed: int) -> None:
    values = quantized(seed)
    # Android's order of gates is input, forget, cell, output.
    gates = [np.split(values[position], 4)[gate] for position in (2, 3) for gate in (0, 2, 1, 3)]
    weights, biases = gates[:4], gates[4:]
    android = [
        given(UINT8, values[0], *BYTES),
        # Split as a client of Android does to get TFLite's results.
        *(given(UINT8, matrix[:, UNITS:], WEIGHT, 120) for matrix in weights),
        *(given(UINT8, matrix[:, :UNITS], WEIGHT, 120) for matrix in weights),
        *(given(INT32, bias, BIAS) for bias in biases),
        given(INT16, values[4], CELL),
        given(UINT8, values[1], *BYTES),
    ]
    state, output = evaluate_all(ANDROID, android, *OUTPUTS[::-1])
    found = evaluate_all(BASIC, arguments(values), *OUTPUTS)
    np.testing.assert_array_equal(found[0], output)
    np.testing.assert_array_equal(found[1], state)


@sweep(
    ("position", "message"),
    [
        (1, r"output_state_in of .* has shape \[4, 4\]|cell_state_in .* has shape \[2, 4\]"),
        (2, r"weights of .* has shape \[32, 7\]; \[16, 7\] is expected"),
        (3, r"bias of .* has shape \[32\]; \[16\] is expected"),
        (4, r"cell_state_in of .* has shape \[4, 4\]; \[2, 4\] is expected"),
    ],
)
def test_refuses_shapes(position: int, message: str) -> None:
    values = quantized(0)
    values[position] = np.repeat(values[position], 2, axis=0)
    with pytest.raises(BadData, match=message):
        evaluate_all(BASIC, arguments(values), *OUTPUTS)


def test_refuses_scales() -> None:
    with pytest.raises(BadData, match=r"bias of .* has no scale"):
        evaluate_all(BASIC, arguments(quantized(0), 0.0), *OUTPUTS)
    with pytest.raises(BadData, match=r"cell_state_out of .* has scale 0\.000976562; 0\.000488281 is"):
        evaluate_all(BASIC, arguments(quantized(0)), OUTPUTS[0], wanted(INT16, 2 * CELL, rank=2))

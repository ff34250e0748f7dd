"""Integer SVDF, against loops over the arithmetic of its definition."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from support.operations.single_operation import evaluate_all, given, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
INT32 = OperandType.TENSOR_INT32
SVDF = OperationType.TFLITE_SVDF
INPUT, FEATURES, STATE, TIMES, OUTPUT = 2.0**-4, 2.0**-7, 2.0**-11, 2.0**-15, 2.0**-5


def scaled(value: int, factor: float) -> int:
    """Rounds a product to nearest, ties away from zero; it is exact, as factors are powers of 2."""
    real = abs(Fraction(value) * Fraction(factor))
    return floor(real + Fraction(1, 2)) * (1 if value >= 0 else -1)


@sweep(("batch", "size", "units", "rank", "length"), [(2, 3, 4, 2, 5), (1, 8, 3, 1, 1), (3, 1, 1, 3, 4)])
@sweep("with_bias", [False, True])
def test_steps(batch: int, size: int, units: int, rank: int, length: int, *, with_bias: bool) -> None:
    rng, filters, zero_point = np.random.default_rng(0), units * rank, -7
    x = rng.integers(-128, 128, (batch, size))
    features = rng.integers(-127, 128, (filters, size))
    times = rng.integers(-32767, 32768, (filters, length))
    bias = rng.integers(-(10**6), 10**6, units)
    state = rng.integers(-32768, 32768, (batch, filters * length))
    new_state, output = evaluate_all(
        SVDF,
        (
            given(INT8, x, INPUT, zero_point),
            given(INT8, features, FEATURES),
            given(INT16, times, TIMES),
            given(INT32, bias) if with_bias else omitted(INT32),
            given(INT16, state, STATE),
            *scalars(rank, 0, False),
        ),
        wanted(INT16, STATE),
        wanted(INT8, OUTPUT, 5),
    )
    for image in range(batch):
        memory = state[image].reshape(filters, length).copy()
        for index in range(filters):
            total = sum(int(x[image, k] - zero_point) * int(features[index, k]) for k in range(size))
            value = scaled(total, INPUT * FEATURES / STATE)
            memory[index, -1] = min(max(value, -32768), 32767)
        assert new_state[image].reshape(filters, length)[:, :-1].tolist() == memory[:, 1:].tolist()
        for unit in range(units):
            total = int(bias[unit]) if with_bias else 0
            for index in range(unit * rank, unit * rank + rank):
                total += sum(int(a) * int(b) for a, b in zip(memory[index], times[index], strict=True))
            total = (total + (1 << 31)) % (1 << 32) - (1 << 31)
            expected = scaled(total, STATE * TIMES / OUTPUT) + 5
            assert abs(output[image, unit] - min(max(expected, -128), 127)) <= 1


def test_refuses_mixed_types() -> None:
    zeros = np.zeros((1, 2))
    arguments = (
        given(INT8, zeros, INPUT),
        given(INT8, zeros, FEATURES),
        given(INT8, zeros, TIMES),
        omitted(INT32),
        given(INT16, zeros, STATE),
        *scalars(1, 0, False),
    )
    with pytest.raises(BadData, match="weights_time"):
        evaluate_all(SVDF, arguments, wanted(INT16, STATE), wanted(INT8, OUTPUT))

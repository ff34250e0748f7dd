"""Scales of sums of products, where float32 and float64 products give different results."""

import numpy as np
import pytest
from support.operations.exact import multiplier, times
from support.operations.single_operation import evaluate, given, scalars, wanted

from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

UNSIGNED, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL, INT32 = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, OperandType.TENSOR_INT32
#: Scales of two factors and of the output for which `SUM` is next to a tie.
FIRST, SECOND, OUTPUT = (float(np.float32(each)) for each in (0.0159, 0.0168, 0.072))
SUM = 254 * 70 + 12 * 12
#: The results for products of scales in float32 and float64.
SINGLE, DOUBLE = (
    times(SUM, *multiplier(product / OUTPUT))
    for product in (float(np.float32(FIRST) * np.float32(SECOND)), FIRST * SECOND)
)


def factors(kind: OperandType) -> tuple[Array, int, Array]:
    """Returns values whose products add up to `SUM`, their zero point, and weights."""
    zero_point = 0 if kind is UNSIGNED else -128
    return np.array([[254, 12]]) + zero_point, zero_point, np.array([[70, 12]])


def test_the_products_give_different_results() -> None:
    assert (SINGLE, DOUBLE) == (67, 66)


@pytest.mark.parametrize(
    ("kind", "filter_type", "expected"),
    [(UNSIGNED, UNSIGNED, SINGLE), (SIGNED, SIGNED, DOUBLE), (UNSIGNED, PER_CHANNEL, DOUBLE)],
)
def test_convolutions(kind: OperandType, filter_type: OperandType, expected: int) -> None:
    values, zero_point, weights = factors(kind)
    is_per_channel = filter_type is PER_CHANNEL
    quant = ChannelQuant(dimension=0, scales=(SECOND,)) if is_per_channel else None
    inputs = (
        given(kind, values.reshape(1, 1, 1, 2), FIRST, zero_point),
        given(
            filter_type,
            weights.reshape(1, 1, 1, 2),
            0.0 if is_per_channel else SECOND,
            channel_quant=quant,
        ),
        given(INT32, [0], 0.0 if is_per_channel else float(np.float32(FIRST) * np.float32(SECOND))),
        *scalars(1, 1, 1, 0),
    )
    result = evaluate(OperationType.CONV_2D, inputs, wanted(kind, OUTPUT, zero_point))
    assert result.item() == expected + zero_point


@pytest.mark.parametrize("kind", [UNSIGNED, SIGNED])
def test_fully_connected_layers(kind: OperandType) -> None:
    values, zero_point, weights = factors(kind)
    inputs = (
        given(kind, values, FIRST, zero_point),
        given(kind, weights, SECOND),
        given(INT32, [0], float(np.float32(FIRST) * np.float32(SECOND))),
        *scalars(0),
    )
    result = evaluate(OperationType.FULLY_CONNECTED, inputs, wanted(kind, OUTPUT, zero_point))
    assert result.item() == SINGLE + zero_point


def test_products_of_matrices() -> None:
    values, zero_point, weights = factors(SIGNED)
    inputs = (given(SIGNED, values, FIRST, zero_point), given(SIGNED, weights.T, SECOND))
    result = evaluate(OperationType.BATCH_MATMUL, inputs, wanted(SIGNED, OUTPUT, zero_point))
    assert result.item() == SINGLE + zero_point

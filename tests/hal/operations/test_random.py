import math
from typing import Any

import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    scalars,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array

MULTINOMIAL = OperationType.RANDOM_MULTINOMIAL
FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
INT32 = OperandType.TENSOR_INT32


def inputs(logits: Any, samples: int, seeds: Given, operand_type: OperandType = FLOAT32) -> list[Given]:
    return [given(operand_type, logits), *scalars(samples), seeds]


def draw(logits: Any, samples: int, *seeds: int, operand_type: OperandType = FLOAT32) -> Array:
    return evaluate(MULTINOMIAL, inputs(logits, samples, ints(*seeds), operand_type), wanted(INT32))


@sweep("seeds", [(37, 42), (-1, 5), (0, 0), (2**31 - 1, -(2**31))])
@sweep("operand_type", [FLOAT32, FLOAT16])
def test_frequencies_of_classes(operand_type: OperandType, seeds: tuple[int, int]) -> None:
    logits = np.random.default_rng(1).normal(0, 2, (3, 7)).astype(operand_type.dtype)
    samples = 20_000
    result = draw(logits, samples, *seeds, operand_type=operand_type)
    assert result.shape == (3, samples)
    for row, drawn in zip(logits.astype(np.float64), result, strict=True):
        probabilities = np.exp(row) / np.exp(row).sum()
        # Six standard deviations.
        limits = 6 * np.sqrt(probabilities * (1 - probabilities) / samples)
        counts = np.bincount(drawn, minlength=7)
        assert (np.abs(counts / samples - probabilities) <= limits).all()


def test_equal_seeds_give_equal_results() -> None:
    logits = np.zeros((2, 1000))
    first, again, other, swapped = (draw(logits, 50, *s) for s in ((1, 2), (1, 2), (1, 3), (2, 1)))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != swapped).any()
    assert (first[0] != first[1]).any()


def test_two_zeros_select_random_seeds() -> None:
    logits = np.zeros((1, 1_000_000))
    assert (draw(logits, 50, 0, 0) != draw(logits, 50, 0, 0)).any()


def test_classes_with_infinite_logits_are_never_drawn() -> None:
    result = draw([[math.nan, 0.0, -math.inf, 0.0, math.inf]], 200, 1, 2)
    assert set(result.ravel().tolist()) == {1, 3}


def test_large_logits() -> None:
    assert set(draw([[3e38, 3e38, -3e38]], 200, 1, 2).ravel().tolist()) == {0, 1}


@sweep(("rows", "classes", "samples"), [(0, 3, 4), (2, 3, 0), (0, 0, 5), (3, 0, 0)])
def test_nothing_to_draw(rows: int, classes: int, samples: int) -> None:
    assert draw(np.zeros((rows, classes)), samples, 1, 2).shape == (rows, samples)


@sweep("logits", [np.zeros((1, 0)), [[0.0], [math.nan]]])
def test_refuses_rows_without_a_possible_class(logits: Any) -> None:
    with pytest.raises(BadData, match=r"logits .*: row \d has no finite element"):
        draw(logits, 3, 1, 2)


def test_refuses_numbers() -> None:
    with pytest.raises(BadData, match=r"samples of RANDOM_MULTINOMIAL.* is -1; it must be at least 0"):
        draw(np.zeros((1, 2)), -1, 1, 2)
    with pytest.raises(BadData, match=r"seeds .* has shape \[3\]; \[2\] is expected"):
        draw(np.zeros((1, 2)), 1, 1, 2, 3)
    call = call_of(MULTINOMIAL, inputs(np.zeros((3, 2)), 2**31 - 1, ints(1, 2)), wanted(INT32))
    with pytest.raises(BadData, match=r"more than 2\^32 - 1 bytes"):
        DEFINITIONS[MULTINOMIAL].output_shapes(call)


def test_level() -> None:
    arguments = inputs(np.zeros((1, 2)), 3, ints(1, 2))
    assert level_of(MULTINOMIAL, arguments, wanted(INT32)) == FeatureLevel.LEVEL_3

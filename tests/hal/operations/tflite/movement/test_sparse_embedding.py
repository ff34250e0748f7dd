import math
from collections.abc import Sequence

import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

SPARSE = OperationType.TFLITE_EMBEDDING_LOOKUP_SPARSE
FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
TABLE = np.random.default_rng(1).integers(-128, 128, (5, 3, 2))


def combined(
    numbers: Sequence[int], indices: Array, shape: Sequence[int], weights: Sequence[float], combiner: int
) -> Array:
    """Combines lookup by lookup, as TFLite does."""
    result = np.zeros((*shape[:-1], *TABLE.shape[1:]))
    last: tuple[int, ...] | None = None
    total = squares = 0.0

    def finish() -> None:
        if last is not None and combiner:
            result[last] /= total if combiner == 1 else math.sqrt(squares)

    for number, index, weight in zip(numbers, indices.tolist(), weights, strict=True):
        if tuple(index[:-1]) != last:
            finish()
            last, total, squares = tuple(index[:-1]), 0.0, 0.0
        result[last] += TABLE[number] * weight
        total, squares = total + weight, squares + weight**2
    finish()
    return result


@sweep("combiner", [0, 1, 2])
@sweep(
    ("indices", "shape"),
    [
        ([[0, 0], [2, 0], [2, 1], [0, 1]], [3, 2]),
        ([[0, 1, 0], [0, 1, 1], [2, 1, 3], [2, 0, 1]], [3, 2, 4]),
        ([[0], [1], [1], [0]], [3]),
        (np.zeros((0, 2), int), [3, 2]),
        (np.zeros((0, 2), int), [0, 2]),
    ],
)
def test_rows_are_combined(indices: list[list[int]], shape: list[int], combiner: int) -> None:
    where = np.array(indices)
    numbers, weights = [1, 3, 0, 2][: len(where)], [1.0, 2.0, 4.0, 0.5][: len(where)]
    inputs = (
        ints(*numbers),
        given(INT32, where),
        ints(*shape),
        given(FLOAT32, weights),
        given(FLOAT32, TABLE),
        *scalars(combiner),
    )
    expected = combined(numbers, where, shape, weights, combiner)
    np.testing.assert_allclose(evaluate(SPARSE, inputs, wanted(FLOAT32)), expected, rtol=1e-6)


@sweep(
    ("numbers", "indices", "shape", "weights", "combiner", "message"),
    [
        ([5], [[0, 0]], [1, 1], [1.0], 0, "has 5 at 0"),
        ([0], [[1, 0]], [1, 1], [1.0], 0, "indexes below"),
        ([0], [[-1, 0]], [1, 1], [1.0], 0, "indexes below"),
        ([0], [[0, 0]], [-1, 1], [1.0], 0, "no length may be negative"),
        ([0], [[0, 0]], [1, 1], [1.0, 2.0], 0, "weights of shape"),
        ([0], [[0, 0, 0]], [1, 1], [1.0], 0, "indices of shape"),
        ([0], [[0, 0]], [1, 1], [1.0], 3, "combiner"),
        ([0], [[0, 0, 0]], [2**31 - 1, 2**31 - 1, 1], [1.0], 0, "more than 2.32 - 1 bytes"),
    ],
)
def test_refuses_inconsistent_lists(
    numbers: list[int],
    indices: list[list[int]],
    shape: list[int],
    weights: list[float],
    combiner: int,
    message: str,
) -> None:
    inputs = (
        ints(*numbers),
        given(INT32, indices),
        ints(*shape),
        given(FLOAT32, weights),
        given(FLOAT32, TABLE),
        *scalars(combiner),
    )
    with pytest.raises(BadData, match=message):
        evaluate(SPARSE, inputs, wanted(FLOAT32))

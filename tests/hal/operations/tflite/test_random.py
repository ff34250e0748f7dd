from typing import Any

import numpy as np
import pytest
from support.operations.single_operation import evaluate, evaluate_all, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.tflite.random import philox, threefry

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
DRAWN = (OperationType.TFLITE_RANDOM_UNIFORM, OperationType.TFLITE_RANDOM_STANDARD_NORMAL)


def test_words_equal_the_published_ones() -> None:
    """Checks the published answers for a key and a counter of zeros."""
    assert philox((0, 0), 4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox((0, 0), 7).tolist()[:4] == philox((0, 0), 4).tolist()
    assert len(philox((1, 2), 0)) == 0
    assert threefry(0, 3, 0).tolist()[:2] == [0x6B200159, 0x99BA4EFE]


@sweep("operation", DRAWN)
@sweep("shape", [(), (3,), (0, 2), (7, 5, 3)])
def test_equal_seeds_give_equal_results(operation: OperationType, shape: tuple[int, ...]) -> None:
    results = [evaluate(operation, (ints(*shape), ints(3, seed)), wanted(FLOAT32)) for seed in (-4, -4, 5)]
    np.testing.assert_array_equal(results[0], results[1])
    assert not results[0].size or (results[0] != results[2]).any()


@sweep("seeds", [(1, 2), (0, 0)])
def test_distributions(seeds: tuple[int, int]) -> None:
    uniform, normal = (
        evaluate(operation, (ints(100, 100), ints(*seeds)), wanted(FLOAT32)) for operation in DRAWN
    )
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.06
    assert abs(normal.std() - 1) < 0.04


@sweep("kind", [INT32, INT64])
def test_classes(kind: OperandType) -> None:
    logits = given(FLOAT32, [[0, np.log(3), -np.inf], [np.nan, -np.inf, 5]])
    inputs = logits, given(INT32, 4000), ints(1, 2)
    result = evaluate(OperationType.TFLITE_MULTINOMIAL, inputs, wanted(kind))
    assert abs((result[0] == 1).mean() - 0.75) < 0.04
    assert result[0].max() == 1
    assert (result[1] == 2).all()


def test_refuses_rows_without_a_possible_class() -> None:
    with pytest.raises(BadData, match="no finite element"):
        evaluate(
            OperationType.TFLITE_MULTINOMIAL,
            (given(FLOAT32, [[-np.inf]]), given(INT32, 1), ints(1, 2)),
            wanted(INT32),
        )


def test_two_seeds_are_required() -> None:
    with pytest.raises(BadData, match=r"\[2\] is expected"):
        evaluate(DRAWN[0], (ints(2), ints(1)), wanted(FLOAT32))


@sweep("kind", [INT32, INT64, OperandType.TENSOR_UINT32, OperandType.TENSOR_UINT64])
@sweep("algorithm", [0, 1, 2])
def test_bits_continue_from_the_state(kind: OperandType, algorithm: int) -> None:
    operation = OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR
    state = OperandType.TENSOR_UINT64
    outputs = wanted(state), wanted(kind)

    def drawn(source: Any, count: int) -> tuple[Array, ...]:
        return evaluate_all(operation, (given(state, source), ints(count), *scalars(algorithm)), *outputs)

    for start in ([5, 7], [5, 2**64 - 1]):
        following, whole = drawn(start, 8)
        middle, first = drawn(start, 4)
        last, second = drawn(middle, 4)
        np.testing.assert_array_equal(np.concatenate((first, second)), whole)
        np.testing.assert_array_equal(last, following)
    with pytest.raises(BadData, match="is expected"):
        drawn([5, 7, 3, 1], 4)


def test_bits_of_a_known_state() -> None:
    """If the state has no upper half of the counter, it is the key."""
    inputs = given(OperandType.TENSOR_UINT64, [5, 7]), ints(2), *scalars(1)
    outputs = wanted(OperandType.TENSOR_UINT64), wanted(OperandType.TENSOR_UINT32)
    following, bits = evaluate_all(OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR, inputs, *outputs)
    assert bits.tolist() == [0x74A851F1, 0xC4A35BA8]
    assert following.tolist() == [5, 8]

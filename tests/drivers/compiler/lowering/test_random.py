import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.operations.single_operation import FLOAT_TYPES, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

MULTINOMIAL = OperationType.RANDOM_MULTINOMIAL
FLOAT, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
generator = np.random.default_rng(3)


@sweep("kind", FLOAT_TYPES)
@sweep("seeds", [(1, 2), (-3, 2**31 - 1), (0, 7), (5, 0)])
def test_given_seeds(kind: OperandType, seeds: tuple[int, int]) -> None:
    for rows, classes, samples in ((1, 1, 1), (3, 7, 11), (2, 300, 1000), (1, 5, 0), (0, 5, 3)):
        logits = generator.normal(0, 3, (rows, classes))
        logits[generator.random(logits.shape) < 0.2] = -np.inf
        logits[generator.random(logits.shape) < 0.1] = np.nan
        logits[generator.random(logits.shape) < 0.1] = np.inf
        logits[generator.random(logits.shape) < 0.1] = -30_000  # its weight is 0
        logits[:, 0] = 1
        inputs = [given(kind, logits), *scalars(samples), ints(*seeds)]
        for data in ((0,), (0, 2)):
            expect_same(MULTINOMIAL, inputs, wanted(INT32), data=data)


def test_two_zeros_are_random_seeds() -> None:
    inputs = [given(FLOAT, np.zeros((1, 100))), *scalars(500), ints(0, 0)]
    for data in ((0,), (0, 2)):
        first, second = (lowered_all(MULTINOMIAL, inputs, wanted(INT32), data=data)[0] for _ in range(2))
        assert (first != second).mean() > 0.9


def test_a_row_without_finite_logits_fails() -> None:
    logits = [[0, 1], [np.nan, -np.inf]]
    with pytest.raises(RequirementFailed, match="no finite"):
        lowered_all(MULTINOMIAL, [given(FLOAT, logits), *scalars(2), ints(1, 2)], wanted(INT32))


def test_without_classes() -> None:
    inputs = [given(FLOAT, np.zeros((2, 0))), *scalars(2), ints(1, 2)]
    with pytest.raises(Unsupported, match="without classes"):
        lowered_all(MULTINOMIAL, inputs, wanted(INT32))

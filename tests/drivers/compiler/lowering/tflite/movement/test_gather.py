import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import FLOAT32, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, scalars
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
GATHER, GATHER_ND = OperationType.TFLITE_GATHER, OperationType.TFLITE_GATHER_ND


@sweep("data", [(0,), (0, 2)])
@sweep("kind", kinds(GATHER))
def test_gather(kind: OperandType, data: tuple[int, ...]) -> None:
    for axis, batches, picked in (
        (1, 0, [[2, 0], [1, 1]]),
        (1, 1, [[2, 0, 1], [1, 1, 0]]),
        (2, 1, [[3], [0]]),
        (2, 2, [[3, 2, 1], [0, 1, 2]]),
        (0, 0, 1),
    ):
        inputs = [numbers(kind, (2, 3, 4)), *scalars(axis), given(INT64, picked), *scalars(batches)]
        expect_same(GATHER, inputs, result(kind), data=data)


@sweep("data", [(0,), (0, 1)])
@sweep("kind", kinds(GATHER_ND))
def test_gather_nd(kind: OperandType, data: tuple[int, ...]) -> None:
    for picked in ([[1, 2], [0, 0]], [[1]], [1, 0, 3], np.zeros((2, 0)), np.zeros((0, 2))):
        inputs = [numbers(kind, (2, 3, 4)), given(INT32, picked)]
        expect_same(GATHER_ND, inputs, result(kind), data=data)


@sweep("wrong", [-1, 3, 2**32, -(2**33) + 1])
def test_indexes_must_be_in_range(wrong: int) -> None:
    values, indices = numbers(FLOAT32, (3, 2)), given(INT64, [[0], [wrong]])
    for data in ((0,), (0, 2)):
        with pytest.raises(RequirementFailed, match="from 0 to 2"):
            lowered_all(GATHER, [values, *scalars(0), indices, *scalars(0)], result(FLOAT32), data=data)
    with pytest.raises(RequirementFailed, match="expected"):
        lowered_all(
            GATHER_ND, [values, given(INT32, [[0], [max(-7, min(wrong, 7))]])], result(FLOAT32), data=(0, 1)
        )

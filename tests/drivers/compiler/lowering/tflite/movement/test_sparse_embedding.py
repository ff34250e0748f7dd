import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.compiler.moved import FLOAT32
from support.operations.pointwise import numbers
from support.operations.single_operation import Given, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32
SPARSE = OperationType.TFLITE_EMBEDDING_LOOKUP_SPARSE


def sparse(indices: list[list[int]], lookups: list[int], dense: list[int], combiner: int) -> list[Given]:
    weights = numbers(FLOAT32, (len(lookups),), low=0.5)
    return [
        ints(*lookups),
        given(INT32, indices),
        ints(*dense),
        weights,
        numbers(FLOAT32, (4, 2), low=0),
        *scalars(combiner),
    ]


@sweep("data", [(0, 3, 4), (3,)])
@sweep("combiner", [0, 1, 2])
def test_combined(combiner: int, data: tuple[int, ...]) -> None:
    indices = [[0, 1, 0], [0, 1, 1], [2, 0, 0], [2, 1, 0], [2, 1, 1], [2, 1, 2]]
    inputs = sparse(indices, [3, 0, 1, 1, 2, 0], [3, 2, 5], combiner)
    expect_same(SPARSE, inputs, wanted(FLOAT32), data=data, compare=close)


def test_destinations_that_are_not_adjacent() -> None:
    indices = [[1, 0], [0, 0], [1, 1]]
    expect_same(SPARSE, sparse(indices, [3, 0, 1], [2, 2], 0), wanted(FLOAT32), data=(0, 3, 4), compare=close)


@sweep("combiner", [0, 1, 2])
def test_indices_that_are_not_known(combiner: int) -> None:
    for indices, dense in (
        ([[1, 0], [0, 0], [1, 1]], [2, 2]),
        ([[0, 1, 0], [0, 1, 1], [2, 0, 0], [2, 1, 0], [0, 1, 2], [0, 1, 3]], [3, 2, 5]),
        ([[3]], [5]),
    ):
        inputs = sparse(indices, [3, 0, 1, 1, 2, 0][: len(indices)], dense, combiner)
        for data in ((0, 1, 3, 4), (0, 3, 4)):
            expect_same(SPARSE, inputs, wanted(FLOAT32), data=data, compare=close)


def test_indices_must_exist() -> None:
    for wrong in ([-1, 0], [2, 0]):
        inputs = sparse([[0, 0], wrong], [3, 0], [2, 2], 1)
        with pytest.raises(RequirementFailed, match="below"):
            lowered_all(SPARSE, inputs, wanted(FLOAT32), data=(0, 1, 3, 4))


def test_combined_rows_must_exist() -> None:
    with pytest.raises(RequirementFailed, match="from 0 to 3"):
        lowered_all(SPARSE, sparse([[1, 0]], [4], [2, 2], 0), wanted(FLOAT32), data=(0, 3, 4))

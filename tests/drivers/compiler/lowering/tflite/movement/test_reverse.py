import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import FLOAT32, expect_moved, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, ints, scalars
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

SEQUENCE = OperationType.TFLITE_REVERSE_SEQUENCE


@sweep(("shape", "axes"), [((2, 3, 4), (0, 2)), ((5,), (-1,)), ((0, 2), (0, 1)), ((2, 3), ()), ((), ())])
def test_reverse(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    expect_moved(OperationType.TFLITE_REVERSE_V2, shape, ints(*axes))


@sweep("data", [(0,), (0, 1)])
@sweep("kind", kinds(SEQUENCE))
def test_reverse_sequence(kind: OperandType, data: tuple[int, ...]) -> None:
    for along, batch, lengths in ((0, 1, (5, 0, 3)), (1, 0, (1, 2, 3, 0, 2)), (-1, 1, (4, 0, 3))):
        inputs = [numbers(kind, (5, 3, 4)), ints(*lengths), *scalars(along, batch)]
        expect_same(SEQUENCE, inputs, result(kind), data=data)


@sweep("wrong", [-1, 4, 2**33])
def test_lengths_must_be_in_range(wrong: int) -> None:
    inputs = [numbers(FLOAT32, (3, 2)), given(OperandType.TENSOR_INT64, [1, wrong]), *scalars(0, 1)]
    with pytest.raises(RequirementFailed, match="from 0 to 3"):
        lowered_all(SEQUENCE, inputs, result(FLOAT32), data=(0, 1))

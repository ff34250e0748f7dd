from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import expect_moved, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, ints
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


@sweep("kind", kinds(OperationType.TFLITE_RANGE))
@sweep(("start", "limit", "delta"), [(1, 9, 3), (5, -3, -2), (2, 2, 1)])
def test_range(kind: OperandType, start: int, limit: int, delta: int) -> None:
    inputs = [given(kind, number) for number in (start, limit, delta)]
    expect_same(OperationType.TFLITE_RANGE, inputs, result(kind), data=())


@sweep("data", [(), (1,)])
@sweep("kind", kinds(OperationType.TFLITE_FILL))
def test_fill(kind: OperandType, data: tuple[int, ...]) -> None:
    for dimensions in ((2, 3), (), (0, 4)):
        expect_same(
            OperationType.TFLITE_FILL, [ints(*dimensions), numbers(kind, ())], result(kind), data=data
        )


@sweep("shape", [(2, 3), (), (0,)])
def test_zeros_like(shape: tuple[int, ...]) -> None:
    expect_moved(OperationType.TFLITE_ZEROS_LIKE, shape)

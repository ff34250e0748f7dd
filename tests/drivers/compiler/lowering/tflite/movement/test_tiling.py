import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import expect_moved
from support.operations.single_operation import given, ints, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
ARGS = OperationType.TFLITE_BROADCAST_ARGS


def test_tile() -> None:
    expect_moved(OperationType.TFLITE_TILE, (1, 2, 1, 2, 3), given(INT64, [2, 1, 3, 2, 1]))


@sweep(
    ("shape", "target"),
    [((2, 1), (3, 2, 4)), ((), (2, 2)), ((3,), (3,)), ((1, 2), (0, 2)), ((1,), (1, 1, 1))],
)
def test_broadcast_to(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    expect_moved(OperationType.TFLITE_BROADCAST_TO, shape, ints(*target))


@sweep("data", [(), (0, 1), (1,)])
@sweep("kind", [INT32, INT64])
@sweep(("one", "other"), [((2, 1), (3, 2, 4)), ((3, 1, 0), (1,)), ((), (2,)), ((), ()), ((1, 1), (1, 5))])
def test_broadcast_args(
    one: tuple[int, ...], other: tuple[int, ...], kind: OperandType, data: tuple[int, ...]
) -> None:
    expect_same(ARGS, [given(kind, one), given(kind, other)], wanted(kind), data=data)


def test_shapes_that_do_not_broadcast_fail() -> None:
    with pytest.raises(RequirementFailed, match="broadcast"):
        lowered_all(ARGS, [ints(2, 3), ints(2)], wanted(INT32), data=(0, 1))

from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import PAIRS_OF_SHAPES, SHAPES, label, numbers, result, rows
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

OF_TWO = (
    OperationType.EQUAL,
    OperationType.NOT_EQUAL,
    OperationType.GREATER,
    OperationType.GREATER_EQUAL,
    OperationType.LESS,
    OperationType.LESS_EQUAL,
    OperationType.LOGICAL_AND,
    OperationType.LOGICAL_OR,
)
BOOL8 = OperandType.TENSOR_BOOL8


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(OF_TWO), ids=label)
def test_every_type(
    operation: OperationType,
    types: dict[str, OperandType],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    first = numbers(types["T"], shapes[0], scale=0.5)
    second = numbers(types["T"], shapes[1], seed=1, scale=0.25)
    expect_same(operation, [first, second], result(BOOL8), data=(0, 1))


@sweep("shape", SHAPES)
def test_not(shape: tuple[int, ...]) -> None:
    expect_same(OperationType.LOGICAL_NOT, [numbers(BOOL8, shape)], result(BOOL8))

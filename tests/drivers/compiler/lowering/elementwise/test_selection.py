from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import PAIRS_OF_SHAPES, SHAPES, label, numbers, result, rows, same
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

OF_TWO = (OperationType.MAXIMUM, OperationType.MINIMUM, OperationType.POW, OperationType.PRELU)


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(OF_TWO), ids=label)
def test_every_type(
    operation: OperationType,
    types: dict[str, OperandType],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    first = numbers(types["T"], shapes[0], scale=0.5)
    second = numbers(types["T"], shapes[1], seed=1, scale=0.25)
    expect_same(operation, [first, second], result(types["T"], 0.7), data=(0, 1), compare=same)


@sweep("output_scale", [0.5, 0.7])
@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows([OperationType.SELECT]), ids=label)
def test_select(
    operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...], output_scale: float
) -> None:
    condition = numbers(OperandType.TENSOR_BOOL8, shape)
    first = numbers(types["T"], shape, scale=0.5)
    second = numbers(types["T"], shape, seed=1, scale=0.25)
    expect_same(operation, [condition, first, second], result(types["T"], output_scale), data=(0, 1, 2))

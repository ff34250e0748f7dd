import pytest
from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import PAIRS_OF_SHAPES, label, numbers, result, rows, same
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType

pytestmark = pytest.mark.quick

ARITHMETIC = (OperationType.ADD, OperationType.SUB, OperationType.MUL, OperationType.DIV)
INT32 = OperandType.TENSOR_INT32


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(ARITHMETIC), ids=label)
def test_every_type(
    operation: OperationType,
    types: dict[str, OperandType],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    kind = types["T"]
    inputs = [numbers(kind, shapes[0], scale=0.5), numbers(kind, shapes[1], seed=1, scale=0.25)]
    for activation in FusedActivation if kind is not INT32 else [FusedActivation.NONE]:
        fused = given(OperandType.INT32, activation.value)
        expect_same(operation, [*inputs, fused], result(kind, 0.7), data=(0, 1), compare=same)


def test_integers_are_divided_as_in_android() -> None:
    first = given(INT32, [-(2**31), -(2**31), 7, -7, 7, -7, 5])
    second = given(INT32, [-1, 0, 2, 2, -2, -2, 0])
    inputs = [first, second, given(OperandType.INT32, 0)]
    expect_same(OperationType.DIV, inputs, result(INT32), data=(0, 1))

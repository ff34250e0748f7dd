import pytest
from support.lowering_beside_reference import expect_same
from support.pointwise import SHAPES, label, numbers, result, rows, same

from neurald.hal.operation_type import OperationType
from neurald.hal.types import OperandType


@pytest.mark.parametrize("output_scale", [0.05, 0.02])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("operation", "types"), rows([OperationType.HARD_SWISH]), ids=label)
def test_every_type(
    operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...], output_scale: float
) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["T"], output_scale), compare=same)

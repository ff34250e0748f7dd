from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows, same
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


@sweep("output_scale", [0.05, 0.02])
@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows([OperationType.HARD_SWISH]), ids=label)
def test_every_type(
    operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...], output_scale: float
) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["T"], output_scale), compare=same)

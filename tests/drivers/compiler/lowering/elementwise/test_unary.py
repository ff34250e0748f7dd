import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows, same
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FUNCTIONS = (
    OperationType.ABS,
    OperationType.EXP,
    OperationType.FLOOR,
    OperationType.LOG,
    OperationType.NEG,
    OperationType.RSQRT,
    OperationType.SIN,
    OperationType.SQRT,
)
FLOATS = [
    (OperandType.TENSOR_FLOAT32, OperandType.FLOAT32),
    (OperandType.TENSOR_FLOAT16, OperandType.FLOAT16),
]


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(FUNCTIONS), ids=label)
def test_every_type(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["T"], 0.04), compare=same)


@sweep("alpha", [0.0, 0.5, -2.0])
@sweep(("kind", "scalar"), FLOATS)
def test_elu(kind: OperandType, scalar: OperandType, alpha: float) -> None:
    x = given(kind, [-100, -1, -0.0, 0, 1, 100, 60000, np.inf, -np.inf, np.nan])
    expect_same(OperationType.ELU, [x, given(scalar, alpha)], result(kind), compare=same)

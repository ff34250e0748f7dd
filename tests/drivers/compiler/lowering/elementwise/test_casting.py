import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT = OperandType.TENSOR_FLOAT32


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows([OperationType.CAST]), ids=label)
def test_every_pair(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["U"]))


@sweep("target", [OperandType.TENSOR_INT32, OperandType.TENSOR_QUANT8_ASYMM])
def test_reals_saturate(target: OperandType) -> None:
    x = given(FLOAT, [-1.9, 1.9, -1e10, 1e10, 255.9, 256, np.inf, -np.inf, np.nan])
    expect_same(OperationType.CAST, [x], result(target))

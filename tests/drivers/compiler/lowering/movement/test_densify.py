from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import ints, omitted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

NONE = omitted(OperandType.TENSOR_INT32)


@sweep("kind", kinds(OperationType.DENSIFY))
def test_sparse_rows(kind: OperandType) -> None:
    levels = NONE, NONE, ints(0, 2, 2, 5), ints(1, 4, 0, 2, 3)
    inputs = [numbers(kind, (5,)), ints(0, 1), NONE, ints(0, 1), ints(3, 6), *levels]
    expect_same(OperationType.DENSIFY, inputs, result(kind))


def test_no_stored_elements() -> None:
    levels = NONE, NONE, ints(0, 0, 0), ints()
    kind = OperandType.TENSOR_QUANT8_ASYMM
    inputs = [numbers(kind, (0,)), ints(1, 0), NONE, ints(0, 1), ints(2, 3), *levels]
    expect_same(OperationType.DENSIFY, inputs, result(kind))

from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import numbers, result
from support.operations.single_operation import ints, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


@sweep("kind", [OperandType.TENSOR_INT64, OperandType.TENSOR_BOOL8, OperandType.TENSOR_QUANT16_SYMM])
def test_hashtable_lookup(kind: OperandType) -> None:
    hits = wanted(OperandType.TENSOR_QUANT8_ASYMM, 1.0, 0)
    inputs = [ints(3, 4, -1), ints(-1, 3), numbers(kind, (2, 2, 2))]
    expect_same(OperationType.TFLITE_HASHTABLE_LOOKUP, inputs, result(kind), hits, data=(0, 1, 2))

import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.single_operation import given, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
generator = np.random.default_rng(3)


@sweep("shape", [(), (1,)])
@sweep("limit", [0, 4, 30])
def test_boxes(limit: int, shape: tuple[int, ...]) -> None:
    boxes, scores = generator.random((20, 4)), generator.random(20)
    inputs = [given(FLOAT, boxes), given(FLOAT, scores), given(INT32, limit)]
    inputs += [given(FLOAT, np.full(shape, number)) for number in (0.3, 0.1, 0.5)]
    hard = OperationType.TFLITE_NON_MAX_SUPPRESSION_V4
    expect_same(hard, inputs[:-1], wanted(INT32), wanted(INT32), data=(0, 1))
    soft = OperationType.TFLITE_NON_MAX_SUPPRESSION_V5
    expect_same(soft, inputs, wanted(INT32), wanted(FLOAT), wanted(INT32), data=(0, 1, 3, 4, 5))

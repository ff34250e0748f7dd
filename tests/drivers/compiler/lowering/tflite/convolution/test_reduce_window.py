import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.convolution.reduce_window import Reduction

TYPES = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT64,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_BOOL8,
)
generator = np.random.default_rng(13)


@sweep("function", Reduction)
@sweep("kind", TYPES)
def test_windows(kind: OperandType, function: Reduction) -> None:
    scale = 1.0 if kind is OperandType.TENSOR_QUANT8_ASYMM else 0.0
    source = given(kind, generator.integers(0, 5, (4, 7, 5)), scale)
    for window, strides, dilations in (
        ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
        ((2, 3, 5), (1, 2, 1), (1, 1, 1)),
        ((2, 3, 2), (2, 1, 3), (3, 2, 1)),
        ((5, 1, 1), (1, 1, 1), (1, 1, 1)),
    ):
        initial = given(kind, 1, scale)
        inputs = [source, initial, ints(*window), ints(*strides), ints(*dilations), *scalars(int(function))]
        operation = OperationType.TFLITE_REDUCE_WINDOW
        expect_same(operation, inputs, wanted(kind, scale), data=(0, 1), compare=close)
